"""When each rank spoke, waited and failed, on one clock: a pure fold for pictures.

It judges nothing. What lies on another clock than most ranks share is left out, and so is what no line stamps.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from firstfault.analysis.order import clock_of, exact
from firstfault.analysis.rank_table import LAST_WORDS
from firstfault.analysis.state.parts import Part
from firstfault.model.evidence import GlobalRank, When, Who
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.analysis.order import Clock
    from firstfault.analysis.rank_table import Entry
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event


class Lane(Struct, kw_only=True):
    """One rank; seconds of the clock, None where no line tells."""

    begins: float | None = None
    active_to: float | None = None
    """Last line before anybody ran out of time."""
    wait_from: float | None = None
    wait_to: float | None = None
    died: float | None = None
    """An error or an exit of its own, whose line bears a stamp."""
    died_after: float | None = None
    """The same where its line bears none: the last moment before it that is told."""
    died_before: float | None = None
    """The first moment after it that is told."""
    reported: float | None = None
    """When a launcher or scheduler first told of its end, or told it to stop; None where its own error or exit is told."""
    ends: float | None = None
    """Last line of its own; what a launcher says of it is none."""


class Course(Struct, frozen=True, kw_only=True):
    """All lanes of one attempt."""

    start: When
    """The first moment of all, as its line stamps it."""
    end: float
    lanes: dict[GlobalRank, Lane]
    first_fault: float | None
    """The first sign of the fault, where its line bears a stamp of this clock."""
    fault_after: float | None
    """The same where its line bears none: the last moment before it that is told."""
    fault_before: float | None
    """The first moment after it that is told."""


def lanes(scene: Scene, entries: Sequence[Entry], trigger: Event | None) -> Course | None:
    """The lanes of some ranks; None where no clock has two moments.

    Args:
        scene: the attempt.
        entries: the ranks.
        trigger: the first sign of the fault.
    """
    said = list(_said(scene))
    clock = _shared(said)
    if clock is None:
        return None
    here = [told for told in said if clock_of(told.when) == clock]
    waits = {e.rank: wait for e in entries if (wait := _wait(e, clock)) is not None}
    hung_at = min((to for _, to in waits.values()), default=None)
    found = {entry.rank: Lane() for entry in entries}
    for told in here:
        lane = found.get(told.rank)
        if lane is None or told.when.earliest is None:
            continue
        if told.own:
            _take(lane, told.when.earliest, hung_at)
        else:
            lane.reported = _lowest(lane.reported, told.when.earliest)
    for entry in entries:
        lane = found[entry.rank]
        lane.wait_from, lane.wait_to = waits.get(entry.rank, (None, None))
        if _ended(entry):
            lane.reported = None
            lane.died = _at(entry.note_event, clock)
            lane.died_after, lane.died_before = _between(entry.note_event, clock)
    first = min((told.when for told in here), key=lambda w: w.earliest or 0.0)
    last = max(told.when.earliest or 0.0 for told in here)
    if first.earliest is None or last <= min([first.earliest, *(begun for begun, _ in waits.values())]):
        return None
    after, before = _between(trigger, clock)
    return Course(
        start=first,
        end=last,
        lanes=found,
        first_fault=_at(trigger, clock),
        fault_after=after,
        fault_before=before,
    )


def _ended(entry: Entry) -> bool:
    """Whether the note of a rank is how it ended; what a late rank said last is no end."""
    last_words = entry.note_event is not None and entry.note_event.signature == LAST_WORDS
    return entry.part is Part.DIED or (entry.own_error and not last_words)


class _Told(NamedTuple):
    """A stamped line of a rank, or about it."""

    rank: GlobalRank
    when: When
    own: bool
    """Whether the rank itself said it, and nobody who started it or looks after it."""


def _said(scene: Scene) -> Iterator[_Told]:
    """Every stamped line of a known rank: those of a known meaning, and those that prove a step."""
    for event in scene.events:
        if exact(event.when):
            rank = scene.roster.rank(event)
            if rank is not None:
                yield _Told(rank, event.when, not _of_a_supervisor(scene, event))
    for sample in scene.case.seen.progress:
        if exact(sample.when):
            rank = scene.roster.rank_of(Who(rank=sample.rank), sample.source, {})
            if rank is not None:
                yield _Told(rank, sample.when, own=True)


def _of_a_supervisor(scene: Scene, event: Event) -> bool:
    """Whether a launcher or scheduler reports an end or a stop of the rank: what the rank says of itself is neither."""
    case = scene.case
    if case.has(event, Mark.OUTSIDE) or case.has(event, Mark.OBEYS):
        return False
    return case.has(event, Mark.DEATH) or case.has(event, Mark.STOP_SIGNAL)


def _shared(said: Iterable[_Told]) -> Clock | None:
    """The clock on which most ranks spoke; of equally many the one of most lines."""
    ranks: dict[Clock, set[GlobalRank]] = {}
    lines: Counter[Clock] = Counter()
    for told in said:
        clock = clock_of(told.when)
        ranks.setdefault(clock, set()).add(told.rank)
        lines[clock] += 1
    return max(ranks, key=lambda c: (len(ranks[c]), lines[c], str(c)), default=None)


def _lowest(known: float | None, at: float) -> float:
    """The earlier of two moments."""
    return at if known is None else min(known, at)


def _take(lane: Lane, at: float, hung_at: float | None) -> None:
    lane.begins = _lowest(lane.begins, at)
    lane.ends = at if lane.ends is None else max(lane.ends, at)
    if hung_at is None or at < hung_at - 1:
        lane.active_to = at if lane.active_to is None else max(lane.active_to, at)


def _wait(entry: Entry, clock: Clock) -> tuple[float, float] | None:
    """From when to when a rank waited in the collective that it reported first; None where its line does not time both."""
    times = []
    for here in entry.groups:
        work = here.cell.work
        to = None if work is None else _at(work.event, clock)
        if work is not None and work.ran_ms is not None and to is not None:
            times.append((to - work.ran_ms / 1000, to))
    return min(times, default=None)


def _at(event: Event | None, clock: Clock) -> float | None:
    if event is None or not exact(event.when) or clock_of(event.when) != clock:
        return None
    return event.when.earliest


def _between(event: Event | None, clock: Clock) -> tuple[float | None, float | None]:
    """The moments around a line without a stamp of its own, as far as they are told; none where it has one."""
    if event is None or exact(event.when) or clock_of(event.when) != clock:
        return None, None
    return event.when.earliest, event.when.latest
