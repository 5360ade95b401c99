"""Lays out the storage side of a diagnosis: clock, daemons, what befell them, and what their counters did; infers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis import storage_words as words
from firstfault.analysis.state.storage import Change, changes, flags, stats_event
from firstfault.analysis.state.storage_faults import Kind, troubles
from firstfault.model.diagnosis import Storage, StorageClock, StorageCounter, StorageDaemon, StorageEvent
from firstfault.model.evidence import When
from firstfault.model.lazy import lazy
from firstfault.model.zones import zone_name
from firstfault.pipelines.times import time_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.state.storage import DaemonState, StorageState
    from firstfault.analysis.state.storage_faults import Trouble
    from firstfault.model.diagnosis import Evidence, Time
    from firstfault.model.evidence import Event

EVENTS = 80
"""Events that are listed at most, those nearest to the failure."""
COUNTERS = 200
"""Rows of counters at most; failures first."""
BEFORE, AFTER = 1800.0, 300.0
"""Seconds around the moment at which the job stood still for which counters are compared."""
WANTED = lazy(
    r"(?:err\..*|get(?:batch)?(?:\.obj|\.file)?\.n|getbatch\.\w+\.ns|lru\.evict\.n|stream\.\w+\.n|(?:aws|gcp|azure|oci|ht)\.get\.n)$"
)
"""Counters that are shown: failures, reads, waits, evictions, streams, reads from the backend."""


def storage_section(conclusion: Conclusion, cite: Callable[[Event], Evidence | None]) -> Storage | None:
    """The storage side; None where no daemon's logs were given.

    Args:
        conclusion: with what the daemons' logs tell.
        cite: re-reads the line of an event and gives it as evidence, or None where it does not read back.
    """
    state = conclusion.storage
    if state is None:
        return None
    begins, ends = state.window or (None, None)
    return Storage(
        clock=_clock(state, cite),
        begins=None if begins is None else time_of(state.job_time(begins)),
        ends=None if ends is None else time_of(state.job_time(ends)),
        daemons=[_daemon(state, daemon, cite) for daemon in state.daemons],
        targets=state.targets,
        events=_events(state, cite),
        counters=_counters(state, cite),
    )


def _clock(state: StorageState, cite: Callable[[Event], Evidence | None]) -> StorageClock:
    join = state.clock
    proof = [state.job.stop_event] if state.job.stop_event is not None and join.offset is not None else []
    for name, line in join.stops[:3]:
        daemon = state.named(name)
        if daemon is not None:
            at = next((at for at, other in daemon.stats if other.span == line.span), line.at)
            proof.append(stats_event(daemon, at, line, join.counter))
    return StorageClock(
        offset_seconds=join.offset, how=join.how, why=join.why, evidence=[e for e in map(cite, proof) if e is not None]
    )


def _daemon(state: StorageState, daemon: DaemonState, cite: Callable[[Event], Evidence | None]) -> StorageDaemon:
    restarts = [cite(r.event) for r in daemon.restarts]
    return StorageDaemon(
        name=daemon.daemon.shown,
        node=daemon.daemon.node,
        role=str(daemon.daemon.role),
        version=daemon.version,
        begins=_moment(daemon, daemon.begins),
        ends=_moment(daemon, daemon.ends),
        covers_failure=daemon.covers,
        restarts=[r for r in restarts if r is not None],
        holes=[
            f"{words.both_clocks(state, h.begins, daemon.zone)} to {words.both_clocks(state, h.ends, daemon.zone)}: {h.why}"
            for h in daemon.holes
        ],
        alerts=_alerts(state, daemon, cite),
    )


def _alerts(state: StorageState, daemon: DaemonState, cite: Callable[[Event], Evidence | None]) -> list[str]:
    """Each alert of a node around the failure with the line that first shows it there, and its time on both clocks."""
    if state.stop is None:
        return []
    found: dict[str, str] = {}
    for at, line in daemon.stats:
        new = set(flags(line.counters.get("state.flags", 0))) - set(found)
        if not new or not state.stop - BEFORE <= at <= state.stop + AFTER:
            continue
        shown = cite(stats_event(daemon, at, line, "state.flags"))
        if shown is not None:
            when = words.both_clocks(state, at, daemon.zone)
            found.update((name, f"{name} at {when} {shown.file}:{shown.line}") for name in new)
    return [found[name] for name in sorted(found)]


def _moment(daemon: DaemonState, at: float | None) -> Time | None:
    if at is None:
        return None
    zone = None if daemon.zone is None else zone_name(daemon.zone)
    return time_of(When(at, at, zone))


def _events(state: StorageState, cite: Callable[[Event], Evidence | None]) -> list[StorageEvent]:
    listed = troubles(state)
    if state.stop is not None:
        stop = state.stop
        listed = sorted(listed, key=lambda t: (t.kind is Kind.ECHO, abs(t.first.at - stop)))[:EVENTS]
    found = []
    for trouble in sorted(listed[:EVENTS], key=lambda t: (t.first.at, t.node, t.signature)):
        evidence = cite(trouble.first.event)
        if evidence is not None:
            found.append(_event(state, trouble, evidence))
    return found


def _event(state: StorageState, trouble: Trouble, evidence: Evidence) -> StorageEvent:
    return StorageEvent(
        daemon=trouble.full,
        what=words.SAID[trouble.signature],
        evidence=evidence,
        job_time=time_of(state.job_time(trouble.first.at)),
        count=len(trouble.moments),
    )


def _counters(state: StorageState, cite: Callable[[Event], Evidence | None]) -> list[StorageCounter]:
    if state.stop is None:
        return []
    rows: list[tuple[bool, int, Change]] = []
    for number, daemon in enumerate(state.daemons):
        found_here = changes(daemon, state.stop - BEFORE, state.stop + AFTER)
        rows.extend((not c.name.startswith("err."), number, c) for c in found_here if WANTED.match(c.name))
    rows.sort(key=lambda row: (row[0], row[1], row[2].name))
    found = []
    for _, number, change in sorted(rows[:COUNTERS], key=lambda row: (row[1], row[0], row[2].name)):
        ends = [(moment, line) for moment in (change.first, change.last) if (line := cite(moment.event)) is not None]
        found.append(
            StorageCounter(
                daemon=state.daemons[number].daemon.full,
                counter=change.name,
                before=change.before,
                after=change.after,
                delta=change.delta,
                per_second=round(change.per_second, 3),
                reset=change.reset,
                evidence=[line for _, line in ends],
                job_times=[time for moment, _ in ends if (time := time_of(state.job_time(moment.at))) is not None],
            )
        )
    return found
