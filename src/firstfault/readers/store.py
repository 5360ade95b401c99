"""Random access to the bytes of every source, with flat memory.

A source is an extent: a stretch of one file on this machine (the file itself, a member of a plain tar, or what was
unpacked into the private spool) or at an address. A store can be pickled; a worker process opens the files for itself.
It must not know what the bytes mean.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.files import LOOK, read_at, read_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.model.evidence import SourceId
    from firstfault.readers.far import FarFiles

_OPEN_FILES = 64
"""Descriptors kept open at a time; a job may leave more files than the limit of open files."""
BLOCK = 1024 * 1024
SMALL = 128 * 1024
"""Bytes up to which a source is read as a whole and the last such one kept: readers look at one source many times."""


class Extent(Struct, frozen=True):
    """A stretch of one file on this machine, or at an address."""

    path: str
    start: int
    size: int

    @property
    def is_far(self) -> bool:
        """Whether it lies at an address; a path of this machine never holds two slashes side by side."""
        return "://" in self.path


class Store:
    """The bytes of all sources of one input, by source id."""

    def __init__(self, extents: Sequence[Extent]) -> None:
        self._extents = tuple(extents)
        self._files: OrderedDict[str, int] = OrderedDict()
        self._last: tuple[SourceId, bytes, tuple[int, int]] | None = None
        self._far: FarFiles | None = None

    def __getstate__(self) -> tuple[Extent, ...]:
        return self._extents

    def __setstate__(self, state: tuple[Extent, ...]) -> None:
        self._extents = state
        self._files = OrderedDict()
        self._last = None
        self._far = None

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where each source lies, by source id."""
        return self._extents

    def close(self) -> None:
        """Closes the files; the store opens them again when it is read again."""
        self._last = None
        if self._far is not None:
            self._far.close()
        while self._files:
            os.close(self._files.popitem()[1])

    def size(self, source: SourceId) -> int:
        """Bytes of a source, after decompression."""
        return self._extents[source].size

    def read(self, source: SourceId, offset: int, length: int) -> bytes:
        """Bytes of a source from an offset; fewer where it ends before.

        Raises:
            OSError: the file can no longer be read.
        """
        extent = self._extents[source]
        if extent.is_far:
            return self._read_far(extent, offset, length)
        descriptor = self._descriptor(extent.path)
        if extent.size > SMALL:
            return read_extent(descriptor, extent, offset, length)
        told = os.fstat(descriptor)
        state = (told.st_size, told.st_mtime_ns)  # what was changed meanwhile is read again
        last = self._last  # looked at once: threads may share a store
        if last is not None and last[0] == source and last[2] == state:
            return last[1][offset : offset + length] if offset >= 0 and length > 0 else b""
        data = read_extent(descriptor, extent, 0, extent.size)
        self._last = (source, data, state)
        return data[offset : offset + length] if offset >= 0 and length > 0 else b""

    def read_into(self, source: SourceId, offset: int, buffer: memoryview) -> int:
        """Fills a buffer from an offset; gives the number of bytes, 0 at the end.

        Raises:
            OSError: the file can no longer be read.
        """
        extent = self._extents[source]
        wanted = min(len(buffer), extent.size - offset)
        if wanted <= 0 or offset < 0:
            return 0
        if extent.is_far:
            data = self._read_far(extent, offset, wanted)
            buffer[: len(data)] = data
            return len(data)
        return read_into(self._descriptor(extent.path), buffer[:wanted], extent.start + offset)

    def blocks(self, source: SourceId, start: int = 0, end: int | None = None, size: int = BLOCK) -> Iterator[bytes]:
        """Consecutive blocks of a source between two offsets."""
        stop = self.size(source) if end is None else min(end, self.size(source))
        position = max(0, start)
        while position < stop:
            block = self.read(source, position, min(size, stop - position))
            if not block:
                return
            yield block
            position += len(block)

    def head(self, source: SourceId, n: int) -> bytes:
        """The first bytes of a source."""
        return self.read(source, 0, n)

    def tail(self, source: SourceId, n: int) -> bytes:
        """The last bytes of a source."""
        size = self.size(source)
        return self.read(source, max(0, size - n), min(n, size))

    def _read_far(self, extent: Extent, offset: int, length: int) -> bytes:
        wanted = min(length, extent.size - offset)
        if wanted <= 0 or offset < 0:
            return b""
        if self._far is None:
            from firstfault.readers.far import FarFiles

            self._far = FarFiles()
        return self._far.read(extent.path, extent.start + offset, wanted)

    def _descriptor(self, path: str) -> int:
        known = self._files.get(path)
        if known is not None:
            self._files.move_to_end(path)
            return known
        if len(self._files) >= _OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        opened = os.open(path, LOOK)
        self._files[path] = opened
        return opened


def read_extent(descriptor: int, extent: Extent, offset: int, length: int) -> bytes:
    """Bytes of an extent from an offset; fewer where it ends before.

    Raises:
        OSError: the file cannot be read.
    """
    wanted = min(length, extent.size - offset)
    if wanted <= 0 or offset < 0:
        return b""
    parts = []
    position = extent.start + offset
    while wanted > 0:
        part = read_at(descriptor, min(wanted, 1 << 30), position)
        if not part:
            break
        parts.append(part)
        position += len(part)
        wanted -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
