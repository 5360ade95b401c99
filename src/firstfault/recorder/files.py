"""Files that are written beside a running program: bounded, whole lines, and never an error to the caller."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import Any

from firstfault.recorder import format as layout


class Lines:
    """A file of records; each is written with one call, so that lines of a process that dies are whole."""

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.dropped = 0
        """Lines that were not written: too many, or the disk refused."""
        self._size = 0
        self._descriptor = -1
        self._lock = threading.RLock()

    def write(self, kind: str, fields: dict[str, Any]) -> bool:
        """Appends a record; whether it stands in the file."""
        try:
            raw = layout.line(kind, fields)
        except (TypeError, ValueError, RecursionError, MemoryError):
            self.dropped += 1
            return False
        # A thread that was stopped in here must not stop the others.
        if not self._lock.acquire(timeout=1.0):
            self.dropped += 1
            return False
        try:
            # Lines of a log never take the room of the exception that ends the program.
            return self._append(raw, self.limit // 2 if kind == layout.LOG else self.limit)
        finally:
            self._lock.release()

    def _append(self, raw: bytes, limit: int) -> bool:
        if self._size + len(raw) > limit:
            self.dropped += 1
            return False
        try:
            if self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink == 0:
                # The folder was removed, or mounted anew: what is written into a deleted file is nowhere.
                self.close()
            if self._descriptor < 0:
                make_folder(os.path.dirname(self.path))
                self._descriptor = os.open(
                    self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
                )
                self._size = os.fstat(self._descriptor).st_size
            done = os.write(self._descriptor, raw)
        except OSError:
            self.dropped += 1
            return False
        self._size += done
        if done < len(raw):
            # The disk is full: end the piece of a line, so that a later one is whole.
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b"\n")
            self.dropped += 1
            return False
        return True

    def close(self) -> None:
        """Closes the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def open_plain(path: str) -> int:
    """A descriptor for appending to a new private file; -1 where that cannot be."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return -1


def replace_file(path: str, raw: bytes) -> bool:
    """Puts a whole file in the place of another: a reader sees the old one or the new one. Whether it is there."""
    other = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            view = memoryview(raw)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
        os.replace(other, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(other)
        return False
    return True


def make_folder(path: str) -> bool:
    """Makes a folder with what is missing above it, all of them private; whether it is there and ours to write."""
    missing: list[str] = []
    above = path
    while above and not os.path.isdir(above) and len(missing) < 64:
        missing.append(above)
        above = os.path.dirname(above)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue  # another rank made it
        except OSError:
            return False
    return os.access(path, os.W_OK | os.X_OK)


def is_ours(path: str) -> bool:
    """Whether a folder is this user's and no other can put anything into it; below a shared one somebody else may have made it."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def read_file(path: str, most: int = 1 << 20) -> bytes:
    """The first bytes of a file; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return b""
