"""What lies inside a compressed file or an archive, as extents: of the archive itself where it is plain, else of the spool.

Nothing is extracted under a name of its own; links, devices and the paths of members mean nothing here. A damaged archive
gives the members before the damage. Limits hold for depth, members, bytes and ratio together, over one whole input.
"""

from __future__ import annotations

import os
import struct
import tarfile
import zipfile
import zlib
from io import RawIOBase
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.readers.decompress import DamagedError, compression_of, decompress
from firstfault.readers.spool import Spool, SpoolFullError
from firstfault.readers.store import Extent, read_extent

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ_AT_ONCE = 16 * 1024 * 1024
"""A header of an archive is never larger; one that claims to be is damage."""
_PACKAGES = (".whl", ".jar", ".egg", ".docx", ".xlsx", ".pptx", ".odt", ".apk")


class Limits(Struct, frozen=True, kw_only=True):
    """What one input may cost; beyond a limit the rest is left out and named in the coverage."""

    depth: int = 6
    """Archives within archives."""
    members: int = 100_000
    """Files and members in all."""
    unpacked: int = 64 << 30
    """Bytes of temporary space, in all."""
    ratio: int = 2_000
    """Unpacked bytes per packed byte, looked at above `ratio_from`."""
    ratio_from: int = 256 << 20
    """Unpacked bytes of one stream below which no ratio is too much."""


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


def container_of(head: bytes, name: str) -> str | None:
    """Name of the compression or archive format by the first 512 bytes; None for anything else."""
    kind = compression_of(head)
    if kind is not None:
        return kind
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08PK\x03\x04")):
        return None if name.lower().endswith(_PACKAGES) else "zip"
    if head[257:262] == b"ustar" or _old_tar(head):
        return "tar"
    return None


