"""Lines of a source by their numbers, read again with the places where they stand. Judges nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

MOST_TEXT = 400
"""Characters of a line that are kept."""
MOST_DRAWN = 64 << 20
"""Bytes of a line of carriage returns of which one piece is shown."""
_DRAWN_AGAIN = ord("\r")


class Line(NamedTuple):
    """A line that was read again."""

    offset: int
    """Byte at which its text begins; of a bar redrawn by carriage returns that of its last part."""
    text: str
    drawn: bytes = b""
    """The whole line where it is such a bar, up to `MOST_DRAWN` bytes; else empty."""

    def at_place(self, place: int | None) -> Line:
        """One of the pieces of a redrawn bar, counted from 0; itself where there is no such one, or none is asked for."""
        if not self.drawn or place is None:
            return self
        marks = np.flatnonzero(np.frombuffer(self.drawn, np.uint8) == _DRAWN_AGAIN)
        if not 0 <= place <= len(marks):
            return self
        begin = 0 if place == 0 else int(marks[place - 1]) + 1
        end = len(self.drawn) if place == len(marks) else int(marks[place])
        last = int(marks[-1]) + 1
        return Line(self.offset - last + begin, self.drawn[begin:end].decode("utf-8", "backslashreplace")[:MOST_TEXT])


def lines_of(store: Store, source: SourceId, wanted: Iterable[int]) -> dict[int, Line]:
    """Lines by number, each up to `MOST_TEXT` characters; of a bar redrawn by carriage returns its end."""
    numbers = sorted(wanted)
    found: dict[int, Line] = {}
    line, n, base = 1, 0, 0
    rest: list[bytes] = []
    for block in store.blocks(source):
        if n >= len(numbers):
            break
        if b"\n" not in block:  # a long line is put together once, not anew with each block
            rest.append(block)
            continue
        data = b"".join((*rest, block))
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        while n < len(numbers) and numbers[n] < line + len(ends):
            at = numbers[n] - line
            start = 0 if at == 0 else int(ends[at - 1]) + 1
            found[numbers[n]] = _shown(data[start : int(ends[at])], base + start)
            n += 1
        line += len(ends)
        whole = int(ends[-1]) + 1
        base, rest = base + whole, [data[whole:]]
    if n < len(numbers) and numbers[n] == line and (last := b"".join(rest)):
        found[line] = _shown(last, base)
    return found


def _shown(raw: bytes, offset: int) -> Line:
    raw = raw.rstrip(b"\r")
    at = raw.rfind(b"\r") + 1
    drawn = raw if at > 0 and len(raw) <= MOST_DRAWN else b""
    return Line(offset + at, raw[at:].decode("utf-8", "backslashreplace")[:MOST_TEXT], drawn)
