"""Error files of an earlier run: a launcher's folder is kept from run to run, and what lies in it may be of none that is told.

Decides by times alone, and only of a run that itself says that it ended: such a file is left over where no zone puts its
time between the first sign of life and that end. Without an end a process may have failed at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import exact
from firstfault.analysis.zones import ZONES
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, SourceId, When

SLACK = 300.0
"""Seconds by which a process may be told to have failed behind the end of its run: clocks drift, and processes are slow to end."""


def left_over(case: Case, events: Iterable[Event], ends: Iterable[Event]) -> frozenset[SourceId]:
    """Error files that are of another run.

    Args:
        case: of the attempt.
        events: of the attempt.
        ends: lines that say that the run ended as planned.
    """
    files = {s for s, kind in case.kind_of.items() if kind is SourceKind.ERROR_JSON}
    until = [e.when for e in ends]
    if not files or not until or not all(_dated(w) for w in until):
        return frozenset()
    signs = [e.when for e in events if e.span.source not in files and case.kind_of.get(e.span.source) is SourceKind.LOG]
    signs += [p.when for p in case.seen.progress if p.source not in files]
    told = [w for w in (*signs, *until) if _dated(w)]
    low, high = min(_at(w) for w in told), max(_at(w) for w in told)
    zones = {w.zone for w in told}
    when = {e.span.source: e.when for e in events if e.span.source in files}
    when |= {f.span.source: f.when for f in case.seen.failures if f.span.source in files}
    return frozenset(s for s, w in when.items() if _dated(w) and not _within(w, low - SLACK, high + SLACK, zones))


def _within(when: When, low: float, high: float, zones: set[str | None]) -> bool:
    """Whether a time can lie between two others, whose zone is known or may be any."""
    shifts = {0} if zones == {when.zone} and when.zone is not None else ZONES
    return any(low <= _at(when) + shift <= high for shift in shifts)


def _dated(when: When) -> bool:
    return when.dated and when.yeared and exact(when)


def _at(when: When) -> float:
    return when.earliest or 0.0
