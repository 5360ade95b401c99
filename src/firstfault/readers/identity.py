"""Who says a line: stream prefixes of launchers, schedulers and loggers. Draws no conclusions."""

from __future__ import annotations

import re

from msgspec import Struct

from firstfault.model.evidence import Who

_PREFIX = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*(?:\[rank\d+\]:|\[default\d+\]:|\[\d+,\d+\]<std(?:err|out)>:|\s*\d+: )\s?",
)


class SourceProfile(Struct, frozen=True):
    """What is true of all lines of one source: its label style and what its name and path tell."""

    style: str = "none"
    """Name of the stream prefix that nearly all lines carry, such as `srun_label`; `none` where there is none."""
    who: Who = Who()
    """What the place of the file tells (`attempt_0/3/stderr.log` is local rank 3)."""


def profile_source(sample: bytes, path: str) -> SourceProfile:
    """Profile of a source from its first bytes (up to 256 KiB) and its shown path."""
    del sample, path
    return SourceProfile()


def body_starts(segment: bytes, profile: SourceProfile | None = None) -> tuple[int, ...]:
    """Positions in a segment at which a message may begin, ascending: 0, and after each stream prefix."""
    del profile
    starts = [0]
    position = 0
    while (found := _PREFIX.match(segment, position)) is not None and found.end() > position:
        position = found.end()
        starts.append(position)
    return tuple(starts)


def stream_key(segment: bytes, position: int, profile: SourceProfile) -> bytes:
    """Short key of who speaks at a position of a segment; equal keys are the same speaker of one source."""
    del profile
    found = None
    for found in _PREFIX.finditer(segment, 0, max(position, 1)):
        pass
    return found.group().strip() if found is not None else b""
