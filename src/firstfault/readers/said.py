"""What one speaker says in one line, without its prefix: the text that tracebacks are put together from. Joins no lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy
from firstfault.readers.frames import HEAD, LEADING_COLOUR, clean
from firstfault.readers.identity import locate
from firstfault.readers.json_prefix import string_at
from firstfault.readers.lines import pieces_of
from firstfault.readers.raised import json_text
from firstfault.readers.recall import read_chain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import Who
    from firstfault.model.place import Stamp
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import Line, Piece

_NUMBERS = lazy(rb"\d+")


class Said(NamedTuple):
    """One piece of a line, with its speaker and without its prefix."""

    line: Line
    offset: int
    """Byte offset in the source of `text`."""
    column: int
    text: str
    raw: bytes
    key: bytes
    who: Who
    level: str | None
    headed: bool
    """Whether a logger's header stands before the text."""
    stamp: Stamp | None
    shape: bytes
    """Prefix with its numbers left out: a rank's traceback keeps one form of it."""


def said_in(line: Line, profile: SourceProfile) -> Iterator[Said]:
    r"""What is said in a line, piece by piece.

    The label of a collector or launcher stands once, before the first `\r`: what follows is said by the same one.
    """
    first: Said | None = None
    record = line.text.lstrip()[:1] == b"{"
    for piece in pieces_of(line, profile):
        said = said_of(piece, profile)
        if record:
            said = said if first is None else _ended(said)
            aside = _beside(piece, said)
            if aside is not None:
                # What the program said of it comes before it, in whatever order the fields stand.
                if HEAD.decode() not in said.text:
                    yield said
                first, said = first or said, aside
        if first is None:
            first = said
        elif not said.key and (first.who.label is not None or first.who.host is not None):
            said = said._replace(key=first.key, who=first.who)
        yield said


def _ended(said: Said) -> Said:
    """The same up to the end of the string of the record in which it stands."""
    raw = json_text(said.raw)
    return said._replace(text=clean(raw), raw=raw)


def _beside(piece: Piece, said: Said) -> Said | None:
    """The traceback that a record keeps in a field beside its message; None where it has none."""
    head = piece.raw.find(HEAD)
    at = None if head < 0 else string_at(piece.raw, head)
    if at is None or at <= said.column - 1 - piece.start <= head:
        return None
    raw = json_text(piece.raw[at:])
    start = piece.start + at
    return said._replace(offset=piece.line.offset + start, column=start + 1, text=clean(raw), raw=raw)


def said_of(piece: Piece, profile: SourceProfile) -> Said:
    """One piece of a line, with its speaker and without its prefix."""
    raw = piece.raw
    head = raw.find(HEAD)
    found = locate(raw, max(head, 0), profile)
    chain = read_chain(raw, 0, profile)
    at = found.body if head >= found.body > chain.position else min(chain.position, len(raw))
    colour = LEADING_COLOUR.match(raw, at)
    at = at if colour is None else colour.end()
    body = raw[at:]
    if raw.lstrip()[:1] == b"{" and at:
        body = json_text(body)
    headed = (chain.level is not None or chain.c10 or chain.device is not None) and raw[:1] != b"{"
    start = piece.start + at
    line = piece.line
    return Said(
        line,
        line.offset + start,
        start + 1,
        clean(body),
        body,
        found.key,
        found.who,
        found.level,
        headed,
        found.stamp,
        _NUMBERS.sub(b"#", raw[: found.body if head >= 0 else chain.position]).rstrip(),
    )
