"""What one speaker says in one line, without its prefix: the text that tracebacks are put together from. Joins no lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy
from firstfault.readers.frames import HEAD, LEADING_COLOUR, clean
from firstfault.readers.identity import locate
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
    for piece in pieces_of(line, profile):
        said = said_of(piece, profile)
        if first is None:
            first = said
        elif not said.key and (first.who.label is not None or first.who.host is not None):
            said = said._replace(key=first.key, who=first.who)
        yield said


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
