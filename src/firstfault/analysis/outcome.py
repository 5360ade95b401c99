"""How one attempt ended: failed, completed, stopped as planned, or not told. `none` is earned, never assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from firstfault.analysis.order import first, sort_key
from firstfault.analysis.suspects import Suspect
from firstfault.model.evidence import Event, Failure
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case

COMPLETED_STATES = frozenset({"COMPLETED", "CD", "SUCCEEDED", "COMPLETE", "SUCCESS"})
FAILED_STATES = frozenset(
    {"FAILED", "F", "TIMEOUT", "TO", "NODE_FAIL", "NF", "PREEMPTED", "PR", "OUT_OF_MEMORY", "OOM", "CANCELLED", "CA",
     "BOOT_FAIL", "BF", "DEADLINE", "DL", "ERROR", "EVICTED", "OOMKILLED"}
)  # fmt: skip


class Outcome(Struct, frozen=True, kw_only=True):
    """How the attempt ended, and by which line."""

    ended: Literal["failed", "completed", "stopped", "unknown"]
    event: Event | None = None
    why: str = ""


class Traces(Struct, frozen=True, kw_only=True):
    """What speaks for and against a good end in one attempt."""

    suspects: tuple[Suspect, ...]
    """Fatal suspects that nothing acquits."""
    deaths: tuple[Event, ...]
    hangs: tuple[Event, ...]
    failures: tuple[Failure, ...]
    ends: tuple[Event, ...]
    """Lines that say that the run ended as planned."""


def ends_it(event: Event, end: Event) -> bool:
    """Whether an end marker can acquit an event: not an exception that is the last word of another source."""
    return event.exception is None or event.span.source == end.span.source


def outcome(case: Case, traces: Traces, events: Sequence[Event]) -> Outcome:
    """How the attempt ended.

    The scheduler's word counts most; then errors after the last end marker; then the end marker; then progress to the
    planned number of steps.
    """
    state = (case.seen.job_state or "").upper().split()[:1]
    if state and state[0].rstrip("+") in COMPLETED_STATES and case.seen.exit_code in {None, 0}:
        return Outcome(ended="completed", why="the scheduler says so")
    told = bool(state and state[0].rstrip("+") in FAILED_STATES) or case.seen.exit_code not in {None, 0}
    end = max(traces.ends, key=sort_key, default=None)
    bad = [s.first for s in traces.suspects] + list(traces.deaths) + list(traces.hangs)
    if end is not None and not told:
        after = [e for e in bad if first(e, end) is False]
        unplaced = [e for e in bad if first(e, end) is None]
        killed = [e for e in (*after, *unplaced) if e in traces.deaths or e in traces.hangs]
        killed += [s.first for s in traces.suspects if not any(ends_it(s.first, other) for other in traces.ends)]
        if not after and not killed:
            planned = case.has(end, Mark.PLANNED_STOP) and not case.has(end, Mark.END)
            return Outcome(ended="stopped" if planned else "completed", event=end, why="the run says so")
    if bad or traces.failures or told:
        return Outcome(ended="failed", event=min(bad, key=sort_key, default=None))
    if _reached(case) and not _stopped(case, events):
        return Outcome(ended="completed", why="progress reached the planned number of steps")
    return Outcome(ended="unknown")


def _reached(case: Case) -> bool:
    """Whether progress reached the planned number of steps, and no other source stopped on the way to the same number."""
    planned = {t.last.total for t in case.tracks.values() if t.complete}
    return bool(planned) and all(t.complete for t in case.tracks.values() if t.last.total in planned)


def _stopped(case: Case, events: Sequence[Event]) -> bool:
    return any(case.has(e, Mark.STOP_SIGNAL) for e in events)
