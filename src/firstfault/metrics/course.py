"""One rank's rows of one source, as all who look for abnormal points see them. Judges nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.kinds import WARM_UP, Kind, Point
from firstfault.metrics.steps import in_turns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firstfault.metrics.steps import Steps

    Series = NDArray[np.float64]


def row_of(steps: Steps, point: Point) -> int:
    """The row at which a point begins; its line alone does not tell where a bar draws many steps on one line."""
    low = int(np.searchsorted(steps.line, point.line))
    high = int(np.searchsorted(steps.line, point.line, "right"))
    if high - low > 1 and point.place is not None and steps.place is not None:
        low += int(np.searchsorted(steps.place[low:high], point.place))
    return min(low, steps.height - 1)


class Course:
    """One rank's rows of one source."""

    def __init__(self, steps: Steps, rank: int | None) -> None:
        self.steps = steps
        self.rank = rank
        step = steps.columns.get("step")
        self.step = None if step is None else np.where(step.there, step.values, np.nan)
        self.time = steps.values("time")
        starts = np.diff(steps.attempt, prepend=-1) != 0
        begin = np.maximum.accumulate(np.where(starts, np.arange(steps.height), 0))
        self.age = np.arange(steps.height) - begin
        """Rows since the start of the attempt; where several processes tell each step without their ranks, steps."""
        if self.step is not None and "epoch" not in steps.columns and in_turns(self.step):
            for one in np.unique(steps.attempt):
                own = steps.attempt == one
                self.age[own] = np.unique(self.step[own], return_inverse=True)[1]

    def rows(self, name: str, *, warm: bool = False, positive: bool = False) -> tuple[NDArray[np.int64], Series]:
        """Places and values of the finite ones of a column; without those of warm-up where `warm`.

        Where `positive`, zeros count as not measured: a skipped step prints a norm of 0, a row without work a rate of 0.
        """
        column = self.steps.columns.get(name)
        if column is None:
            return np.empty(0, np.int64), np.empty(0)
        good = column.there & np.isfinite(column.values)
        if positive:
            good &= column.values > 0
        if warm:
            good &= self.age >= WARM_UP
        rows = np.flatnonzero(good)
        return rows, column.values[rows]

    def point(  # noqa: PLR0917
        self, kind: Kind, column: str, row: int, value: float, usual: float, count: int, *, lasts: bool,
        before: tuple[str, ...] = (),
    ) -> Point:  # fmt: skip
        """A point that begins at a row."""
        step = None if self.step is None or np.isnan(self.step[row]) else float(self.step[row])
        time = None if self.time is None or np.isnan(self.time[row]) else float(self.time[row])
        return Point(
            kind, column, self.steps.source, int(self.steps.line[row]), step, time, self.rank,
            int(self.steps.attempt[row]), value, usual, count, lasts, before, self._epoch(row),
            None if self.steps.place is None else int(self.steps.place[row]),
            self.steps.derived,
        )  # fmt: skip

    def _epoch(self, row: int) -> float | None:
        """The epoch of a row: a whole one, or a fraction where no step is printed (Hugging Face's Trainer)."""
        epoch = self.steps.columns.get("epoch")
        if epoch is None or not epoch.there[row] or not np.isfinite(epoch.values[row]):
            return None
        told = float(epoch.values[row])
        return told if told.is_integer() or self.step is None or self.steps.derived else None
