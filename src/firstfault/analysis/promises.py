"""Exceptions that a program promised to survive, and did not: their speaker says nothing more, and its process ends at an error.

A client of a store prints a whole traceback with a read that it repeats. What stands below the same warning may be another
exception, which nobody caught; only how the process ended tells. It looks at ends that others report, and judges no kind of error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.case import Case
from firstfault.analysis.outcome import unkept

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import Event, Span

_AT_AN_ERROR = frozenset({"1", "1:0"})
"""How Python ends at an exception that nobody caught."""
_FRAME, _LINKED = 3, 40
"""Lines of a frame, and of each further exception of a chain, at most."""

_Place = tuple["Span", str]


def broken_promises(
    roster: Roster, innocent: Iterable[Event], guilty: Iterable[Event], deaths: Iterable[Event]
) -> frozenset[_Place]:
    """Places and signatures of the exceptions below a promise that was not kept, those of their chain among them.

    Most ranks print nothing more after a read that healed: that one was a rank's last word says little where another exception
    explains the end, or where it is not known whose end it was.

    Args:
        roster: who runs where.
        innocent: events that were acquitted.
        guilty: those that were not.
        deaths: ends of processes; one of which no rank is known counts for the one loader that raised in its own file.
    """
    excused = [e for e in innocent if e.exception is not None and e.exception.ignored]
    left = [e for e in excused if unkept(e, ())]
    if not left or any(e.exception is not None for e in guilty):
        return frozenset()
    ended = [e for e in deaths if e.fields.get("exit_code") in _AT_AN_ERROR]
    ranks = {roster.rank(e) for e in ended} - {None}
    broken = [e for e in left if roster.rank(e) in ranks]
    for source in {e.span.source for e in ended if roster.rank(e) is None}:
        loaders = [e for e in left if e.span.source == source and _of_a_loader(e, excused)]
        broken += loaders if len(loaders) == 1 else []
    return frozenset((e.span, e.signature) for last in broken for e in excused if _of_one(e, last))


def _of_a_loader(last: Event, excused: Iterable[Event]) -> bool:
    """Whether a loader raised it in its main process: no client that repeats a read catches that."""
    chain = (e.exception for e in excused if _of_one(e, last))
    return any(exception is not None and exception.in_worker for exception in chain)


def _of_one(event: Event, last: Event) -> bool:
    """Whether an exception is of the chain of one that stands behind it."""
    exception = last.exception
    if exception is None or event.span.source != last.span.source or event.who.rank != last.who.rank:
        return False
    reach = _FRAME * (len(exception.frames) + 1) + _LINKED * len(exception.chained_from)
    return 0 <= last.span.line - event.span.line <= reach


def uncaught_after_all(seen: Case, broken: frozenset[_Place]) -> Case:
    """The same evidence with some exceptions as ones that nobody caught."""
    events = tuple(
        replace(e, exception=replace(e.exception, ignored=False))
        if e.exception is not None and (e.span, e.signature) in broken
        else e
        for e in seen.events
    )
    return Case(replace(seen.seen, events=events), seen.library)
