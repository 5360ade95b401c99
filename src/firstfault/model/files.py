"""Opens and reads files at any place of them, on every system on which logs are read: what POSIX has for it, else its likeness.

Windows has no `pread` and other flags; there the place is kept by the descriptor, and whoever reads does so one after the other.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_OURS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
READ = os.O_RDONLY | _OURS
"""Flags for a file of our own, or one that was looked at."""
LOOK = READ | getattr(os, "O_NONBLOCK", 0)
"""Flags for whatever somebody named: opening a pipe does not wait for its writer."""
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OURS
"""Flags for a file that must not be there yet."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Flag that refuses a link."""
_PLACES = threading.Lock()


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """Bytes of an open file from an offset; fewer where it ends before.

    Raises:
        OSError: it cannot be read.
    """
    if hasattr(os, "pread"):
        return os.pread(descriptor, length, offset)
    with _PLACES:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, length)


def read_into(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Fills a buffer with bytes of an open file from an offset; gives how many there were.

    Raises:
        OSError: it cannot be read.
    """
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    data = read_at(descriptor, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def write_at(descriptor: int, data: memoryview, offset: int) -> int:
    """Writes bytes into an open file at an offset; gives how many went in.

    Raises:
        OSError: it cannot be written.
    """
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, offset)
    with _PLACES:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)


def put(path: Path, text: str) -> None:
    """Gives a file a new text at once: whoever reads it finds the old one or the new one whole.

    Raises:
        OSError: it cannot be written there.
    """
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to the user who runs this, and nobody else may write it; systems without users say yes."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def private(path: Path | str) -> int:
    """Opens a new file for its owner alone, to be written.

    Raises:
        OSError: it is there already, or cannot be made.
    """
    return os.open(path, CREATE, 0o600)
