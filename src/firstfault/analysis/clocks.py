"""Whose clock stamped a line, and how far two machines' clocks may lie apart: no order is claimed within that.

Clocks of machines differ: by seconds without a time service, by hours where one of them is in another zone. Steps tie
them together, since all ranks make the same step at one moment. Compares two readings only; it blames nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.far import ZONES
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import clock_of, comparable, exact, first
from firstfault.analysis.state.clocks import steps_apart

if TYPE_CHECKING:
    from firstfault.analysis.order import Clock
    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import Event

STATED = 300.0
"""Seconds by which clocks whose zones are stated may differ: what runs without a time service drifts so far in weeks."""
TIED = 3.0
"""Seconds by which equal steps on two machines may be printed apart."""
COMMON = 2
"""Equal steps from which on two clocks count as tied."""


class Reading(Struct, frozen=True, kw_only=True):
    """By which clock a line is stamped."""

    machine: str | None = None
    """Short host; None where it is not known."""
    steps: dict[int, float] = {}
    """When that machine made which step, on the clock of the line; empty where its lines do not tell."""


def reading(roster: Roster, event: Event) -> Reading:
    """The clock of a line."""
    host = roster.host(event)
    if host is None:
        return Reading()
    machine = short_host(host)
    return Reading(machine=machine, steps=roster.steps.get((machine, clock_of(event.when)), {}))


def steps_of_machines(roster: Roster) -> dict[tuple[str, Clock], dict[int, float]]:
    """When each machine made which step, by machine and clock; of a step that is told twice, the first time."""
    found: dict[tuple[str, Clock], dict[int, float]] = {}
    for source, track in roster.case.tracks.items():
        host = roster.file_host(source)
        if host is None:
            continue
        for sample in track.samples:
            if sample.step is not None and sample.when.earliest is not None and exact(sample.when):
                own = found.setdefault((short_host(host), clock_of(sample.when)), {})
                own.setdefault(sample.step, sample.when.earliest)
    return found


def elsewhere(a: Reading, b: Reading) -> bool:
    """Whether two lines are stamped by clocks of different machines, as far as those are known."""
    return a.machine is not None and b.machine is not None and a.machine != b.machine


def order(a: Event, clock_a: Reading, b: Event, clock_b: Reading) -> bool | None:
    """True where `a` came before `b`, False where after, None where it cannot be told by the clocks of their machines."""
    if a.span.source == b.span.source or not elsewhere(clock_a, clock_b):
        return first(a, b)
    if not (comparable(a.when, b.when) and a.when.known and b.when.known):
        return None
    assert a.when.earliest is not None
    assert a.when.latest is not None
    assert b.when.earliest is not None
    assert b.when.latest is not None
    ahead, slack = _apart(a, clock_a, clock_b)
    if a.when.latest - ahead + slack < b.when.earliest:
        return True
    return False if b.when.latest + ahead + slack < a.when.earliest else None


def _apart(a: Event, clock_a: Reading, clock_b: Reading) -> tuple[float, float]:
    """Seconds by which the first clock is ahead of the second as far as known, and by how much more they may differ."""
    apart = steps_apart(clock_a.steps, clock_b.steps, common=COMMON, spread=TIED)
    if apart is not None:
        return apart, TIED
    return 0.0, STATED if a.when.zone is not None else ZONES
