"""What is known of a hang: who waited, since when, for which collective; names nobody as the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import clock_of, comparable, exact, sort_key
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case
    from firstfault.analysis.order import Clock
    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import When


class Hang(Struct, frozen=True, kw_only=True):
    """A wait that was too long."""

    events: tuple[Event, ...]
    """All lines that speak of it, earliest first."""
    waiters: tuple[GlobalRank, ...]
    """Ranks that said that they waited, sorted."""
    began: float | None
    """When the stuck collective began: detection minus the time it ran, on the clock of the first line; None where not timed."""
    detected: float | None
    """When the first time-out was told, on the same clock."""
    op: str | None
    seq: str | None
    waited_ms: int | None
    apart: int = 0
    """Lines whose times lie on another clock than that of `began` and `detected`: these do not speak of them."""
    recovered: tuple[Event, ...] = ()
    """Lines of earlier waits that ended by themselves: the same ranks began another wait later."""

    @property
    def first(self) -> Event:
        """The earliest line."""
        return self.events[0]


class _Wait(Struct):
    """Lines of waits whose times meet."""

    start: float
    end: float
    events: list[Event]


SLACK = 900.0
"""Seconds after the last time-out of a stall in which its lines still come: dumps, late watchdogs, the end of processes."""


def find_hang(case: Case, roster: Roster, events: Iterable[Event]) -> Hang | None:
    """The hang of an attempt, from lines with mark `hang`; None where there are none."""
    found = sorted((e for e in events if case.has(e, Mark.HANG)), key=sort_key)
    if not found:
        return None
    recovered = _recovered(roster, found)
    if recovered:
        gone = {id(e) for e in recovered}
        found = [e for e in found if id(e) not in gone]
    clock = _common_clock(found)
    if clock is not None:
        # What is first is the first on the clock by which the wait is timed; other clocks have no place before or after it.
        found.sort(key=lambda e: exact(e.when) and clock_of(e.when) != clock)
    began: list[float] = []
    detected: list[float] = []
    waited: list[int] = []
    op = seq = None
    for event in found:
        ran = _ran_ms(event)
        if ran is not None:
            waited.append(ran)
        if exact(event.when) and event.when.earliest is not None and clock_of(event.when) == clock:
            detected.append(event.when.earliest)
            if ran is not None:
                began.append(event.when.earliest - ran / 1000)
        if op is None:
            op, seq = event.fields.get("op"), event.fields.get("seq")
    return Hang(
        events=tuple(found),
        waiters=tuple(sorted({r for r in (roster.rank(e) for e in found) if r is not None})),
        began=min(began, default=None),
        detected=min(detected, default=None),
        op=op,
        seq=seq,
        waited_ms=min(waited, default=None),
        apart=sum(1 for e in found if exact(e.when) and clock_of(e.when) != clock),
        recovered=tuple(recovered),
    )


def _common_clock(events: Iterable[Event]) -> Clock | None:
    """The clock on which most of some lines are stamped, of equally many the one of the first line; None where none is."""
    counts: dict[Clock, int] = {}
    for event in events:
        if exact(event.when):
            clock = clock_of(event.when)
            counts[clock] = counts.get(clock, 0) + 1
    return max(counts, key=lambda c: counts[c], default=None)


def _ran_ms(event: Event) -> int | None:
    """How long a work ran, or at least its timeout; None where the line does not say."""
    text = event.fields.get("ran_ms", event.fields.get("timeout_ms", ""))
    return int(text) if text.isdecimal() else None


def _recovered(roster: Roster, events: list[Event]) -> list[Event]:
    """Lines of waits apart in time from the last, whose ranks lived on: one of them began a new wait after their end.

    Waits belong together where the times between their beginning and their time-out meet. Lines without a stamp, or on
    another clock, stay with the last wait.
    """
    clock = next((e.when for e in reversed(events) if exact(e.when)), None)
    waits: list[_Wait] = []
    for start, event in sorted(((_start(e), e) for e in events if _timed(e, clock)), key=lambda p: p[0]):
        end = event.when.latest or start
        if waits and start <= waits[-1].end + SLACK:
            waits[-1].end = max(waits[-1].end, end)
            waits[-1].events.append(event)
        else:
            waits.append(_Wait(start, end, [event]))
    gone: list[Event] = []
    for number, wait in enumerate(waits[:-1]):
        ranks = {r for e in wait.events if (r := roster.rank(e)) is not None}
        later = (e for w in waits[number + 1 :] for e in w.events if _ran_ms(e) is not None)
        if any(roster.rank(e) in ranks for e in later):
            gone.extend(wait.events)
    return gone


def _timed(event: Event, clock: When | None) -> bool:
    return clock is not None and exact(event.when) and comparable(event.when, clock)


def _start(event: Event) -> float:
    return (event.when.earliest or 0.0) - (_ran_ms(event) or 0) / 1000
