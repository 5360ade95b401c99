"""Finds and counts newlines; `bytes.count` takes as long as the whole scan, numpy a tenth, but loading it costs more.

Small inputs therefore go without numpy; both ways give the same.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FEW = 4096
MANY = 12
"""Places in one region from which on all its newlines are found at once."""
DENSE = 256
"""Bytes to a place, on average, below which every line is looked at."""
_numpy_wanted = False

Line = tuple[int, int, int, list[int]]
"""Newlines before it in the data, start, end (its newline, or the end of the data), and the places asked for in it."""


def want_numpy() -> None:
    """Says that much is going to be counted in this process: numpy is loaded at the next count."""
    global _numpy_wanted  # noqa: PLW0603 - one switch of the process, set once before work starts
    _numpy_wanted = True


def count_newlines(data: bytes | bytearray, start: int, end: int) -> int:
    """Number of newlines between two positions."""
    if end - start <= _FEW or not (_numpy_wanted or "numpy" in sys.modules):
        return data.count(b"\n", start, end)
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(data, np.uint8, end - start, start) == 0x0A))


def lines_of(data: bytearray, size: int, places: Sequence[int], shift: int) -> Iterator[Line]:
    """The lines in which places lie, in order.

    Args:
        data: the bytes, of which `size` count.
        size: number of bytes.
        places: `position << shift | something`, ascending.
        shift: see there.
    """
    if len(places) >= MANY and (_numpy_wanted or "numpy" in sys.modules):
        yield from _all_at_once(data, size, places, shift)
    elif size < DENSE * len(places):
        yield from _line_by_line(data, size, places, shift)
    else:
        yield from _one_by_one(data, size, places, shift)


def _one_by_one(data: bytearray, size: int, places: Sequence[int], shift: int) -> Iterator[Line]:
    before = counted = 0
    start = end = -1
    asked: list[int] = []
    for place in places:
        at = place >> shift
        if at <= end:
            asked.append(place)
            continue
        if asked:
            yield before, start, end, asked
        start = data.rfind(b"\n", max(0, end), at) + 1 or counted
        end = data.find(b"\n", at, size)
        end = size if end < 0 else end
        before += count_newlines(data, counted, start)
        counted = start
        asked = [place]
    if asked:
        yield before, start, end, asked


def _line_by_line(data: bytearray, size: int, places: Sequence[int], shift: int) -> Iterator[Line]:
    before = start = 0
    end = data.find(b"\n", 0, size)
    asked: list[int] = []
    for place in places:
        at = place >> shift
        if at <= end or end < 0:
            asked.append(place)
            continue
        if asked:
            yield before, start, end, asked
        while 0 <= end < at:
            before += 1
            start = end + 1
            end = data.find(b"\n", start, size)
        asked = [place]
    if asked:
        yield before, start, size if end < 0 else end, asked


def _all_at_once(data: bytearray, size: int, places: Sequence[int], shift: int) -> Iterator[Line]:
    import numpy as np

    newlines = np.flatnonzero(np.frombuffer(data, np.uint8, size) == 0x0A)
    numbers = np.searchsorted(newlines, np.asarray(places, np.int64) >> shift)
    borders = np.concatenate(([-1], newlines, [size]))
    starts = (borders[numbers] + 1).tolist()
    ends = borders[numbers + 1].tolist()
    for number, group in groupby(zip(numbers.tolist(), starts, ends, places, strict=True), key=lambda line: line[0]):
        same = list(group)
        yield number, same[0][1], same[0][2], [line[3] for line in same]
