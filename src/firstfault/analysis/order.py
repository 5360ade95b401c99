"""Which of two events came first, where that can be told at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from firstfault.model.evidence import Event, SourceId, When

EXACT = 1.5
"""Seconds: an interval no longer than this is a time stamp of the line itself."""


def exact(when: When) -> bool:
    """Whether an interval comes from a stamp on the line itself."""
    return when.earliest is not None and when.latest is not None and when.latest - when.earliest <= EXACT


Clock = tuple[str | None, bool, bool]
"""What times must have in common to be compared: the zone (one for all stated ones, see `clock_of`), date and year."""


def clock_of(when: When) -> Clock:
    """The clock on which an interval lies: with a date and a stated zone it is the one of UTC, whichever zone that is."""
    zone = "Z" if when.zone is not None and when.dated else when.zone
    return (zone, when.dated, when.yeared)


def comparable(a: When, b: When) -> bool:
    """Whether two intervals lie on one clock: that of UTC where both state zone and date, else by the same statements."""
    return clock_of(a) == clock_of(b)


class Place(NamedTuple):
    """Where a line stands, and when it was said."""

    source: SourceId
    offset: int
    when: When


def place_of(event: Event) -> Place:
    """Where and when an event was said."""
    return Place(event.span.source, event.span.offset, event.when)


def came_first(a: Place, b: Place) -> bool | None:
    """True where `a` came before `b`, False where after, None where it cannot be told.

    Stamps decide where both lines carry one; else the order in a common source; else intervals that do not meet.
    """
    return _came_first(a.source, a.offset, a.when, b.source, b.offset, b.when)


def first(a: Event, b: Event) -> bool | None:
    """As `came_first`, of two events."""
    one, other = a.span, b.span
    return _came_first(one.source, one.offset, a.when, other.source, other.offset, b.when)


def _came_first(  # noqa: PLR0917 - asked so often that nothing is made for it
    source: SourceId, offset: int, when: When, other_source: SourceId, other_offset: int, other: When
) -> bool | None:
    timed = comparable(when, other) and when.known and other.known
    if timed and (source != other_source or (exact(when) and exact(other))):
        if when.before(other):
            return True
        if other.before(when):
            return False
    return offset < other_offset if source == other_source else None


def sort_key(event: Event) -> tuple[float, int, int]:
    """A total order for display: time where known, then place.

    It mixes clocks that nothing joins, and puts what has no time last: it may break a tie, and it proves no order.
    """
    when = event.when.earliest if event.when.earliest is not None and event.when.dated else float("inf")
    return (when, event.span.source, event.span.offset)
