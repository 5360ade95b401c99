"""Machine's lines that lie days away from the job: of another day, whichever zones the two clocks are in.

A kernel log is kept for weeks; what it says of a day on which the job did not run explains nothing of the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import exact
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, When

ZONES = 27 * 3600.0
"""Seconds by which two clocks may differ for their zones alone (from -12 to +14 hours), and an hour more."""


def far_from_job(case: Case, event: Event) -> bool:
    """Whether a line of a kernel log was written days before the job's first stamp or days after its last."""
    if case.kind_of.get(event.span.source) is not SourceKind.KERNEL or not _dated(event.when):
        return False
    span = case.job_days
    if span is None or event.when.earliest is None or event.when.latest is None:
        return False
    return event.when.latest < span[0] - ZONES or event.when.earliest > span[1] + ZONES


def _dated(when: When) -> bool:
    return when.dated and when.yeared and exact(when)