def _old_tar(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar header from before `ustar`: its check sum is right."""
    if len(head) < 512 or not head[0]:
        return False
    digits = head[148:156].strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        return False
    return int(digits, 8) == sum(head[:148]) + 8 * 32 + sum(head[156:512])


def members(kind: str, descriptor: int, extent: Extent, spool: Spool, limits: Limits) -> Iterator[Member]:
    """Everything inside a container, in the order in which it stands there.

    Args:
        kind: as `container_of` gives it.
        descriptor: open file in which the extent lies.
        extent: the container.
        spool: where unpacked bytes go.
        limits: what is allowed.

    Raises:
        OSError: the container can no longer be read.
    """
    if kind == "tar":
        yield from _tar(descriptor, extent)
    elif kind == "zip":
        yield from _zip(descriptor, extent, spool, limits)
    else:
        yield _unpack("", kind, descriptor, extent, spool, limits)


def _unpack(name: str, kind: str, descriptor: int, packed: Extent, spool: Spool, limits: Limits) -> Member:
    """Writes one stream into the spool, as far as it is whole and allowed."""

    def parts() -> Iterator[bytes]:
        for offset in range(0, packed.size, 1 << 20):
            yield read_extent(descriptor, packed, offset, 1 << 20)

    start = spool.end
    reason = ""
    allowed = max(limits.ratio_from, packed.size * limits.ratio)
    try:
        for part in decompress(parts, kind):
            spool.write(part)
            if spool.end - start > allowed:
                reason = f"expands more than {limits.ratio:,} times: stopped there"
                break
    except DamagedError as error:
        reason = str(error)
    except SpoolFullError as error:
        reason = f"too large: {error}"
    return Member(name, spool.since(start), reason)


def _tar(descriptor: int, extent: Extent) -> Iterator[Member]:
    try:
        archive = tarfile.open(fileobj=ExtentFile(descriptor, extent), mode="r:", errorlevel=0)  # noqa: SIM115
    except (tarfile.TarError, DamagedError, ValueError, EOFError) as error:
        yield Member("", None, f"damaged tar archive: {error}")
        return
    while True:
        try:
            info = archive.next()
        except (tarfile.TarError, DamagedError, ValueError, EOFError, OverflowError) as error:
            yield Member("", None, f"damaged tar archive: {error}")
            return
        archive.members.clear()  # the module keeps all it saw; memory must not grow with the archive
        if info is None:
            return
        if info.isdir():
            continue
        if not info.isreg() or info.sparse is not None:
            yield Member(info.name, None, _tar_kind(info))
            continue
        here = min(info.size, max(0, extent.size - info.offset_data))
        reason = "" if here == info.size else "the archive ends inside this member"
        yield Member(info.name, Extent(extent.path, extent.start + info.offset_data, here), reason, float(info.mtime))


def _tar_kind(info: tarfile.TarInfo) -> str:
    if info.issym() or info.islnk():
        return "a link inside an archive"
    if info.ischr() or info.isblk() or info.isfifo():
        return "a device or pipe inside an archive"
    return "a member of a kind that is not read"


def _zip(descriptor: int, extent: Extent, spool: Spool, limits: Limits) -> Iterator[Member]:
    try:
        archive = zipfile.ZipFile(ExtentFile(descriptor, extent))  # type: ignore[arg-type] # a raw file does
        listed = archive.infolist()
    except (zipfile.BadZipFile, DamagedError, ValueError, EOFError, NotImplementedError, struct.error) as error:
        yield from _zip_without_directory(descriptor, extent, spool, limits)
        yield Member("", None, f"damaged zip archive: {error}")
        return
    if any(i.filename.endswith("/data.pkl") for i in listed) or all(i.filename.endswith(".npy") for i in listed):
        yield Member("", None, "a checkpoint or array file, not an archive of logs")
        return
    for info in listed:
        if info.is_dir():
            continue
        mode = info.external_attr >> 16
        if mode and (mode & 0o170000) not in {0, 0o100000}:
            yield Member(info.filename, None, "a link or device inside an archive")
        elif info.flag_bits & 0x1:
            yield Member(info.filename, None, "encrypted")
        else:
            yield _zip_member(descriptor, extent, info, spool, limits)


_ZIP_CODECS = {8: "deflate", 12: "bzip2", 93: "zstd", 95: "xz"}


def _zip_member(descriptor: int, extent: Extent, info: zipfile.ZipInfo, spool: Spool, limits: Limits) -> Member:
    local = read_extent(descriptor, extent, info.header_offset, 30)
    if len(local) < 30 or not local.startswith(b"PK\x03\x04"):
        return Member(info.filename, None, "damaged: its header is not where the archive says")
    name_length, extra_length = struct.unpack("<HH", local[26:30])
    start = info.header_offset + 30 + name_length + extra_length
    size = min(info.compress_size, max(0, extent.size - start))
    return _zip_stream(descriptor, extent, info.filename, info.compress_type, start, size, spool, limits, info.CRC)


def _zip_stream(
    descriptor: int,
    extent: Extent,
    name: str,
    method: int,
    start: int,
    size: int,
    spool: Spool,
    limits: Limits,
    crc: int | None,
) -> Member:
    packed = Extent(extent.path, extent.start + start, size)
    if method == 0:
        member = Member(name, packed)
    elif method in _ZIP_CODECS:
        member = _unpack(name, _ZIP_CODECS[method], descriptor, packed, spool, limits)
    else:
        return Member(name, None, f"packed by a method that is not read ({method})")
    if crc is None or member.reason or member.extent is None:
        return member
    return member if _crc(member.extent) == crc else Member(name, member.extent, "damaged: its check sum is wrong")


def _crc(extent: Extent) -> int:
    total = 0
    descriptor = os.open(extent.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for offset in range(0, extent.size, 1 << 20):
            total = zlib.crc32(read_extent(descriptor, extent, offset, 1 << 20), total)
    finally:
        os.close(descriptor)
    return total


def _zip_without_directory(descriptor: int, extent: Extent, spool: Spool, limits: Limits) -> Iterator[Member]:
    """Members of a zip file whose end is cut off, from their local headers."""
    position = 0
    while True:
        header = read_extent(descriptor, extent, position, 30)
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            return
        _, _, flags, method, _, _, _, size, _, name_length, extra_length = struct.unpack("<4sHHHHHIIIHH", header)
        name = read_extent(descriptor, extent, position + 30, name_length).decode("utf-8", "backslashreplace")
        start = position + 30 + name_length + extra_length
        left = max(0, extent.size - start)
        unknown = bool(flags & 0x8) and size == 0
        if not name.endswith("/"):
            if flags & 0x1:
                yield Member(name, None, "encrypted")
            else:
                taken = left if unknown else min(size, left)
                if method != 0 or not unknown:
                    found = _zip_stream(descriptor, extent, name, method, start, taken, spool, limits, None)
                    cut = "" if found.reason or taken == size or unknown else "the archive ends inside this member"
                    yield Member(found.name, found.extent, found.reason or cut)
        if unknown or size > left:
            return  # where the next header stands is known to the lost directory alone
        position = start + size
