"""What SLURM's tools print of jobs as JSON (`scontrol show job --json`, `sacct --json`): state, reason, end.

The states of several versions stand in the same places as one word or as a list of words. Names no meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import When
from firstfault.model.lazy import lazy
from firstfault.readers.outline import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from firstfault.readers.outline import Leaf, Path

_HEAD = lazy(rb'(?m)^ {0,8}"jobs" ?: ?\[\s*$')
_STATE = lazy(rb'(?m)^ {2,40}"(?:job_state|state)" ?: ?(?:\[|\{|"[A-Z_]+")')
_STATES = ("job_state",), ("job_state", "#0"), ("state", "current"), ("state", "current", "#0")
_REASONS = ("state_reason",), ("state", "reason")
_ENDS = ("end_time", "number"), ("end_time",), ("time", "end")
_WORD = lazy(r"[A-Z_]{2,40}")
_DATE = range(10**9, 10**11)


class JobObject(NamedTuple):
    """One job."""

    id: str
    state: str
    """As SLURM writes it in capitals: `TIMEOUT`, `NODE_FAIL`."""
    line: Leaf
    """The line that tells its state."""
    reason: str
    """`None` where none is given, as SLURM writes it."""
    end: When


def is_job_object(head: bytes) -> bool:
    """Whether a file holds such objects, a value in each line."""
    return b'"job_id"' in head and _HEAD.search(head) is not None and _STATE.search(head) is not None


def job_objects(data: bytes) -> Iterator[JobObject]:
    """The jobs of a file, in its order."""
    jobs: dict[Path, dict[Path, Leaf]] = {}
    for leaf in leaves(data):
        if leaf.path[0] == "jobs" and len(leaf.path) > 2:
            jobs.setdefault(leaf.path[:2], {}).setdefault(leaf.path[2:], leaf)
    for own in jobs.values():
        name, line = own.get(("job_id",)), _first(own, _STATES)
        state = None if line is None else _WORD.search(line.value)
        if name is not None and line is not None and state is not None and name.value.isdecimal():
            reason, end = _first(own, _REASONS), _first(own, _ENDS)
            yield JobObject(name.value, state.group(), line, "None" if reason is None else reason.value, _when(end))


def _first(own: Mapping[Path, Leaf], places: tuple[Path, ...]) -> Leaf | None:
    return next((own[p] for p in places if p in own), None)


def _when(leaf: Leaf | None) -> When:
    """A time in seconds since the epoch; unknown where it is none."""
    text = "" if leaf is None else leaf.value
    if not text.isdecimal() or len(text) > 11 or int(text) not in _DATE:
        return When()
    return When(float(text), float(text) + 1, "Z")
