"""Machine's lines that lie days away from the job: of another day, whichever zones the two clocks are in.

A kernel log is kept for weeks; what it says of a day on which the job did not run explains nothing of the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import exact
from firstfault.model.evidence import EARLIER
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, When

PLATFORMS = frozenset({"kernel", "kubernetes", "container", "network"})
"""Rooms of signatures whose lines are kept for weeks, by whomever."""
ZONES = 27 * 3600.0
"""Seconds by which two clocks may differ for their zones alone (from -12 to +14 hours), and an hour more."""


def far_from_job(case: Case, event: Event) -> bool:
    """Whether a machine's or a platform's line was written long before the job's first dated sign of life or after its last.

    Of another day, where the zones of the two clocks are not both stated; else by what clocks may drift.
    """
    if event.fields.get(EARLIER):
        return True
    if not _platform(case, event) or not _dated(event.when):
        return False
    span = case.job_days
    if span is None or event.when.earliest is None or event.when.latest is None:
        return False
    return event.when.latest < span[0] - ZONES or event.when.earliest > span[1] + ZONES


def _platform(case: Case, event: Event) -> bool:
    """Whether a line is the kernel's, or that of a platform in a file in which the job itself does not speak."""
    if case.kind_of.get(event.span.source) is SourceKind.KERNEL:
        return True
    return event.signature.split(".", 1)[0] in PLATFORMS and event.span.source not in case.tracks


def _dated(when: When) -> bool:
    return when.dated and when.yeared and exact(when)
