"""A moment by which reading is to end: of what is not read by then, coverage tells.

It is asked between files and between blocks, in whatever process or thread reads, so that it needs neither signals nor timers.
"""

from __future__ import annotations

import time

from msgspec import Struct

OVER = "not read to its end: the time that was given was over"
"""Why a source, or the rest of one, was left out."""
STOPPED = "stopped before its end"
"""Why, where an interrupt from the keyboard came first."""
LEFT_OFF = frozenset({OVER, STOPPED})


class Until(Struct, frozen=True):
    """A moment on the monotonic clock of this machine, which its processes share."""

    at: float | None = None
    """Seconds; None for a moment that never comes."""

    def over(self) -> bool:
        """Whether it has come."""
        return self.at is not None and time.monotonic() >= self.at

    @property
    def left(self) -> float | None:
        """Seconds until then, not below 0; None where it never comes."""
        return None if self.at is None else max(0.0, self.at - time.monotonic())


NEVER = Until()


class Stages(Struct, frozen=True, kw_only=True):
    """When each stage of reading is to leave off, so that the next has its time too and the answer comes by the end of all."""

    opening: Until = NEVER
    """Listing, unpacking."""
    scanning: Until = NEVER
    reading: Until = NEVER
    """What the scan found, and where both are done file by file, both."""
    beside: Until = NEVER
    """Dumps, snapshots, records, counters and the storage side."""


UNLIMITED = Stages()
SHARES = (0.25, 0.45, 0.6, 0.7)
"""Parts of the time, from its start, by which the stages leave off. Weighing takes up to about 0.7 times as long as reading did."""


def stages(seconds: float | None) -> Stages:
    """The stages of an answer that is wanted so many seconds from now; unlimited for None."""
    if seconds is None:
        return UNLIMITED
    now = time.monotonic()
    opening, scanning, reading, beside = (Until(now + seconds * share) for share in SHARES)
    return Stages(opening=opening, scanning=scanning, reading=reading, beside=beside)
