"""Holds signatures against the rules of the shared dialect: examples, cost, overlap, completeness.

Judges signature files only; it reads no log. Each complaint says where, what, and what to change.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.patterns import Signature
from firstfault.model.words import Mark, Role
from firstfault.readers.identity import body_starts
from firstfault.scan.literals import required_literals
from firstfault.scan.ordinary import ORDINARY
from firstfault.signatures.errors import SignatureError
from firstfault.signatures.library import Library, load_library
from firstfault.signatures.loader import TABLES, faults, merge, parse_signature, read_tables, signature_id
from firstfault.signatures.match import Matcher, engine_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from firstfault.model.patterns import SignatureFile

TITLE = 90
LITERAL = 4
"""Bytes in a row of which every match must hold some; with fewer, ordinary lines would be looked at one by one."""
PLACEHOLDER = "FILL IN"
EXCEPTIONS = ("python.exception",)
"""What a traceback is called that no signature knows; it has no file, and may be named."""
_OUTSIDE = (
    (
        re.compile(r"\(\?(?:=|!|<=|<!)"),
        "looks around, which engines cannot do",
        "match the text itself, or use `unless`",
    ),
    (re.compile(r"\\[1-9]|\(\?P="), "refers back to a group", "write the text out, or take it with `extract`"),
    (re.compile(r"(?:[*+?}])\+|\(\?>"), "is possessive or atomic", "use a plain repeat"),
    (re.compile(r"(?<!\\)\$|\\[AZzK]"), "has an anchor at its end", "match a literal instead, or use `extract`"),
    (re.compile(r"(?<![\\\[])\^"), "has `^` after its first character", "`^` may only be the first character"),
    (re.compile(r"(?<!\\)\[\^(?![^\]]*\\n)"), "has a negated class that lets a newline through", r"write `[^…\n]`"),
)
_OPEN_END = re.compile(r"(?:\.|\]|\)|\\[wdsSWD])(?<!\\\))[*+]\??$")


class Complaint(Struct, frozen=True, order=True):
    """One thing that is wrong with one file."""

    where: str
    """Path of the file, relative to its folder."""
    what: str
    fix: str


class Checked(Struct, frozen=True, kw_only=True):
    """What a check found."""

    files: int
    replaced: tuple[str, ...]
    """Ids of ours that a file of the folder replaces."""
    complaints: tuple[Complaint, ...]


def check_folder(folder: Path) -> Checked:
    """Checks every signature and table of a folder against the rules and against our own library.

    Returns:
        Complaints sorted by file; none where all is well.
    """
    complaints: list[Complaint] = []
    own: list[Signature] = []
    for file in sorted(folder.rglob("*.toml")):
        where = str(file.relative_to(folder))
        if TABLES in file.relative_to(folder).parts:
            continue
        try:
            text = file.read_text(encoding="utf-8")
            own.append(Signature(signature_id(folder, file), parse_signature(text, where)))
        except SignatureError:
            complaints += [Complaint(where, e.what, e.fix) for e in faults(text, where)]
        except UnicodeDecodeError:
            complaints.append(Complaint(where, "not UTF-8 text", "Save it as UTF-8"))
    ours = load_library()
    try:
        tables = {**ours.tables, **read_tables(folder)}
    except SignatureError as error:
        complaints.append(Complaint(error.where, error.what, error.fix))
        tables = ours.tables
    library = Library(merge([list(ours.signatures), own]), tables)
    complaints += check_signatures(own, library)
    replaced = tuple(s.id for s in own if s.id in ours.by_id)
    return Checked(files=len(own), replaced=replaced, complaints=tuple(sorted(complaints)))


def check_signatures(own: list[Signature], library: Library) -> list[Complaint]:
    """Checks signatures as parts of a library; those whose expressions do not compile are told and left out of the rest."""
    complaints: list[Complaint] = []
    sound: list[Signature] = []
    for signature in own:
        broken = list(_expressions(signature.spec))
        complaints += [Complaint(_file(signature), what, fix) for what, fix in broken]
        complaints += [Complaint(_file(signature), what, fix) for what, fix in _complete(signature.spec, library)]
        if not any(what.endswith("does not compile") for what, _ in broken):
            sound.append(signature)
    bad = {s.id for s in own} - {s.id for s in sound}
    matchers = {s.id: Matcher(s.spec, s.words) for s in library.signatures if s.id not in bad}
    for signature in sound:
        complaints += [Complaint(_file(signature), w, f) for w, f in _examples(signature, library, matchers)]
    return complaints


def _file(signature: Signature) -> str:
    return signature.id.replace(".", "/") + ".toml"


def _expressions(spec: SignatureFile) -> Iterator[tuple[str, str]]:
    if not spec.patterns:
        yield "it has no pattern", "Add at least one to `patterns`"
    for kind, patterns in (("pattern", spec.patterns), ("unless", spec.unless), ("extract", spec.extract)):
        for pattern in patterns:
            try:
                re.compile(pattern.encode())
            except re.error as error:
                yield f"{kind} {pattern!r} does not compile", f"{error}: correct it at that place"
                continue
            if kind == "pattern":
                yield from _dialect(pattern)


def _dialect(pattern: str) -> Iterator[tuple[str, str]]:
    body = engine_pattern(pattern)
    for banned, what, fix in _OUTSIDE:
        if banned.search(body):
            yield f"pattern {pattern!r} {what}", fix[:1].upper() + fix[1:]
    if _OPEN_END.search(body):
        yield (
            f"pattern {pattern!r} ends in an open repeat",
            "End it at a literal or `\\b`; take the rest with `extract`",
        )
    if body.startswith((".*", ".+")):
        yield (
            f"pattern {pattern!r} begins with an open repeat",
            "Begin with a literal; a pattern matches anywhere in a line",
        )
    yield from _cost(pattern)


def _cost(pattern: str) -> Iterator[tuple[str, str]]:
    """Complaints about the words that the engines search for; that each match holds one of them is all they know."""
    literals = required_literals(engine_pattern(pattern))
    if literals is None or literals.shortest < LITERAL:
        yield (
            f"pattern {pattern!r} is dear: it holds no {LITERAL} fixed characters in a row",
            "Add literal text that ordinary lines do not hold, or write fewer alternatives",
        )
    elif literals.ordinary:
        text = ORDINARY.lower() if literals.any_case else ORDINARY
        usual = next(w for w in literals.words if w in text).decode("utf-8", "replace")
        yield (
            f"pattern {pattern!r} is dear: healthy jobs print {usual!r} by the million",
            "Add literal text that ordinary lines do not hold; let the event itself, not the line around it, decide",
        )


def _complete(spec: SignatureFile, library: Library) -> Iterator[tuple[str, str]]:
    if not spec.match:
        yield "it has no matching example", "Add a `[[match]]` with a real line"
    if not spec.no_match or not all(e.why for e in spec.no_match):
        yield "it has no look-alike with its reason", "Add a `[[no_match]]` with a line that must not match, and `why`"
    if not spec.sources:
        yield "it names no source", "Add a `[[sources]]` with `what` and `date`"
    if len(spec.title) > TITLE:
        yield f"its title has {len(spec.title)} characters", f"Keep it within {TITLE}"
    for name in ("meaning", "not_proof"):
        if not getattr(spec, name).endswith("."):
            yield f"`{name}` is no sentence", "End it with a full stop"
    if spec.role in {Role.CAUSE, Role.EFFECT} and not spec.advice:
        yield "it advises nothing", "Add at least one step to `advice`"
    if spec.role is Role.CAUSE and None in (spec.category, spec.domain, spec.layer):
        yield "a cause needs `category`, `domain` and `layer`", "Set all three"
    if Mark.RETRY in spec.marks and spec.fatal:
        yield "a retry is not fatal", "Set `fatal = false`"
    if spec.table and spec.table not in library.tables:
        yield f"there is no table {spec.table!r}", f"Add `{TABLES}/{spec.table}.toml`, or drop it"
    texts = [spec.title, spec.meaning, spec.not_proof, *spec.advice, *spec.patterns, *(e.line for e in spec.match)]
    if any(PLACEHOLDER in t for t in texts):
        yield "parts of the template are not filled in", f"Replace every `{PLACEHOLDER}`"
    for field in ("refines", "explains", "together"):
        for glob in getattr(spec, field):
            if not any(fnmatchcase(name, glob) for name in (*library.by_id, *EXCEPTIONS)):
                yield (
                    f"`{field}` names {glob!r}, which does not exist",
                    "Correct the id; see `firstfault signatures list`",
                )


def claims(line: str, library: Library, matchers: dict[str, Matcher]) -> dict[str, dict[str, str]]:
    """Every signature that claims a line, with its fields, after `refines` and `generic` are applied."""
    found: dict[str, dict[str, str]] = {}
    for part in line.encode("utf-8", "surrogateescape").split(b"\r"):
        starts = body_starts(part)
        for name, matcher in matchers.items():
            for match in matcher.find(part, starts):
                found.setdefault(name, match.fields)
    dropped = {general for name in found for general in library.by_id[name].refines}
    if any(not library.by_id[name].generic for name in found):
        dropped |= {name for name in found if library.by_id[name].generic}
    return {name: fields for name, fields in found.items() if name not in dropped}


def _examples(signature: Signature, library: Library, matchers: dict[str, Matcher]) -> Iterator[tuple[str, str]]:
    for example in signature.spec.match:
        found = claims(example.line, library, matchers)
        if signature.id not in found:
            yield f"its example does not match: {example.line!r}", "Correct the pattern or the line (see also `unless`)"
            continue
        for name, value in example.fields.items():
            got = found[signature.id].get(name)
            if got != value:
                yield f"field {name!r} of {example.line!r} is {got!r}, not {value!r}", "Correct the pattern or `fields`"
        for other in found:
            if other != signature.id and not _together(signature.id, other, library):
                yield (
                    f"{other} claims its example too: {example.line!r}",
                    "Name it in `refines` if yours is the more precise one, else in `together`",
                )
    for example in signature.spec.no_match:
        for part in example.line.encode().split(b"\r"):
            if matchers[signature.id].find(part, body_starts(part)):
                yield f"its look-alike matches: {example.line!r}", "Narrow the pattern, or add to `unless`"


def _together(one: str, other: str, library: Library) -> bool:
    return any(fnmatchcase(other, g) for g in library.by_id[one].together) or any(
        fnmatchcase(one, g) for g in library.by_id[other].together
    )
