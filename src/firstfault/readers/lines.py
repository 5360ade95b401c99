"""Lines of a source around an offset, with their numbers, read in bounded pieces. Knows nothing of what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from firstfault.model.evidence import Event, Span, When, Who
from firstfault.readers.inner import inner_parts
from firstfault.readers.recall import read_chain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.identity import SourceProfile

FIRST_CHUNK = 8 * 1024
CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024
PIECE = 1 << 20


class TextStore(Protocol):
    """What the readers need of the store of sources."""

    def read(self, source: SourceId, offset: int, length: int) -> bytes:
        """Bytes at an offset after decompression; shorter where the source ends."""

    def size(self, source: SourceId) -> int:
        """Bytes of a source after decompression."""


class Line(NamedTuple):
    """One line without its end; very long ones are cut."""

    number: int
    """1-based."""
    offset: int
    text: bytes


MOST_SAID = 4096
"""Characters that are kept of a line."""


def last_part(line: Line) -> bytes:
    r"""What a line shows: of a bar that is redrawn by `\r`, its last state."""
    return line.text.rsplit(b"\r", 1)[-1]


def said_in_line(
    signature: str, source: SourceId, line: Line, who: Who | None = None, when: When | None = None
) -> Event:
    """The last part of a line as an event of a name of ours: it is quoted, and no signature knows it."""
    part = last_part(line)
    begin = len(line.text) - len(part)
    return Event(
        signature=signature,
        span=Span(source, line.offset + begin, len(part), line.number, begin + 1),
        text=part.decode("utf-8", "backslashreplace")[:MOST_SAID],
        who=Who() if who is None else who,
        when=When() if when is None else when,
    )


def number_at(store: TextStore, source: SourceId, offset: int) -> int:
    """The number, from 1, of the line in which an offset lies; counts all newlines before it, piece by piece."""
    return 1 + sum(store.read(source, at, min(PIECE, offset - at)).count(b"\n") for at in range(0, offset, PIECE))


def lines_from(store: TextStore, source: SourceId, offset: int, number: int, max_bytes: int) -> Iterator[Line]:
    """Lines from the line that starts at an offset, as far as `max_bytes` reach; the last may be cut."""
    rest = b""
    at = offset
    end = offset + max_bytes
    step = FIRST_CHUNK
    while at < end:
        block = store.read(source, at, min(step, end - at))
        if not block:
            break
        step = min(CHUNK, step * 4)
        at += len(block)
        rest += block
        pieces = rest.split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            yield Line(number, offset, piece[:LONGEST_LINE].removesuffix(b"\r"))
            number += 1
            offset += len(piece) + 1
        if len(rest) > LONGEST_LINE:
            newline = _next_newline(store, source, at, end)
            yield Line(number, offset, rest[:LONGEST_LINE])
            if newline is None:
                return
            number, offset, at, rest = number + 1, newline + 1, newline + 1, b""
    if rest:
        yield Line(number, offset, rest[:LONGEST_LINE].removesuffix(b"\r"))


def _next_newline(store: TextStore, source: SourceId, at: int, end: int) -> int | None:
    while at < end:
        block = store.read(source, at, min(CHUNK, end - at))
        if not block:
            return None
        found = block.find(b"\n")
        if found >= 0:
            return at + found
        at += len(block)
    return None


def lines_back(
    store: TextStore, source: SourceId, offset: int, number: int, max_lines: int, *, max_bytes: int = CHUNK
) -> list[Line]:
    """Lines before the line that starts at an offset and has a number, oldest first; one that is not whole is left out."""
    start = max(0, offset - max_bytes)
    data = store.read(source, start, offset - start)
    pieces = data.removesuffix(b"\n").split(b"\n") if data else []
    if start > 0:
        pieces = pieces[1:]
    pieces = pieces[max(0, len(pieces) - max_lines) :]
    start = offset - sum(map(len, pieces)) - len(pieces) + (not data.endswith(b"\n"))
    found = []
    for at, piece in enumerate(pieces, start=number - len(pieces)):
        found.append(Line(at, start, piece[:LONGEST_LINE].removesuffix(b"\r")))
        start += len(piece) + 1
    return found


class Piece(NamedTuple):
    r"""What one speaker says in one line: a `\r` part, or a part behind an inner prefix."""

    line: Line
    start: int
    """Position in the line at which the piece (with its prefix) begins."""
    raw: bytes
    """The piece with its prefix."""


def pieces_of(line: Line, profile: SourceProfile) -> Iterator[Piece]:
    r"""Splits a line at `\r` and at prefixes inside it."""
    start = 0
    if not line.text:
        yield Piece(line, 0, b"")
    for segment in line.text.split(b"\r"):
        if segment:
            begin = 0
            if segment.find(b"[", 1) >= 0 or segment.find(b"(", 1) >= 0:
                for inner in inner_parts(segment, max(1, read_chain(segment, 0, profile).position), len(segment)):
                    yield Piece(line, start + begin, segment[begin:inner])
                    begin = inner
            yield Piece(line, start + begin, segment[begin:])
        start += len(segment) + 1
