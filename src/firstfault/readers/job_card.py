"""When a job ended, by the block of `scontrol show job` in which its state stands. Names no meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.readers.stamps import build_stamp, match_stamp

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.model.place import Stamp
    from firstfault.readers.lines import TextStore

BELOW = 1500
"""Bytes of the block looked at behind the line of the state."""
_STATE = lazy(rb"^\s{1,8}JobState=(?!PENDING|RUNNING|SUSPENDED|COMPLETING)[A-Z_]+ ")
_END = lazy(rb"\sEndTime=(\S{19,25})")
_NEXT = lazy(rb"\nJobId=")


def job_end(store: TextStore, source: SourceId, start: int, raw: bytes) -> Stamp | None:
    """The end of the job of which a line at an offset tells a final state; None for any other line, and where none is told."""
    if _STATE.match(raw) is None:
        return None
    block = _NEXT.split(store.read(source, start, BELOW), maxsplit=1)[0]
    found = _END.search(block)
    seen = None if found is None else match_stamp(found[1], 0)
    return None if seen is None else build_stamp(*seen)
