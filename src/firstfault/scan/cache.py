"""Keeps the compiled database of an engine between runs, in the private cache folder of the user.

A database is machine code in all but name: it is loaded only from a folder that belongs to this user and that nobody else
can write, and only under a key of the patterns, the engine and the processor. Anything odd is ignored and made again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.model.files import LOOK, NO_LINK, is_ours, private

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST = 256 << 20
_KEPT = 16
"""Files that stay; older ones go when a new one is written."""


def folder() -> Path:
    """The cache folder of this program: `$XDG_CACHE_HOME/firstfault`, else below `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path(os.path.expanduser("~/.cache"))) / "firstfault"  # noqa: PTH111 - no error without a home


def key(*parts: bytes) -> str:
    """Name for what is made from some bytes on this kind of processor."""
    digest = hashlib.sha256()
    for part in (*parts, _processor()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def own_folder() -> Path | None:
    """The cache folder, made where it is not there; None where it cannot be used or is not this user's alone."""
    place = folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place if _private(place.lstat(), stat.S_ISDIR) else None
    except OSError:
        return None


def load(name: str) -> bytes | None:
    """What was saved under a name; None where it is not there, not whole, or not ours alone."""
    place = folder()
    try:
        if not _private(place.lstat(), stat.S_ISDIR):
            return None
        descriptor = os.open(place / name, LOOK | NO_LINK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not _private(status, stat.S_ISREG) or status.st_size > _LARGEST:
                return None
            data = file.read()
    except OSError:
        return None
    digest, body = data[:32], data[32:]
    return body if hashlib.sha256(body).digest() == digest else None


def save(name: str, body: bytes) -> None:
    """Saves bytes under a name; where that cannot be done nothing happens."""
    place = folder()
    temporary = place / f".{name}.{os.getpid()}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _private(place.lstat(), stat.S_ISDIR):
            return
        descriptor = private(temporary)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(body).digest())
                file.write(body)
            temporary.replace(place / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _tidy(place)
    except OSError:
        return


def _private(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    return kind(status.st_mode) and is_ours(status)


def _tidy(place: Path) -> None:
    files = [f for f in place.iterdir() if f.name.endswith(".db")]
    ages = sorted(((f.stat().st_mtime_ns, f.name) for f in files), reverse=True)
    for _, name in ages[_KEPT:]:
        (place / name).unlink(missing_ok=True)


def _processor() -> bytes:
    """What a compiled database depends on besides its patterns."""
    try:
        with open("/proc/cpuinfo", "rb") as file:  # noqa: PTH123 - a small read at start
            head = file.read(8192)
    except OSError:
        head = b""
    # Not `platform`: loading it takes longer than all else here.
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    lines = [
        line for line in head.split(b"\n\n")[0].split(b"\n") if line.startswith((b"model name", b"flags", b"Features"))
    ]
    return b"\n".join([machine.encode(), *lines])
