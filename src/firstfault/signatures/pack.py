"""A folder of signatures in one packed piece, so that a start does not parse hundreds of TOML files.

A pack is found by a digest of the very bytes of the files: it can never be a reason for another answer. One lies beside our
own files when the package is built; others are kept in the user's cache. Reading 600 files for their digest takes as long as
all else at a start, so that the cache also remembers the digest of files that have not been touched since, as their file
system states it (size, both times, inode).
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from firstfault.model.patterns import Signature, SignatureFile, Table, TableRow
from firstfault.scan import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAME = "packed.bin"
FORMAT = b"2"
SETTLED = 2.0
"""Seconds after which a file that is written again shows another time on every file system."""


class Pack(Struct, frozen=True):
    """The signatures and vendor tables of one folder."""

    digest: str
    signatures: list[Signature]
    tables: dict[str, Table]


def digest_of(folder: Path) -> str:
    """Digest of names and contents of all TOML files below a folder, and of the types that they are read into.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.blake2b(FORMAT + _schema(), digest_size=24)
    for name, path in sorted(_walk(str(folder), "")):
        with open(path, "rb") as file:  # noqa: PTH123 - the quickest way, hundreds of times
            data = file.read()
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def digest_now(folder: Path) -> str:
    """As `digest_of`, without reading files that stand as they stood when their digest was remembered; empty where one cannot be read."""
    try:
        return _digest_now(folder)
    except OSError:
        return ""


def _digest_now(folder: Path) -> str:
    stamp = hashlib.blake2b(FORMAT + _schema() + str(folder).encode("utf-8", "surrogateescape"), digest_size=24)
    newest = 0
    for name, path in sorted(_walk(str(folder), "")):
        told = os.stat(path)  # noqa: PTH116 - the quickest way, hundreds of times
        newest = max(newest, told.st_mtime_ns, told.st_ctime_ns)
        stamp.update(
            f"{name}\0{told.st_size}\0{told.st_mtime_ns}\0{told.st_ctime_ns}\0{told.st_dev}\0{told.st_ino}\0".encode()
        )
    name = f"signatures-at-{stamp.hexdigest()}.db"
    known = cache.load(name)
    if known is not None and len(known) == 2 * 24:
        return known.decode("ascii", "replace")
    digest = digest_of(folder)
    if time.time_ns() - newest > SETTLED * 1e9:
        cache.save(name, digest.encode())
    return digest


def _schema() -> bytes:
    """Fields of the packed types: another version of this program may have others."""
    return "|".join(",".join(t.__struct_fields__) for t in (Pack, SignatureFile, Table, TableRow)).encode()


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _walk(entry.path, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".toml"):
                yield f"{prefix}{entry.name}", entry.path


def load_pack(
    folder: Path, read: Callable[[Path], tuple[list[Signature], dict[str, Table]]], digest: str | None = None
) -> Pack:
    """The signatures and tables of a folder: from its pack, from the cache, or read anew and put into the cache.

    Args:
        folder: where the TOML files are.
        read: reads them.
        digest: as `digest_now` gives it; asked here where None.
    """
    digest = digest_now(folder) if digest is None else digest
    if not digest:
        return Pack("", *read(folder))
    name = f"signatures-{digest}.db"
    for data in (_beside(folder), cache.load(name)):
        pack = _decoded(data)
        if pack is not None and pack.digest == digest:
            return pack
    pack = Pack(digest, *read(folder))
    cache.save(name, msgspec.msgpack.encode(pack))
    return pack


def write_pack(folder: Path, read: Callable[[Path], tuple[list[Signature], dict[str, Table]]]) -> Path:
    """Writes the pack of a folder beside its files, as the build does.

    Raises:
        OSError: the folder cannot be written.
    """
    pack = Pack(digest_of(folder), *read(folder))
    target = folder / NAME
    temporary = folder / f".{NAME}.{os.getpid()}"
    temporary.write_bytes(msgspec.msgpack.encode(pack))
    temporary.replace(target)
    return target


def _beside(folder: Path) -> bytes | None:
    try:
        return (folder / NAME).read_bytes()
    except OSError:
        return None


def _decoded(data: bytes | None) -> Pack | None:
    if data is None:
        return None
    try:
        return msgspec.msgpack.decode(data, type=Pack)
    except (msgspec.MsgspecError, ValueError):
        return None
