"""Reads the tables that `df`, `df -i` and `mount` print into a log: what is mounted where, and how full it is.

It starts at lines that the scan found and takes rows as far as they look like rows; it judges nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.disks import DiskKind, FileSystem
from firstfault.model.evidence import Event, Span, Who
from firstfault.model.lazy import lazy
from firstfault.readers.lines import lines_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.readers.lines import TextStore

MOST_ROWS = 200
MOST_BYTES = 64 * 1024
MOST_TABLES = 64
"""Tables that are read at most."""
_ROW = lazy(rb"(\S+)\s+(?:[\d.]+[KMGTPE]?i?B?\s+){2,3}-?[\d.]+[KMGTPE]?i?B?\s+(\d{1,3}|-)%?\s+(/[^\r\n]*?)\s*$")
"""`/dev/nvme1n1  492G  492G  16M 100% /mnt`; `df -T` has one word more in front of the sizes."""
_WRAPPED = lazy(rb"^\s+(?:[\d.]+[KMGTPE]?i?B?\s+){2,3}-?[\d.]+[KMGTPE]?i?B?\s+(\d{1,3}|-)%\s+(/[^\r\n]*?)\s*$")
"""The second half of a row whose device is so long that `df` breaks the line behind it."""
_TYPED = lazy(rb"^(?:.*\s)?(\S+)\s+([a-z][\w.]{1,20})\s+(?=[\d.]+[KMGTPE]?)")
_MOUNT = lazy(rb"(\S+) on (/\S{0,200}) type ([a-z][\w.]{1,20}) \(")
_NETWORK = frozenset(
    [
        "nfs",
        "nfs3",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "cephfs",
        "cifs",
        "smb3",
        "smbfs",
        "wekafs",
        "afs",
        "glusterfs",
        "panfs",
        "orangefs",
        "pvfs2",
        "9p",
        "virtiofs",
    ]
)
_DISK = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "overlay", "overlayfs", "aufs", "f2fs", "vfat"])
_MEMORY = frozenset(["tmpfs", "ramfs", "devtmpfs", "shm"])
_PSEUDO = frozenset(
    [
        "squashfs",
        "proc",
        "sysfs",
        "cgroup",
        "cgroup2",
        "devpts",
        "mqueue",
        "debugfs",
        "tracefs",
        "securityfs",
        "efivarfs",
        "iso9660",
    ]
)
_REMOTE = lazy(r"^(?:[^/\s]*@\w+:|[\w.\[\]-]+:/|//|[\w.-]+:\S+:/|beegfs|weka)")
_PART = lazy(r"^/dev/(?:nvme|sd|vd|xvd|md|mapper/|root|disk/|dm-|hd|mmcblk|loop)")


def file_systems(store: TextStore, heads: Iterable[Event]) -> list[FileSystem]:
    """File systems that the tables at some lines show.

    Args:
        store: of all sources.
        heads: the first line of each table, or a row of `mount`.
    """
    found: list[FileSystem] = []
    for head in list(heads)[:MOST_TABLES]:
        start = head.span.offset - (head.span.column - 1)
        text = head.text.encode("utf-8", "replace")
        own = _MOUNT.search(text)
        if own is not None:
            found.append(
                FileSystem(mount=own[2].decode(), device=_text(own[1]), kind=_kind(own[1], own[3]), event=head)
            )
            continue
        inodes = "Inodes" in head.text or "IUse%" in head.text or "iused" in head.text
        found += _table(store, head, start, inodes=inodes)
    return found


def _table(store: TextStore, head: Event, start: int, *, inodes: bool) -> list[FileSystem]:
    found: list[FileSystem] = []
    device = b""
    for line in lines_from(store, head.span.source, start, head.span.line, MOST_BYTES):
        if line.number == head.span.line:
            continue
        wrapped = _WRAPPED.match(line.text) if device else None
        row = _ROW.search(line.text) if wrapped is None else None
        if wrapped is None and row is None:
            words = line.text.split()
            if len(words) == 1 and not device and words[0][:1] != b"{":
                device = words[0]
                continue
            break
        named, percent, mount = (device, *wrapped.groups()) if wrapped is not None else _of_row(row)
        device = b""
        typed = None if row is None else _TYPED.match(line.text[: row.end(1) + 40])
        kind = _kind(typed[1], typed[2]) if typed is not None and _known(typed[2]) else _kind(named, b"")
        if typed is not None and _known(typed[2]):
            named = typed[1]
        if typed is not None and _text(typed[2]) in _PSEUDO:
            continue
        value = None if percent == b"-" else int(percent)
        found.append(
            FileSystem(
                mount=_text(mount),
                device=_text(named),
                kind=kind,
                used=None if inodes else value,
                inodes=value if inodes else None,
                event=_row_event(head, line.number, line.offset, line.text),
            )
        )
        if len(found) >= MOST_ROWS:
            break
    return found


def _of_row(row: object) -> tuple[bytes, bytes, bytes]:
    groups: tuple[bytes, bytes, bytes] = row.groups()  # type: ignore[attr-defined]
    return groups


def _row_event(head: Event, number: int, offset: int, text: bytes) -> Event:
    return Event(
        signature="storage.disk_row",
        span=Span(head.span.source, offset, max(1, len(text)), number, 1),
        text=text.decode("utf-8", "backslashreplace"),
        who=Who(host=head.who.host),
        when=head.when,
        attempt=head.attempt,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _known(kind: bytes) -> bool:
    name = _text(kind)
    return name in _NETWORK or name in _DISK or name in _MEMORY or name in _PSEUDO or name.startswith("fuse")


def _kind(device: bytes, kind: bytes) -> DiskKind:
    """Whose a file system is, by its type where it is stated, else by its device; FUSE can be either."""
    name, path = _text(kind), _text(device)
    if name in _NETWORK or _REMOTE.match(path) or path in _NETWORK:
        return DiskKind.SHARED
    if name in _MEMORY or path in _MEMORY:
        return DiskKind.MEMORY
    if name in _DISK or path in _DISK or (not name and _PART.match(path)):
        return DiskKind.LOCAL
    return DiskKind.UNKNOWN
