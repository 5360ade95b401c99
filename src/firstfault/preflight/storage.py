"""Checks of folders: those that the job was said to read and write, caches, temporary files. Each is asked in a process of its own."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING

from firstfault.preflight.check import Check, fail, ok, unknown, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Folder, Machine

SHARED = frozenset({"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "cifs", "smb3", "glusterfs", "fuse.glusterfs", "wekafs", "pvfs2", "orangefs", "afs", "9p", "virtiofs", "fuse.juicefs", "fuse.s3fs", "fuse.gcsfuse", "fuse.mountpoint-s3"})  # fmt: skip
"""Kinds of file systems that several machines see."""
LOCAL = frozenset({"ext4", "ext3", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "ramfs", "squashfs"})
SLOW_MS = 1000.0
LITTLE_MB, FULL_MB, FEW_INODES = 2048, 64, 1000
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH")
"""Folders of compiled code, which ranks of all machines write at the same moment."""
DOWNLOADS = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "TRANSFORMERS_CACHE",
    "TORCH_HOME",
    "XDG_CACHE_HOME",
    "NLTK_DATA",
)
_NOT_WORTH = "Remove what is not needed, or choose another folder; `df -h` and `df -i` show space and inodes, `quota -s` or `lfs quota` what is allowed."


def _told(found: Folder) -> str:
    parts = [found.path]
    if found.kind:
        parts.append(found.kind)
    if found.free_mb is not None:
        parts.append(f"{found.free_mb} MB free")
    if found.write_ms is not None:
        parts.append(f"{found.write_ms:.0f} ms for a small file")
    return ", ".join(parts)


def _space(found: Folder, least: int) -> Iterator[Seen]:
    if found.free_mb is not None and found.free_mb < FULL_MB:
        yield fail(f"{_told(found)}: it is full", _NOT_WORTH)
    elif found.free_mb is not None and found.free_mb < least:
        yield warn(f"{_told(found)}: little space", _NOT_WORTH)
    if found.free_inodes is not None and found.free_inodes < FEW_INODES:
        yield (fail if found.free_inodes == 0 else warn)(
            f"{_told(found)}: {found.free_inodes} more files may be made", _NOT_WORTH
        )
    if found.write_ms is not None and found.write_ms > SLOW_MS:
        yield warn(f"{_told(found)}: slow", "Look at the file system, or write to another one.")


def _reads(machine: Machine) -> Iterator[Seen]:
    if not machine.asked.read:
        yield unknown("no path was named; `--read PATH` names one")
    for path in machine.asked.read:
        found = machine.folder(path, write=False)
        if found.trouble:
            yield fail(f"{path}: {found.trouble}", "Look at the file system on this machine, or exclude the machine.")
        elif not found.exists:
            yield fail(f"{path}: {found.refused}", "Mount it on this machine, or correct the path.")
        elif not found.readable:
            yield fail(f"{path} may not be read by this user", "`namei -l` shows which folder refuses.")
        else:
            yield ok(_told(found))


def _writes(machine: Machine) -> Iterator[Seen]:
    if not machine.asked.write:
        yield unknown("no folder was named; `--write DIR` names one")
    for path in machine.asked.write:
        found = machine.folder(path, write=True)
        if found.trouble:
            yield fail(f"{path}: {found.trouble}", "Look at the file system on this machine, or exclude the machine.")
        elif not found.exists:
            yield fail(
                f"{path}: {found.refused}",
                "Make the folder before the job starts, on a file system that all machines see.",
            )
        elif not found.writable:
            refused = found.refused or "not allowed"
            full = refused in {os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)}
            fix = _NOT_WORTH if full else "Name a folder that the user of the job may write into; `ls -ld` and `mount` show why this one is refused."  # fmt: skip
            yield fail(f"{path}: no file can be written: {refused}", fix)
        else:
            problems = list(_space(found, LITTLE_MB))
            yield from problems or [ok(_told(found))]


def _temporary(machine: Machine) -> Iterator[Seen]:
    path = machine.env.get("TMPDIR") or tempfile.gettempdir()
    found = machine.folder(path, write=True)
    fix = "Set TMPDIR to a folder on a local disk with space."
    if found.trouble or not found.exists or not found.writable:
        yield fail(f"{path} takes no temporary files: {found.trouble or found.refused or 'not allowed'}", fix)
        return
    problems = list(_space(found, 1024))
    yield from problems
    if found.kind in SHARED and not machine.who.alone:
        yield warn(f"{_told(found)}: temporary files on a file system that all machines share are slow and clash", fix)
    elif len(path) > 70:
        yield warn(
            f"{path} is so long that sockets of multiprocessing do not fit below it (108 characters)",
            "Set TMPDIR to a short path.",
        )
    elif not problems:
        yield ok(_told(found))


def _working(machine: Machine) -> Seen:
    try:
        path = os.getcwd()  # noqa: PTH109 - a folder that is gone raises here
    except OSError as error:
        return fail(
            f"the working directory is gone: {error.strerror}",
            "Start the job in a folder that every machine has (`--chdir`).",
        )
    found = machine.folder(path, write=False)
    if found.trouble:
        return fail(f"{path}: {found.trouble}", "Start the job in a folder that answers.")
    if found.free_mb is not None and found.free_mb < FULL_MB and found.writable:
        return warn(f"{_told(found)}: it is full", _NOT_WORTH)
    return ok(_told(found) + ("" if found.writable else "; it cannot be written"))


def _caches(machine: Machine) -> Iterator[Seen]:
    fine = []
    for name in (*CACHES, *DOWNLOADS):
        path = machine.env.get(name)
        if not path:
            continue
        found = machine.folder(path, write=False)
        if found.trouble:
            yield warn(f"{name}={path}: {found.trouble}", f"Set {name} to a folder that answers.")
        elif found.exists and not found.writable:
            yield warn(
                f"{name}={path} cannot be written",
                f"Fine where all is in it already; else set {name} to a folder of yours.",
            )
        elif found.free_mb is not None and found.free_mb < FULL_MB:
            yield warn(f"{name}: {_told(found)}: it is full", _NOT_WORTH)
        elif name in CACHES and found.kind in SHARED and not machine.who.alone:
            yield warn(
                f"{name}={path} lies on {found.kind}, which all machines share: ranks that compile at the same moment clash there",
                f"Set {name} to a local disk of each machine.",
            )
        else:
            fine.append(name)
    home = machine.env.get("HOME", "")
    if home and not any(machine.env.get(n) for n in ("HF_HOME", "XDG_CACHE_HOME")):
        found = machine.folder(home, write=False)
        if found.trouble:
            yield warn(
                f"HOME={home}: {found.trouble}", "Caches lie there unless HF_HOME and XDG_CACHE_HOME say otherwise."
            )
        elif found.free_mb is not None and found.free_mb < FULL_MB and found.writable:
            yield warn(
                f"HOME: {_told(found)}: it is full, and caches lie there",
                "Set HF_HOME and XDG_CACHE_HOME to a larger disk.",
            )
    yield ok(f"{', '.join(fine)} can be used" if fine else "no cache is set by a variable")


CHECKS = (
    Check(
        "storage.read", "paths that the job reads (--read)", "A machine without the mount stops its ranks, or they wait for each other.",
        ("data.file_missing", "storage.file_missing", "storage.permission", "storage.mount_lost", "data.index_missing"), _reads,
    ),
    Check(
        "storage.write", "folders that the job writes (--write)", "A full or refused folder is found at the first checkpoint, hours later.",
        ("storage.no_space", "storage.quota", "storage.read_only", "checkpoint.write_failed"), _writes,
    ),
    Check("storage.temporary", "the folder of temporary files", "Loaders, compilers and downloads use it.", ("storage.no_space_local",), _temporary),
    Check("storage.working", "the working directory", "A folder that is missing on one machine stops its tasks.", ("slurm.chdir_failed",), _working),
    Check("storage.caches", "folders of caches", "Caches that all machines write at once are half written, locked or stale.", ("storage.stale_handle", "storage.file_exists", "software.lock_wait", "data.hf_cache_missing"), _caches),
)  # fmt: skip
