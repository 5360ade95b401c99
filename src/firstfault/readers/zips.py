"""Members of zip files, also of those whose end, and with it the directory, is cut off. Nothing is extracted by name."""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING

from firstfault.readers.containers import Container, ExtentFile, Member, check_sum
from firstfault.readers.decompress import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODECS = {8: "deflate", 12: "bzip2", 93: "zstd", 95: "xz"}
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
MOST_PACKED = 4
"""Times that its members may be as large as an archive: a damaged size leaves the rest, many members of one place do not."""
_ENCRYPTED = 0x1
_SIZE_BEHIND = 0x8
_ERRORS = (zipfile.BadZipFile, DamagedError, ValueError, EOFError, NotImplementedError, struct.error, UnicodeError)


def zip_members(container: Container) -> Iterator[Member]:
    """Every member but folders, in the order of the directory.

    Raises:
        OSError: the file can no longer be read.
    """
    try:
        listed = zipfile.ZipFile(ExtentFile(container.descriptor, container.extent)).infolist()
    except _ERRORS as error:
        yield from _without_directory(container)
        yield Member("", None, f"damaged zip archive: {error}")
        return
    if any(i.filename.endswith("/data.pkl") for i in listed) or (
        listed and all(i.filename.endswith(".npy") for i in listed)
    ):
        yield Member("", None, "a checkpoint or array file, not an archive of logs")
        return
    packed = 0
    for info in listed:
        if info.is_dir():
            continue
        mode = info.external_attr >> 16
        if mode and (mode & 0o170000) not in {0, 0o100000}:
            yield Member(info.filename, None, "a link or device inside an archive")
        elif info.flag_bits & _ENCRYPTED:
            yield Member(info.filename, None, "encrypted")
        elif (packed := packed + min(info.compress_size, container.extent.size)) > MOST_PACKED * container.extent.size:
            yield Member(info.filename, None, "damaged: its members take more room than the archive has")
        else:
            yield _member(container, info)


def _member(container: Container, info: zipfile.ZipInfo) -> Member:
    local = container.read(info.header_offset, _LOCAL.size)
    if len(local) < _LOCAL.size or not local.startswith(b"PK\x03\x04"):
        return Member(info.filename, None, "damaged: its header is not where the archive says")
    name_length, extra_length = _LOCAL.unpack(local)[-2:]
    start = info.header_offset + _LOCAL.size + name_length + extra_length
    member = _stream(container, info.filename, info.compress_type, start, info.compress_size)
    if member.reason or member.extent is None or check_sum(member.extent) == info.CRC:
        return member
    return Member(info.filename, member.extent, "damaged: its check sum is wrong")


def _stream(container: Container, name: str, method: int, start: int, size: int) -> Member:
    packed = container.part(start, size)
    if method == zipfile.ZIP_STORED:
        return Member(name, packed, "" if packed.size == size else "the archive ends inside this member")
    if method in _CODECS:
        return container.unpack(name, _CODECS[method], packed)
    return Member(name, None, f"packed by a method that is not read ({method})")


def _without_directory(container: Container) -> Iterator[Member]:
    """Members by their local headers, as far as these tell where the next one stands."""
    position = 0
    while True:
        header = container.read(position, _LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\x03\x04"):
            return
        _, _, flags, method, _, _, _, size, _, name_length, extra_length = _LOCAL.unpack(header)
        name = container.read(position + _LOCAL.size, name_length).decode("utf-8", "backslashreplace")
        start = position + _LOCAL.size + name_length + extra_length
        unknown = bool(flags & _SIZE_BEHIND) and size == 0
        if flags & _ENCRYPTED:
            yield Member(name, None, "encrypted")
        elif not name.endswith("/") and (method != zipfile.ZIP_STORED or not unknown):
            yield _stream(container, name, method, start, container.extent.size if unknown else size)
        if unknown:
            return  # where the next header stands is known to the lost directory alone
        position = start + size
