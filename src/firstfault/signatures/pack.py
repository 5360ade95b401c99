"""A folder of signatures in one packed piece, so that a start does not parse hundreds of TOML files.

A pack is found by a digest of the very bytes of the files (10 ms for 400 of them, where parsing takes 250): it can never be
a reason for another answer. One lies beside our own files when the package is built; others are kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from firstfault.model.patterns import Signature, SignatureFile, Table, TableRow
from firstfault.scan import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAME = "packed.bin"
FORMAT = b"1"


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


def load_pack(folder: Path, read: Callable[[Path], tuple[list[Signature], dict[str, Table]]]) -> Pack:
    """The signatures and tables of a folder: from its pack, from the cache, or read anew and put into the cache.

    Args:
        folder: where the TOML files are.
        read: reads them.
    """
    try:
        digest = digest_of(folder)
    except OSError:
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
