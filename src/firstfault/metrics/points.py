"""All abnormal points of a run: where a course of steps begins to go wrong.

Observations only: what several of them mean together is for `firstfault.metrics.joint`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.metrics.kinds import ORDINARY, Kind, Point
from firstfault.metrics.pace import Pace
from firstfault.metrics.ranks import between_ranks
from firstfault.metrics.steps import by_rank
from firstfault.metrics.usage import Usage
from firstfault.metrics.values import Values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.metrics.steps import Steps

__all__ = ["Kind", "Point", "alarms", "find_points"]


def find_points(tables: Sequence[Steps]) -> list[Point]:
    """All abnormal points of a run, by time where it is told, else by source and line.

    Args:
        tables: the steps of each source.
    """
    found: list[Point] = []
    for table in tables:
        for rank, steps in by_rank(table):
            for kind in (Values, Pace, Usage):
                found += kind(steps, rank).points()
    found = [*_folded(found), *between_ranks(tables)]
    return sorted(found, key=lambda p: (p.time is None, p.time or 0.0, p.source, p.line, p.kind.value))


def _folded(points: Sequence[Point]) -> Iterator[Point]:
    """What several ranks tell of one step is one point, of nobody: the ranks of a step wait for each other."""
    same: dict[tuple[Kind, str, float | None], list[Point]] = {}
    for point in points:
        key = (point.kind, point.column, point.step if point.rank is not None else None)
        same.setdefault(key, []).append(point)
    for (_, _, step), group in same.items():
        if step is None or len({p.rank for p in group}) < 3:
            yield from group
            continue
        yield min(group, key=lambda p: p.rank or 0)._replace(rank=None)


def alarms(points: Iterable[Point]) -> list[Point]:
    """Those that are a sign of trouble."""
    return [p for p in points if p.kind not in ORDINARY]
