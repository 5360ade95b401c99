"""What only the ranks side by side show: one that is slow, and values on which they should agree and do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.course import Course
from firstfault.metrics.kinds import AGREE, DIFFER, SLOW_FEW, SLOW_ROWS, SLOW_SHARE, Kind, Point
from firstfault.metrics.robust import first_run, spread_of
from firstfault.metrics.steps import by_rank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.steps import Steps

    Series = NDArray[np.float64]


def between_ranks(tables: Sequence[Steps]) -> Iterator[Point]:
    """What only the ranks side by side show: one that is slow, and values on which they should agree and do not."""
    courses = [(r, s) for t in tables for r, s in by_rank(t) if r is not None and "step" in s.columns]
    ranks: dict[int, Steps] = {}
    for rank, steps in courses:
        if rank not in ranks or steps.height > ranks[rank].height:
            ranks[rank] = steps
    if len(ranks) < 2:
        return
    yield from _slow_ranks(ranks)
    yield from _differing(ranks)


PHASES = ("data_time", "forward_time", "optimizer_time", "backward_time", "step_time")
"""In which a rank may be slow; the times in which the others wait for it come last."""


def _table(ranks: dict[int, Steps], name: str) -> tuple[Series, list[int], NDArray[np.float64]] | None:
    """Steps, ranks, and a matrix of a column with a row for each step that most ranks tell."""
    rows: dict[int, dict[float, float]] = {}
    for rank, steps in ranks.items():
        step, column = steps.columns["step"], steps.columns.get(name)
        if column is None:
            continue
        last = steps.attempt == steps.attempt[-1]
        good = step.there & column.there & last
        rows[rank] = dict(zip(step.values[good].tolist(), column.values[good].tolist(), strict=True))
    if len(rows) < 2:
        return None
    named = sorted(rows)
    counts: dict[float, int] = {}
    for values in rows.values():
        for at in values:
            counts[at] = counts.get(at, 0) + 1
    common = np.array(sorted(s for s, n in counts.items() if n > len(named) / 2 and n > 1))
    if len(common) < SLOW_FEW:
        return None
    matrix = np.array([[rows[r].get(s, np.nan) for r in named] for s in common.tolist()])
    return common, named, matrix


def _slow_ranks(ranks: dict[int, Steps]) -> Iterator[Point]:
    if len(ranks) < 3:
        return  # of two nobody can be told to be the slow one
    told: set[int] = set()
    for name in PHASES:
        table = _table(ranks, name)
        if table is None:
            continue
        common, named, matrix = table
        middle = np.nanmedian(matrix, axis=1)
        whole = _table(ranks, "step_time")
        scale = middle if whole is None else np.full(len(common), float(np.nanmedian(whole[2])))
        usual = spread_of((matrix - middle[:, None])[np.isfinite(matrix)].ravel())
        for n, rank in enumerate(named):
            over = matrix[:, n] - middle
            slow = over > np.maximum(SLOW_SHARE * np.maximum(middle, 0.2 * scale), 4 * usual)
            at = first_run(slow, SLOW_ROWS, 5 / 6)
            if at is None:
                at = first_run(slow & (over > np.maximum(middle, 0.25 * scale)), SLOW_FEW)
            if at is None or rank in told:
                continue
            told.add(rank)
            yield _rank_point(
                Kind.SLOW_RANK, name, ranks[rank], rank, float(common[at]), float(np.nanmedian(matrix[at:, n])),
                float(np.nanmedian(middle[at:])), int(slow[at:].sum()), lasts=bool(slow[-SLOW_ROWS:].mean() > 0.5),
            )  # fmt: skip
        if told:
            return


def _differing(ranks: dict[int, Steps]) -> Iterator[Point]:
    for name in ("grad_norm", "lr", "loss", "loss_scale"):
        table = _table(ranks, name)
        if table is None:
            continue
        common, named, matrix = table
        finite = np.where(np.isfinite(matrix), matrix, np.nan)
        usable = np.isfinite(finite).sum(axis=1) > 1
        common, finite = common[usable], finite[usable]
        if len(common) < SLOW_ROWS:
            continue
        middle = np.nanmedian(finite, axis=1)
        off = np.abs(finite - middle[:, None]) / np.maximum(np.abs(middle), 1e-12)[:, None]
        worst = np.nanmax(off, axis=1)
        first = worst[: max(5, len(worst) // 10)]
        if not bool((first <= AGREE).all()):
            continue  # of their own batches: they need not agree
        bad = np.flatnonzero(worst > DIFFER)
        if not len(bad):
            continue
        at = int(bad[0])
        rank = named[int(np.nanargmax(off[at]))] if len(named) > 2 else named[0]
        yield _rank_point(
            Kind.RANKS_DIFFER, name, ranks[rank], rank, float(common[at]), float(finite[at, named.index(rank)]),
            float(middle[at]), len(bad), lasts=bool(worst[-1] > DIFFER),
        )  # fmt: skip


def _rank_point(  # noqa: PLR0917
    kind: Kind,
    column: str,
    steps: Steps,
    rank: int,
    step: float,
    value: float,
    usual: float,
    count: int,
    *,
    lasts: bool,
) -> Point:
    named = steps.columns["step"]
    row = int(np.flatnonzero(named.there & (named.values == step))[-1]) if (named.values == step).any() else 0
    return Course(steps, rank).point(kind, column, row, value, usual, count, lasts=lasts)
