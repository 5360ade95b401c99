"""When a container ended, and in which run of it, by the lines around the reason in a pod's description (`kubectl describe`).

Reads the few lines of that block only. What it means that a run was an earlier one is not said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy
from firstfault.readers.clock import between
from firstfault.readers.lines import lines_from
from firstfault.readers.stamps import build_stamp, match_stamp

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.model.place import Stamp
    from firstfault.readers.lines import TextStore

AROUND = 700
"""Bytes of the block looked at before and behind the line."""
_KEY = lazy(rb"\s+(?:Reason|Exit Code):\s")
_STATE = lazy(
    rb"^(\s*)(Last State|State):\s",
)
_FIELD = lazy(rb"^(\s*)([A-Z][A-Za-z ]{1,30}):\s*(.*)$")


class Ending(NamedTuple):
    """What a block of a pod's description says."""

    last: bool
    """Whether it is of a run before the present one."""
    finished: Stamp | None
    restarted_after: float | None
    """Seconds from its end to the start of the present run; None where not both are told."""


def ending(store: TextStore, source: SourceId, start: int, raw: bytes) -> Ending | None:
    """The block in which a line that starts at an offset stands; None where the line is of no such block."""
    if _KEY.match(raw) is None:
        return None
    before = store.read(source, max(0, start - AROUND), min(AROUND, start)).split(b"\n")[:-1]
    head = next((n for n in range(len(before) - 1, -1, -1) if _STATE.match(before[n])), None)
    if head is None:
        return None
    found = _STATE.match(before[head])
    assert found is not None
    last = found[2] == b"Last State"
    behind = [line.text for line in lines_from(store, source, start, 1, AROUND)]
    finished = _dated(_until_dedent(behind[1:], len(found[1])), b"Finished")
    began = _dated(before[:head], b"Started") if last else None
    gap = None if finished is None or began is None else between(finished, began)
    return Ending(last, finished, gap)


def _until_dedent(lines: list[bytes], indent: int) -> list[bytes]:
    """Lines of a block: those that are set deeper than its head."""
    kept: list[bytes] = []
    for line in lines:
        if len(line) - len(line.lstrip()) <= indent:
            break
        kept.append(line)
    return kept


def _dated(lines: list[bytes], name: bytes) -> Stamp | None:
    """The date of a field, the last of that name."""
    for line in reversed(lines):
        found = _FIELD.match(line)
        if found is not None and found[2] == name:
            seen = match_stamp(found[3].strip(), 0)
            return None if seen is None else build_stamp(*seen)
    return None
