"""Losses, gradient norms and loss scales that are no numbers, too high, too low or skipped."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.course import Course
from firstfault.metrics.kinds import (
    BRIEF_COUNT,
    BRIEF_ROWS,
    BRIEF_SHARE,
    FEW,
    FEWEST,
    GRAD_RATIO,
    GRAD_SIGMA,
    MOST_BEFORE,
    POSITIVE_SHARE,
    RESUME_ROWS,
    RISE_ROWS,
    RISE_SHARE,
    RISE_SIGMA,
    SHORT_RATIO,
    SKEW_SIGMA,
    SPIKE_SHARE,
    SPIKE_SIGMA,
    WINDOW,
    Kind,
    Point,
)
from firstfault.metrics.robust import first_run, level_at, local_baseline, step_up
from firstfault.metrics.steps import in_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Series = NDArray[np.float64]


class Values(Course):
    """Abnormal values of one rank."""

    def points(self) -> Iterator[Point]:
        """All of them."""
        yield from self.spikes()
        yield from self.nans()
        yield from self.scale()
        yield from self.skips()

    def spikes(self) -> Iterator[Point]:
        """Loss and gradient norm far above their usual level, for a moment or for good."""
        rows, loss = self.rows("loss")
        if len(rows) >= FEWEST:
            usual, spread = self._usual(rows, loss)
            yield from self._rise(rows, loss, usual, spread)
        elif (
            len(rows) >= FEW
            and self._under_way(rows[-1])
            and loss[-1] > 3 * np.median(loss[:-1])
            and loss[-1] > 1.2 * loss[:-1].max()
        ):
            yield self.point(
                Kind.LOSS_SPIKE, "loss", int(rows[-1]), float(loss[-1]), float(np.median(loss[:-1])), 1, lasts=True
            )
        rows, norm = self.rows("grad_norm", positive=True)
        if (
            FEW <= len(rows) < FEWEST
            and self._under_way(rows[-1])
            and norm[-1] > SHORT_RATIO * max(float(norm[:-1].max()), 1e-9)
        ):
            yield self.point(
                Kind.GRAD_SPIKE, "grad_norm", int(rows[-1]), float(norm[-1]), float(np.median(norm[:-1])), 1, lasts=True
            )
        if len(rows) >= FEWEST:
            log = np.log(norm)
            usual, spread = self._usual(rows, log)
            limit = np.maximum(GRAD_SIGMA * spread, np.log(GRAD_RATIO))
            high = np.flatnonzero((log - usual > limit) & (np.arange(len(log)) >= FEWEST // 2))
            yield from self._clusters(
                Kind.GRAD_SPIKE, "grad_norm", rows, norm, np.exp(usual), high, log - usual > limit / 2
            )

    def _usual(self, rows: NDArray[np.int64], values: Series) -> tuple[Series, Series]:
        """The usual level and spread at each row: those of the rows before it, or of the same steps before a restart where those are higher."""
        usual, spread = local_baseline(values, min(WINDOW, max(FEWEST // 2, len(values) // 4)))
        if self.step is None:
            return usual, spread
        attempt, steps = self.steps.attempt[rows], self.step[rows]
        for begin, end in pairwise([*(np.flatnonzero(np.diff(attempt) != 0) + 1).tolist(), len(rows)]):
            # The run before is enough, and keeps this linear where a job starts hundreds of times.
            low = max(0, begin - MOST_BEFORE)
            again = begin + np.flatnonzero(steps[begin:end] <= np.nanmax(steps[low:begin], initial=-np.inf))
            level = level_at(steps[low:begin], values[low:begin], steps[again], RESUME_ROWS)
            if level is None:
                continue
            higher = level[0] > usual[again]
            usual[again[higher]] = level[0][higher]
            spread[again] = np.maximum(spread[again], level[1])
        return usual, spread

    def _under_way(self, row: int) -> bool:
        """Whether a row lies behind the first steps of a run, in which everything changes much."""
        return self.step is not None and bool(self.step[row] > 50)

    def _rise(self, rows: NDArray[np.int64], loss: Series, usual: Series, spread: Series) -> Iterator[Point]:
        over = loss - usual
        floor = np.maximum(np.abs(usual), 1e-3)
        high = (over > np.maximum(SPIKE_SIGMA * spread, SPIKE_SHARE * floor)) & (np.arange(len(loss)) >= FEWEST // 2)
        raised = (over > np.maximum(1.5 * spread, RISE_SHARE * floor)) & (np.arange(len(loss)) >= FEWEST // 2)
        at = self._raised_from(loss, raised, usual, np.maximum(RISE_SIGMA * spread / 2, RISE_SHARE * floor))
        if at is None:
            # While the loss falls fast, its fall within a window hides how even it is.
            at = step_up(loss, RISE_ROWS, RISE_SIGMA, SPIKE_SHARE)
            if at is not None and float(np.median(loss[at : at + RISE_ROWS])) - usual[at] < RISE_SHARE * floor[at]:
                at = None
        else:
            low = max(0, at - 2 * RISE_ROWS)
            sharp = step_up(loss[low : at + RISE_ROWS], RISE_ROWS, RISE_SIGMA, SPIKE_SHARE)
            at = at if sharp is None else min(at, low + sharp)
        above = loss > 0
        if float(above.mean()) >= POSITIVE_SHARE:
            log = np.log(loss[above])
            middle, width = self._usual(rows[above], log)
            high[above] &= log - middle > SKEW_SIGMA * width
        brief, count = self._brief(rows, high)
        high &= ~(brief & ((over < BRIEF_SHARE * floor) | (count >= BRIEF_COUNT)))
        singles = np.flatnonzero(high)
        if at is not None:
            after = loss[at:]
            lasting = float(np.mean(after - usual[at] > RISE_SHARE * floor[at] / 2))
            yield self.point(
                Kind.LOSS_RISE, "loss", int(rows[at]), float(np.median(after[: 4 * RISE_ROWS])), float(usual[at]),
                round(lasting * len(after)), lasts=lasting > 0.8,
            )  # fmt: skip
            singles = singles[singles < at]
        begun = over > np.maximum(SPIKE_SIGMA * spread, SPIKE_SHARE * floor) / 2
        yield from self._clusters(Kind.LOSS_SPIKE, "loss", rows, loss, usual, singles, begun)

    @staticmethod
    def _raised_from(loss: Series, raised: NDArray[np.bool_], usual: Series, least: Series) -> int | None:
        """The first row from which on enough rows are raised and their level is, by as much as told for each; None where there is none."""
        begin = 0
        while (at := first_run(raised[begin:], RISE_ROWS, 0.9)) is not None:
            at += begin
            if float(np.median(loss[at : at + RISE_ROWS])) - usual[at] >= least[at]:
                return at
            begin = at + 1
        return None

    def _brief(self, rows: NDArray[np.int64], high: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], int]:
        """Which high rows are of a run of very few, where each row is one step as far as is told, and how many runs."""
        brief = np.zeros(len(high), dtype=bool)
        if self.step is not None and float(np.nanmedian(np.diff(self.step[rows]))) > 1:
            return brief, 0
        edges = np.flatnonzero(np.diff(high, prepend=False, append=False))
        runs = [(a, b) for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True) if b - a <= BRIEF_ROWS]
        for start, stop in runs:
            brief[start:stop] = True
        return brief, len(runs)

    def _clusters(  # noqa: PLR0917
        self, kind: Kind, column: str, rows: NDArray[np.int64], values: Series, usual: Series, high: NDArray[np.int64],
        begun: NDArray[np.bool_],
    ) -> Iterator[Point]:  # fmt: skip
        """One point for each stretch of high rows that lie within a window of each other; the first five of many.

        A stretch begins where the rows right before its first are half as far above the usual: what grows was once small.
        """
        if not len(high):
            return
        cuts = np.flatnonzero(np.diff(high) > WINDOW) + 1
        for group in np.split(high, cuts)[:5]:
            first = int(group[0])
            while first > 0 and begun[first - 1]:
                first -= 1
            peak = float(values[group].max())
            yield self.point(
                kind,
                column,
                int(rows[first]),
                peak,
                float(usual[first]),
                len(group),
                lasts=int(group[-1]) == len(values) - 1,
            )

    def nans(self) -> Iterator[Point]:
        """The first loss or gradient norm that is no number, with what came before it."""
        scaled = "loss_scale" in self.steps.columns or "skipped" in self.steps.columns
        for name in ("loss", "grad_norm"):
            column = self.steps.columns.get(name)
            if column is None:
                continue
            places = np.flatnonzero(column.there)
            bad = ~np.isfinite(column.values[places])
            if not bad.any():
                continue
            at: int | None = int(np.flatnonzero(bad)[0])
            if name == "grad_norm":
                # A single overflow is what a dynamic loss scale is for.
                at = first_run(bad, min(3, len(bad))) if scaled or bad.sum() < 3 else at
            if at is None:
                continue
            good = column.values[places][:at]
            good = good[np.isfinite(good)]
            yield self.point(
                Kind.NAN, name, int(places[at]), float(column.values[places[at]]),
                float(np.median(good[-WINDOW:])) if len(good) else float("nan"), int(bad.sum()),
                lasts=bool(bad[at:].all()), before=tuple(self._before(int(places[at]))),
            )  # fmt: skip

    def _before(self, row: int) -> Iterator[str]:
        """What is seen in the rows before a row: a gradient that grew, a scale that fell, skipped steps."""
        low = max(0, row - 20)
        norm = self.steps.values("grad_norm")
        if norm is not None:
            recent, earlier = norm[low:row], norm[max(0, low - WINDOW) : low]
            recent, earlier = recent[~np.isnan(recent)], earlier[np.isfinite(earlier)]
            if len(recent) and len(earlier) and recent.max() > GRAD_RATIO * np.median(earlier):
                yield f"gradient norm up to {recent.max():.4g}, usually {np.median(earlier):.4g}"
        scale = self.steps.values("loss_scale")
        if scale is not None:
            recent = scale[low : row + 1]
            recent = recent[np.isfinite(recent)]
            if len(recent) > 1 and recent[-1] < recent.max():
                yield f"loss scale from {recent.max():g} to {recent[-1]:g}"
        skipped = self.steps.values("skipped")
        if skipped is not None and np.nansum(skipped[low:row]) > 0:
            yield f"{int(np.nansum(skipped[low:row]))} steps skipped"

    def scale(self) -> Iterator[Point]:
        """A dynamic loss scale that fell to its floor and stays there."""
        rows, scale = self.rows("loss_scale")
        if self.step is not None and len(rows) and in_turns(self.step[rows]):
            # Processes that write in turns tell one scale, and their order among each other is no course of it.
            once = np.unique(np.stack([self.steps.attempt[rows], self.step[rows]]), axis=1, return_index=True)[1]
            rows, scale = rows[once], scale[once]
        if len(rows) < 4 or scale.max() < 8 * max(scale.min(), 1e-30):
            return
        # Below 1 gradients are scaled down: no half-precision run needs that to stay there.
        low = np.flatnonzero(scale <= min(1.0, float(scale.max()) / 8))
        if not len(low):
            return
        change = np.diff(scale, prepend=scale[0])
        rising = np.flatnonzero(change[: low[0]] > 0)
        begin = int(rising[-1]) if len(rising) else 0
        falls = np.flatnonzero(change[begin : low[0] + 1] < 0) + begin
        if len(falls) < (3 if scale[-1] >= 1.0 else 1):
            return
        # The run of falls that led there: falls far apart are the ordinary search for the largest scale.
        apart = np.diff(falls)
        gaps = np.flatnonzero(apart > max(3.0, 3 * float(np.median(apart[-6:]))))
        first = int(falls[gaps[-1] + 1]) if len(gaps) else int(falls[0])
        skipped = self.steps.values("skipped")
        while first > 0 and skipped is not None and skipped[rows[first - 1]] > 0 and scale[first - 1] >= scale[first]:
            first -= 1  # the first step that was skipped is printed with the scale to which it led
        yield self.point(
            Kind.SCALE_FLOOR, "loss_scale", int(rows[first]), float(scale[low].min()), float(scale[max(0, first - 1)]),
            len(low), lasts=bool(scale[-1] <= 1.0),
        )  # fmt: skip

    def skips(self) -> Iterator[Point]:
        """Steps that are skipped one after the other, other than at the start, where the scale is looked for."""
        rows, skipped = self.rows("skipped")
        if len(rows) < 6:
            return
        attempt = self.steps.attempt[rows]
        # Lines that tell steps with a NaN, as Megatron-LM's, tell both since the line before.
        if "nan_steps" not in self.steps.columns and self._counts_up(skipped, attempt):
            # A run that started again counts anew.
            skipped = np.where(np.diff(attempt, prepend=attempt[0]) == 0, np.diff(skipped, prepend=skipped[0]), 0.0)
        at = first_run((skipped > 0) & (self.age[rows] >= FEWEST), 6, 0.8)
        if at is not None:
            rest = skipped[at:] > 0
            yield self.point(
                Kind.SKIPPED, "skipped", int(rows[at]), float(skipped[at : at + 6].mean()), 0.0, int(rest.sum()),
                lasts=float(rest.mean()) > 0.8,
            )  # fmt: skip

    @staticmethod
    def _counts_up(skipped: Series, attempt: NDArray[np.int64]) -> bool:
        """Whether the number is that since the start (DeepSpeed) and not that since the last line (Megatron)."""
        falls = (np.diff(skipped) < 0) & (np.diff(attempt) == 0)
        return not bool(falls.any()) and bool(skipped.max() > 1)
