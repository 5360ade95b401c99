"""Flight-recorder dumps of another run: a folder for dumps is kept from run to run, and what it holds may be weeks old.

Decides by times alone, and only where no zone and no wrongly inferred year could bring the two together.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.case import Case
from firstfault.analysis.far import ZONES
from firstfault.model.evidence import Coverage
from firstfault.model.words import CoverageState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.recorder import RankDump

YEAR = 365.2425 * 86400
YEARS = 3
"""Years by which a year that stands in no line may have been inferred wrongly."""


def without_dumps_of_others(case: Case) -> Case:
    """The case without dumps whose newest entry is days away from all that the job's own lines tell; each is accounted for."""
    days = case.job_days
    if days is None:
        return case
    others = {d.source: d for d in case.seen.dumps if _apart(d, days)}
    if not others:
        return case
    paths = case.paths
    rows = {
        paths[source]: Coverage(
            file=paths[source],
            state=CoverageState.SKIPPED,
            reason=f"of another run: its newest entry is of {_day(dump.latest_ns / 1e9)}, the job's lines are of {_day(days[0])}",
        )
        for source, dump in others.items()
    }
    seen = replace(
        case.seen,
        dumps=tuple(d for d in case.seen.dumps if d.source not in others),
        coverage=tuple(_row(case.seen.coverage, rows)),
    )
    return Case(seen, case.library)


def _row(coverage: Iterable[Coverage], rows: dict[str, Coverage]) -> Iterable[Coverage]:
    return (replace(rows[c.file], bytes=c.bytes) if c.file in rows else c for c in coverage)


def _apart(dump: RankDump, days: tuple[float, float]) -> bool:
    if not dump.latest_ns:
        return False
    at = dump.latest_ns / 1e9
    # By whole years the two may differ without being apart: a line without a year got one that may be wrong.
    return all(not days[0] - ZONES <= at + n * YEAR <= days[1] + ZONES for n in range(-YEARS, YEARS + 1))


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, tz=timezone.utc).strftime("%Y-%m-%d")
