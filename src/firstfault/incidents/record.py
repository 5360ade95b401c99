"""One record: a Markdown file with a head, as read and as a person edits it.

Reading keeps the text as it is; every change goes through `firstfault.incidents.frontmatter`. Must not judge (see `lint`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.fences import with_code
from firstfault.incidents.fingerprint import Traits
from firstfault.incidents.frontmatter import Value, lines_of, read_head, value_of
from firstfault.incidents.words import ALIASES, OPEN_MARKS, OURS, SCHEMA, Section, State

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 1 << 20
"""Bytes of a record at most: it is a page that people read."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?\n?$")


_QUOTED = re.compile(r"(?m)^(?!`{3}|~{3})(?P<file>[^\n]{1,400}?):(?P<line>\d{1,12}): (?P<text>[^\n]+)$")


class Quoted(NamedTuple):
    """A line of a log as a record quotes it."""

    file: str
    text: str


class Record(Struct, frozen=True, kw_only=True):
    """One incident as its file tells it."""

    id: str
    state: State
    title: str
    text: str
    """The whole file."""
    values: dict[str, Value]
    """Keys of the head, with those that we do not know."""
    sections: dict[Section, str]
    """Texts below the headings that we know, without blanks around them."""
    own: str = ""
    """What stands outside of these, with its headings: what people or older notes tell beside them."""
    path: Path | None = None
    """Where it lies; None for one that ships with the program and one of a database."""
    place: str = ""
    """The database that holds it, without a password; empty for any other."""

    def one(self, key: str) -> str:
        """The text of a key; empty where it is absent or a list."""
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ""

    def all(self, key: str) -> tuple[str, ...]:
        """The items of a key; one where it holds a text, none where it is absent."""
        value = self.values.get(key, ())
        return value if isinstance(value, tuple) else (value,) if value else ()

    def said(self, section: Section) -> str:
        """What a section says; empty where it is absent or still open."""
        text = self.sections.get(section, "")
        return "" if is_open(text) else text

    def quoted(self) -> Iterator[Quoted]:
        """The lines under Evidence that have a file and a number before them, in their order."""
        for found in _QUOTED.finditer(self.sections.get(Section.EVIDENCE, "")):
            yield Quoted(found["file"], found["text"])

    @property
    def where(self) -> str:
        """The file for messages."""
        if self.path is not None:
            return str(self.path)
        return f"{self.place}#{self.id}" if self.place else self.id

    @property
    def traits(self) -> Traits:
        """The parts from which its fingerprint is made."""
        return Traits(**{name: self.one(name) for name in Traits.__struct_fields__})


def is_open(text: str) -> bool:
    """Whether a part waits for a person."""
    return not text.strip() or any(line.lstrip(" >*-_").startswith(OPEN_MARKS) for line in text.split("\n"))


def parse(text: str, path: Path | None = None, place: str = "") -> Record:
    """The record in a text, which lies at a path or in a database.

    Raises:
        IncidentError: it is none, or of a later version than this program reads.
    """
    where = place if path is None else str(path)
    head = read_head(text, where)
    # What a team keeps under keys of its own is theirs; ours have to be what they are.
    values = {key: value_of(entry) if key in OURS else entry.value for key, entry in head.entries.items()}
    schema = values.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise IncidentError(
            f"its schema is {schema!r}, and this version reads {SCHEMA!r}", where=where, fix="Use a later firstfault."
        )
    name = values.get("id", "" if path is None else path.stem)
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise IncidentError("it has no `id` of letters, digits, `.`, `_` and `-`", where=where, fix="Give it one.")
    word = values.get("state", "")
    if word not in {str(s) for s in State}:
        raise IncidentError(
            f"its state is {word!r}", where=where, fix=f"Use one of {', '.join(str(s) for s in State)}."
        )
    title, sections, own = _body(lines_of(text)[head.end + 1 :])
    said = values.get("title", "")
    return Record(
        id=name,
        state=State(str(word)),
        title=said if isinstance(said, str) and said else title or name,
        text=text,
        values=values,
        sections=sections,
        own=own,
        path=path,
        place=place,
    )


def _body(lines: list[str]) -> tuple[str, dict[Section, str], str]:
    """The first heading, the text of each known section, and all else; headings inside code are text."""
    title = ""
    section: Section | None = None
    level = 0
    parts: dict[Section | None, list[str]] = {}
    for line, inside in with_code(lines):
        heading = None if inside else _HEADING.match(line)
        if heading is not None:
            known = ALIASES.get(heading[2].strip().rstrip(":：").lower())
            if known is not None:
                section, level = known, len(heading[1])
                continue
            if len(heading[1]) == 1 and not title:
                title = heading[2]
                continue
            if len(heading[1]) <= level:
                section = None
        parts.setdefault(section, []).append(line)
    # How a file ends its lines is no part of what it says; the file itself keeps them.
    said = {key: "".join(held).replace("\r\n", "\n").strip() for key, held in parts.items()}
    own = said.pop(None, "")
    return title, {key: text for key, text in said.items() if key is not None}, own


def read_text(raw: bytes, where: str) -> str:
    """The text of a file.

    Raises:
        IncidentError: it is not UTF-8, or too large to be a record.
    """
    if len(raw) > LARGEST:
        raise IncidentError(f"it has {len(raw)} bytes, more than a page", where=where, fix="Move logs out of it.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise IncidentError("it is not UTF-8", where=where, fix="Save it as UTF-8.") from None
