"""What lies inside a compressed file or an archive, as extents: of the archive itself where it is plain, else of the spool.

Nothing is extracted under a name of its own; links, devices and the paths of members mean nothing here. A damaged archive
gives the members before the damage.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from firstfault.readers.containers import Container, ExtentFile, Member
from firstfault.readers.decompress import DamagedError
from firstfault.readers.sections import section_members
from firstfault.readers.zips import zip_members

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAR_ERRORS = (tarfile.TarError, DamagedError, ValueError, EOFError, OverflowError, UnicodeError)


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
    elif kind == "sections":
        yield from section_members(container)
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
