"""Machine's lines that lie days away from the job: of another day, whichever zones the two clocks are in.

A kernel log is kept for weeks; what it says of a day on which the job did not run explains nothing of the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import exact
from firstfault.analysis.zones import shifted_into
from firstfault.model.evidence import EARLIER
from firstfault.model.words import Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, When

PLATFORMS = frozenset({"kernel", "kubernetes", "container", "network"})
"""Rooms of signatures whose lines are kept for weeks, by whomever."""
ZONES = 27 * 3600.0
"""Seconds by which two clocks may differ for their zones alone (from -12 to +14 hours), and an hour more."""
BEFORE_END = 600.0
"""Seconds before the end of a job within which a machine's fault can have ended it, where nobody waited for a time-out."""
BEHIND = 300.0
"""Seconds after the end within which a machine's line may still be about it: clocks drift, and monitors are slow."""
DRIFT = 60.0
"""Seconds by which a kernel's clock, counted from its start, may differ from that of the programs on the same machine."""


def all_far_from_job(case: Case, events: Iterable[Event]) -> set[int]:
    """Those of some events (by identity) that are far from the job; most are by their signatures and sources none."""
    machines = {s for s in case.signatures if s.split(".", 1)[0] in PLATFORMS}
    kernels = {source for source, kind in case.kind_of.items() if kind is SourceKind.KERNEL}
    return {
        id(e)
        for e in events
        if (e.signature in machines or EARLIER in e.fields or e.span.source in kernels) and far_from_job(case, e)
    }


def far_from_job(case: Case, event: Event) -> bool:
    """Whether a machine's or a platform's line was written long before the job's first dated sign of life or after its last.

    Of another day; or after the reported end of the job, at a time that no difference of zones puts near that end; or of the
    end of a process before any rank had begun.
    """
    if event.fields.get(EARLIER) or _before_all_ranks(case, event):
        return True
    if not _platform(case, event) or not _dated(event.when):
        return False
    span = case.job_days
    if span is None or event.when.earliest is None or event.when.latest is None:
        return False
    if event.when.latest < span[0] - ZONES or event.when.earliest > span[1] + ZONES:
        return True
    return _after_the_end(case, event.when)


def _before_all_ranks(case: Case, event: Event) -> bool:
    """Whether a line tells of a process that ended before the black boxes of the ranks began, of which none is missing."""
    when = event.when
    if not (event.signature.startswith("kernel.") and case.has(event, Mark.DEATH)):
        return False
    if not case.seen.box or not _dated(when) or when.zone is None or when.latest is None:
        return False
    of_ranks = [r for r in case.seen.box if r.who.rank is not None and r.who.worker is None]
    worlds = [w for r in of_ranks if isinstance(w := r.fields.get("world"), int)]
    if len({r.who.rank for r in of_ranks}) < max(worlds, default=1):
        return False  # one that has no box may have ended so
    begun = [r.when.earliest for r in of_ranks if r.when.earliest is not None]
    return bool(begun) and when.latest < min(begun) - DRIFT


def _after_the_end(case: Case, when: When) -> bool:
    """Whether a time lies behind the reported end of the job, on whichever zones the two clocks are.

    A container often has another zone than its machine; then the two differ by a zone that exists, and by what clocks drift.
    """
    end = case.reported_end
    if end is None or when.earliest is None or when.dated != end.dated or not exact(end):
        return False
    assert end.earliest is not None
    assert end.latest is not None
    begun = case.first_error
    lowest = end.earliest - BEFORE_END if begun is None else max(end.earliest - BEFORE_END, begun - BEHIND / 2)
    behind = when.earliest - end.latest
    if behind <= BEHIND:
        return False
    if when.zone is not None and end.zone is not None:
        return True
    return not shifted_into(behind, lowest - end.latest, BEHIND)


def _platform(case: Case, event: Event) -> bool:
    """Whether a line is the kernel's, or that of a platform in a file in which the job itself does not speak."""
    if case.kind_of.get(event.span.source) is SourceKind.KERNEL:
        return True
    return event.signature.split(".", 1)[0] in PLATFORMS and event.span.source not in case.tracks


def _dated(when: When) -> bool:
    return when.dated and when.yeared and exact(when)
