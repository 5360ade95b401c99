"""What the readers of compressed files and archives share: limits, members, and a container that lies in an extent.

Unpacked bytes go to the spool and nowhere else.
"""

from __future__ import annotations

import os
import zlib
from io import RawIOBase
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.files import READ
from firstfault.readers.decompress import DamagedError, decompress
from firstfault.readers.limits import Budget, Limits
from firstfault.readers.spool import Spool, SpoolFullError
from firstfault.readers.store import Extent, read_extent

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ_AT_ONCE = 16 * 1024 * 1024
"""A header of an archive is never larger; one that claims to be is damage."""
_STEP = 1 << 20
ALL_TOO_MUCH = "expands, with the archives inside it, more than {n:,} times: stopped there"


class Member(Struct, frozen=True):
    """One thing inside a container."""

    name: str
    """Name in the archive; empty for the one stream inside a compressed file."""
    extent: Extent | None
    """None where it is not read."""
    reason: str = ""
    """Why it is not read, or what is damaged."""
    modified: float | None = None


class ExtentFile(RawIOBase):
    """An extent as a seekable file, for the archive modules of the standard library."""

    def __init__(self, descriptor: int, extent: Extent) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._extent = extent
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Position in the extent."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position; beyond the end is allowed."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._extent.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Bytes from the position.

        Raises:
            DamagedError: more is asked for than a header can hold.
        """
        wanted = self._extent.size - self._position if size is None or size < 0 else size
        if wanted > _READ_AT_ONCE:
            raise DamagedError("a header of the archive claims to be larger than any is")
        data = read_extent(self._descriptor, self._extent, self._position, wanted)
        self._position += len(data)
        return data


class Container(Struct, frozen=True):
    """A compressed file or an archive, and what it may cost to look inside."""

    descriptor: int
    """Open file in which it lies."""
    extent: Extent
    spool: Spool
    limits: Limits
    budget: Budget

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the container; fewer where it ends before.

        Raises:
            OSError: it can no longer be read.
        """
        return read_extent(self.descriptor, self.extent, offset, length)

    def part(self, start: int, size: int) -> Extent:
        """The extent of a stretch of the container, no longer than what is there."""
        return Extent(self.extent.path, self.extent.start + start, max(0, min(size, self.extent.size - start)))

    def unpack(self, name: str, kind: str, packed: Extent) -> Member:
        """Writes one packed stream of the container into the spool, as far as it is whole and allowed.

        Raises:
            OSError: the container can no longer be read.
        """

        def parts() -> Iterator[bytes]:
            for offset in range(0, packed.size, _STEP):
                yield read_extent(self.descriptor, packed, offset, _STEP)

        start = self.spool.end
        if self.budget.is_spent():
            return Member(name, self.spool.since(start), ALL_TOO_MUCH.format(n=self.limits.ratio))
        reason = ""
        allowed = max(self.limits.ratio_from, packed.size * self.limits.ratio)
        try:
            for part in decompress(parts, kind):
                self.spool.write(part)
                self.budget.take(len(part))
                if self.budget.is_spent():
                    reason = ALL_TOO_MUCH.format(n=self.limits.ratio)
                    break
                if self.spool.end - start > allowed:
                    reason = f"expands more than {self.limits.ratio:,} times: stopped there"
                    break
        except DamagedError as error:
            reason = str(error)
        except SpoolFullError as error:
            reason = str(error)
        return Member(name, self.spool.since(start), reason)


def check_sum(extent: Extent) -> int:
    """CRC-32 of an extent.

    Raises:
        OSError: it can no longer be read.
    """
    total = 0
    descriptor = os.open(extent.path, READ)
    try:
        for offset in range(0, extent.size, _STEP):
            total = zlib.crc32(read_extent(descriptor, extent, offset, _STEP), total)
    finally:
        os.close(descriptor)
    return total
