"""How a zone is written where a time states it. Must not read a clock."""

from __future__ import annotations


def zone_name(seconds: int) -> str:
    """Seconds east of UTC as `Z` or an offset such as `+05:30`."""
    if seconds == 0:
        return "Z"
    minutes = abs(seconds) // 60
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
