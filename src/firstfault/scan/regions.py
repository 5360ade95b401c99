"""Cuts a stretch of a source into regions that an engine can search, so that no segment is torn.

A segment is a line, or one part of it between carriage returns (a progress bar redraws itself so). A region ends behind a
newline, else behind a carriage return; only a segment longer than `GIANT` is given in parts, which overlap by so much
that every window of it (`WINDOW` bytes from each multiple of `STEP`, counted from its start) lies whole in one of them.
Windows hang on the segment and not on the region: the size of blocks can change no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = 32 * 1024
WINDOW = 2 * STEP
GIANT = 1024 * 1024
BLOCK = 512 * 1024


class Reader(Protocol):
    """Fills a buffer with the bytes from an absolute offset; gives how many there were, 0 at the end."""

    def __call__(self, offset: int, buffer: memoryview, /) -> int:
        """Reads once."""


class Region(Struct):
    """A stretch of a source in memory; valid until the next one is asked for."""

    data: bytearray
    size: int
    """Bytes of `data` that count."""
    offset: int
    """Absolute offset of the first byte."""
    used: int
    """Bytes that the next region does not repeat."""
    line_start: int
    """Absolute offset at which the line of the first byte starts."""
    segment_start: int
    """Absolute offset at which the segment of the first byte starts; before `offset` inside a giant."""
    open_end: bool
    """Whether the last segment goes on behind the region."""


def regions(read: Reader, start: int, end: int, block: int = BLOCK) -> Iterator[Region]:
    """Regions of a stretch that starts at the start of a line, in order.

    Args:
        read: gives the bytes.
        start: absolute offset of the stretch.
        end: absolute offset behind it.
        block: bytes to read at a time.

    Raises:
        OSError: the source can no longer be read.
    """
    # Of thousands of small files none needs a whole block, which costs more to make than they do to read.
    data = bytearray(max(1, min(block, end - start + 1)))
    filled = newlines_to = returns_to = 0
    position = line_start = segment_start = start
    """Where `data` begins in the source."""
    while True:
        if filled == len(data):
            data.extend(bytes(len(data)))
        wanted = min(len(data) - filled, end - position - filled)
        got = 0
        if wanted > 0:
            with memoryview(data) as view:
                got = read(position + filled, view[filled : filled + wanted])
        filled += got
        if got == 0:
            if filled:
                yield Region(data, filled, position, filled, line_start, segment_start, open_end=False)
            return
        cut = data.rfind(b"\n", newlines_to, filled) + 1
        newline = cut > 0
        cut = cut or data.rfind(b"\r", returns_to, filled) + 1
        if cut:
            yield Region(data, cut, position, cut, line_start, segment_start, open_end=False)
            segment_start = position + cut
            if newline:
                line_start = segment_start
        elif filled >= GIANT:
            windows = (position + filled - segment_start - WINDOW) // STEP + 1
            cut = segment_start + windows * STEP - position
            yield Region(data, filled, position, cut, line_start, segment_start, open_end=True)
        else:
            newlines_to = returns_to = filled
            continue
        data[: filled - cut] = data[cut:filled]
        position += cut
        filled -= cut
        newlines_to = filled
        returns_to = 0 if newline else filled
        if len(data) > block and filled <= block // 2:
            del data[max(block, filled) :]
