"""What scan and readers made of each source of an input, kept from one run over it to the next while the job goes on writing.

A source is taken again as it was where its file is the same to the system (device, inode, size, time of the last change),
stands at the same place among the sources, and has the same clock; else it is read as a whole. So a run with what is kept
gives what a run without it gives.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from firstfault.model.evidence import Source
    from firstfault.pipelines.read import Read
    from firstfault.readers.clock import Date, SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.scan.results import SourceScan


class File(NamedTuple):
    """By what a file is known again."""

    path: str
    """As shown, archives' members too."""
    kind: str
    size: int
    """Bytes of the source."""
    device: int
    inode: int
    bytes: int
    """Of the file in which it lies."""
    changed: int
    """Nanoseconds since the epoch."""


class Made(NamedTuple):
    """What became of one source."""

    number: int
    date: Date | None
    neighbour: Date | None
    whole: int
    profile: SourceProfile
    scan: SourceScan
    read: Read


class Kept:
    """What was made of the sources of the last run."""

    def __init__(self) -> None:
        self._made: dict[File, Made] = {}
        self._next: dict[File, Made] = {}
        self.reused = 0
        """Sources of the last run that were taken as they had been."""

    def profile(self, file: File | None) -> SourceProfile | None:
        """Label style of a file that is the same as before."""
        known = None if file is None else self._made.get(file)
        return None if known is None else known.profile

    def of(self, file: File | None, clock: SourceClock, whole: int) -> Made | None:
        """What was made of a source, where nothing that it hangs on is another; `whole` as for `read_source`."""
        known = None if file is None else self._made.get(file)
        if known is None or file is None:
            return None
        if (known.number, known.date, known.neighbour, known.whole) != (
            clock.source.id,
            clock.date,
            clock.neighbour,
            whole,
        ):
            return None
        return known

    def keep(self, file: File | None, made: Made) -> None:
        """Notes what was made of a source in this run."""
        if file is not None:
            self._next[file] = made

    def turn(self, reused: int) -> None:
        """Ends a run: what it did not meet is forgotten."""
        self._made, self._next, self.reused = self._next, {}, reused


def file_of(source: Source) -> File | None:
    """By what a source is known again; None where it has no file of this machine, or that is gone."""
    size = source.size
    if not source.origin or size is None:
        return None
    try:
        status = os.stat(source.origin)  # noqa: PTH116 - names may be no text
    except OSError:
        return None
    if status.st_size != size and not source.member and source.real_path == source.origin:
        return None  # it has grown since it was opened
    return File(source.path, str(source.kind), size, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
