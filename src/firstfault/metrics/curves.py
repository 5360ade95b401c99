"""Columns thinned for drawing: of many rows the lowest and the highest of each stretch, so that no spike is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.steps import by_rank
from firstfault.model.metrics import Curve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.steps import Steps

DRAWN = ("loss", "val_loss", "grad_norm", "lr", "loss_scale", "step_time", "throughput", "tflops", "memory", "memory_reserved", "data_time")  # fmt: skip
"""Columns that are drawn, in this order."""
MOST_POINTS = 240
MOST_RANKS = 32
"""Ranks of a source that are drawn."""


def curves_of(tables: Sequence[Steps]) -> Iterator[Curve]:
    """The curves of all tables: for each rank and each column that is drawn."""
    for table in tables:
        for n, (rank, steps) in enumerate(by_rank(table)):
            if n >= MOST_RANKS:
                break
            step = steps.columns.get("step")
            x = np.arange(1.0, steps.height + 1) if step is None else np.where(step.there, step.values, np.nan)
            for name in DRAWN:
                column = steps.columns.get(name)
                if column is None:
                    continue
                good = column.there & np.isfinite(x)
                at = thin(column.values[good], MOST_POINTS)
                y = column.values[good][at]
                yield Curve(
                    file=table.source,
                    column=name,
                    rank=rank,
                    x=[float(v) for v in x[good][at]],
                    y=[float(v) if np.isfinite(v) else None for v in y],
                )


def thin(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Places of the values to draw: the first and last, and of each of half as many stretches the lowest, highest and first that is no number."""
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), most // 2 + 1).astype(np.int64)
    kept = {0, len(values) - 1}
    for start, stop in pairwise(edges):
        part = values[start:stop]
        bad = np.flatnonzero(~np.isfinite(part))
        if len(bad):
            kept.add(int(start + bad[0]))
        if len(bad) < len(part):
            kept |= {
                int(start + np.nanargmin(np.where(np.isfinite(part), part, np.nan))),
                int(start + np.nanargmax(np.where(np.isfinite(part), part, np.nan))),
            }
    return np.array(sorted(kept))
