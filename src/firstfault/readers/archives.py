"""What lies inside a compressed file or an archive, as extents: of the archive itself where it is plain, else of the spool.

Nothing is extracted under a name of its own; links, devices and the paths of members mean nothing here. A damaged archive
gives the members before the damage.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from firstfault.readers.containers import Container, ExtentFile, Member
from firstfault.readers.decompress import DamagedError, compression_of
from firstfault.readers.zips import zip_members

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = (".whl", ".jar", ".egg", ".docx", ".xlsx", ".pptx", ".odt", ".apk")
_TAR_ERRORS = (tarfile.TarError, DamagedError, ValueError, EOFError, OverflowError, UnicodeError)


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


def members(kind: str, container: Container) -> Iterator[Member]:
    """Everything inside a container, in the order in which it stands there.

    Args:
        kind: as `container_of` gives it.
        container: what to look into.

    Raises:
        OSError: the container can no longer be read.
    """
    if kind == "tar":
        yield from _tar(container)
    elif kind == "zip":
        yield from zip_members(container)
    else:
        yield container.unpack("", kind, container.extent)


def _tar(container: Container) -> Iterator[Member]:
    try:
        archive = tarfile.open(fileobj=ExtentFile(container.descriptor, container.extent), mode="r:", errorlevel=0)  # noqa: SIM115
    except _TAR_ERRORS as error:
        yield Member("", None, f"damaged tar archive: {error}")
        return
    while True:
        try:
            info = archive.next()
        except _TAR_ERRORS as error:
            yield Member("", None, f"damaged tar archive: {error}")
            return
        archive.members.clear()  # type: ignore[attr-defined] # the module keeps all it saw; memory must not grow with the archive
        if info is None:
            return
        if info.isdir():
            continue
        if not info.isreg() or info.sparse is not None:
            yield Member(info.name, None, _tar_kind(info))
            continue
        here = container.part(info.offset_data, info.size)
        reason = "" if here.size == info.size else "the archive ends inside this member"
        yield Member(info.name, here, reason, float(info.mtime))


def _tar_kind(info: tarfile.TarInfo) -> str:
    if info.issym() or info.islnk():
        return "a link inside an archive"
    if info.ischr() or info.isblk() or info.isfifo():
        return "a device or pipe inside an archive"
    return "a member of a kind that is not read"
