"""A private temporary folder for what has no place on disk of its own: standard input and unpacked members.

Everything goes into one file, one member after the other, so that small members cost neither memory nor inodes.
Names from archives never become names on this machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from firstfault.model.files import private, write_at
from firstfault.model.until import NEVER, OVER, Until
from firstfault.readers.store import Extent


class SpoolFullError(Exception):
    """The temporary space that may be used is used up, or the time that may be."""


class Spool:
    """One private file that grows; made at the first use, gone at the end."""

    def __init__(self, limit: int, until: Until = NEVER) -> None:
        self._limit = limit
        self._until = until
        self._folder: str | None = None
        self._file = -1
        self._end = 0

    @property
    def left(self) -> int:
        """Bytes that may still be written."""
        return self._limit - self._end

    @property
    def end(self) -> int:
        """Where the next byte goes."""
        return self._end

    def since(self, start: int) -> Extent:
        """The extent from a position to the end."""
        return Extent(self._path(), start, self._end - start)

    def write(self, part: bytes) -> None:
        """Adds bytes at the end.

        Raises:
            SpoolFullError: the limit or the disk is reached, or the time is over; a part of the bytes may have been written.
        """
        if self._until.over():
            raise SpoolFullError(OVER)
        path = self._path()
        if self._file < 0:
            self._file = private(path)
        view = memoryview(part)[: self.left]
        try:
            while view:
                written = write_at(self._file, view, self._end)
                self._end += written
                view = view[written:]
        except OSError as error:
            raise SpoolFullError(f"too large: the temporary folder takes no more: {error.strerror}") from error
        if self.left <= 0:
            raise SpoolFullError("too large: the limit of temporary space is reached")

    def close(self) -> None:
        """Removes the folder."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _path(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="firstfault-")
        return str(Path(self._folder) / "spool")
