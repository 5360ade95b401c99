"""By how much two clocks can differ for their zones alone.

Must not read a clock or a stamp.
"""

from __future__ import annotations

HOUR = 3600
WEST, EAST = -12 * HOUR, 14 * HOUR
"""Seconds east of UTC between which all zones lie."""
_BROKEN_HOURS = (-9.5, -3.5, -2.5, 3.5, 4.5, 5.5, 5.75, 6.5, 8.75, 9.5, 10.5, 11.5, 12.75, 13.75)
"""Zones that lie no whole hours from UTC, summer times and those of the last decades included."""
ZONES = frozenset({*range(WEST, EAST + 1, HOUR), *(int(h * HOUR) for h in _BROKEN_HOURS)})
"""Seconds east of UTC of every zone that exists."""
SHIFTS = tuple(sorted({s for z in ZONES for s in (z, -z)} - {0}))
"""Seconds by which a clock in UTC and one in another zone differ: machines that do not share a zone mostly stand so."""


def shifted_into(at: float, low: float, high: float) -> bool:
    """Whether another zone would put a time into an interval; all in seconds of one clock."""
    return any(low <= at - shift <= high for shift in SHIFTS)
