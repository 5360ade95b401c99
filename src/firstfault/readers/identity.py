"""Who says a line: stream prefixes of launchers, schedulers and loggers. Draws no conclusions."""

from __future__ import annotations

import re

_PREFIX = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*(?:\[rank\d+\]:|\[default\d+\]:|\[\d+,\d+\]<std(?:err|out)>:|\s*\d+: )\s?",
)


def body_starts(segment: bytes) -> tuple[int, ...]:
    """Positions in a segment at which a message may begin: 0, and after each stream prefix."""
    starts = [0]
    position = 0
    while (found := _PREFIX.match(segment, position)) is not None and found.end() > position:
        position = found.end()
        starts.append(position)
    return tuple(starts)
