"""Where a course of steps begins to go wrong: the kinds of abnormal points and the thresholds of each.

Observations only: what several of them mean together is for `firstfault.metrics.joint`. Each threshold stands here with
its reason; how often each raises a false alarm on healthy series is measured by `bench/metrics/quality.py` and told in
`docs/how-to/read-training-metrics.md`.
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.robust import first_run, local_baseline, shifts, spread_of
from firstfault.metrics.steps import by_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.robust import Shift
    from firstfault.metrics.steps import Steps

    Series = NDArray[np.float64]


class Kind(str, Enum):
    """What is abnormal."""

    NAN = "nan"
    LOSS_SPIKE = "loss_spike"
    LOSS_RISE = "loss_rise"
    GRAD_SPIKE = "grad_spike"
    SCALE_FLOOR = "loss_scale_floor"
    SKIPPED = "skipped_steps"
    STEP_TIME = "step_time_shift"
    TAIL = "step_time_tail"
    THROUGHPUT = "throughput_drop"
    STALL = "stall"
    SLOW_RANK = "slow_rank"
    RANKS_DIFFER = "ranks_differ"
    LEAK = "memory_leak"
    MEMORY_JUMP = "memory_jump"
    DATA_SHARE = "data_share"
    CHECKPOINT_PAUSE = "checkpoint_pause"
    EVALUATION_PAUSE = "evaluation_pause"

    def __str__(self) -> str:
        return self.value


ORDINARY = frozenset({Kind.CHECKPOINT_PAUSE, Kind.EVALUATION_PAUSE})
"""Kinds that are told and are no sign of trouble."""


class Point(NamedTuple):
    """One abnormal point."""

    kind: Kind
    column: str
    source: str
    """As shown."""
    line: int
    """Of the first abnormal step."""
    step: float | None
    """First abnormal step; None where the source names none."""
    time: float | None
    rank: int | None
    attempt: int
    value: float
    """What it came to: the peak, or the new level."""
    usual: float
    """The level before."""
    rows: int
    """Rows that are abnormal."""
    lasts: bool
    """Whether it goes on to the end."""
    before: tuple[str, ...] = ()
    """What came in the steps before, in words."""
    epoch: int | None = None
    """As printed, where the line tells a whole one: the step may be counted within it."""


WINDOW = 48
"""Rows by which the usual level of a row is measured: fewer make the deviation itself uncertain, more follow a falling loss too late."""
FEWEST = 24
"""Rows below which a series tells no usual level."""
FEW, SHORT_RATIO = 3, 20.0
"""Of an excerpt of few rows only the last is judged: the gradient norm by this ratio to the largest before it."""
SPIKE_SIGMA, SPIKE_SHARE = 9.0, 0.12
"""A loss is a spike so many robust deviations, and by such a share, above its usual level: batches of real data give
single values of 5 to 6 deviations in 100,000 rows."""
RISE_SIGMA, RISE_SHARE = 4.0, 0.08
"""A lasting rise of the loss: of the median over `RISE_ROWS` rows, which varies a fifth of what single rows do."""
RISE_ROWS = 12
GRAD_SIGMA, GRAD_RATIO = 8.0, 4.0
"""The gradient norm is judged by its logarithm, since it is skewed."""
SHIFT_SHARE, SHIFT_SIGMA = 0.12, 2.0
"""A step time that lasts so much longer; less is seen between healthy halves of one run on shared networks."""
SHIFT_ROWS = 8
TAIL_RATIO, TAIL_SHARE, TAIL_COUNT = 1.5, 0.05, 8
"""A tail: so many rows that take so much longer than usual, at least this share of those behind its begin."""
STALL_RATIO, STALL_SECONDS = 8.0, 30.0
"""A stall: one row that takes so many times the usual, and so long, and is none of the pauses that come at regular steps."""
SLOW_SHARE, SLOW_ROWS = 0.15, 6
"""A slow rank: its time above the median of the ranks by this share in 5 of 6 rows in a row, whoever else is slow."""
AGREE, DIFFER = 1e-6, 1e-4
"""Ranks agree on a value up to the first share in all of their first rows, and differ from the second on."""
LEAK_SHARE, LEAK_BLOCKS = 0.05, 16
"""A leak: memory that rises in all but one of so many blocks of rows behind its begin, by this share in all."""
JUMP_SHARE = 0.10
DATA_SHARE, DATA_TIMES = 0.15, 2.0
"""Waiting for data takes this share of a step, and twice what it did."""
REGULAR = 3
"""Pauses at regular steps from which on they are planned."""
WARM_UP = 3
"""Rows at each start that are slow by themselves: compilation, caches, the first allocation."""


def find_points(tables: Sequence[Steps]) -> list[Point]:
    """All abnormal points of a run, by time where it is told, else by source and line.

    Args:
        tables: the steps of each source.
    """
    found: list[Point] = []
    for table in tables:
        for rank, steps in by_rank(table):
            found += _Course(steps, rank).points()
    found = [*_folded(found), *_between_ranks(tables)]
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


class _Course:
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
        """Rows since the start of the attempt."""

    def rows(self, name: str, *, warm: bool = False) -> tuple[NDArray[np.int64], Series]:
        """Places and values of the finite ones of a column; without those of warm-up where `warm`."""
        column = self.steps.columns.get(name)
        if column is None:
            return np.empty(0, np.int64), np.empty(0)
        good = column.there & np.isfinite(column.values)
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
        )  # fmt: skip

    def _epoch(self, row: int) -> int | None:
        epoch = self.steps.columns.get("epoch")
        if epoch is None or not epoch.there[row] or not float(epoch.values[row]).is_integer():
            return None
        return int(epoch.values[row])

    def points(self) -> Iterator[Point]:
        """All of them."""
        yield from self.spikes()
        yield from self.nans()
        yield from self.scale()
        yield from self.skips()
        yield from self.pace()
        yield from self.memory()
        yield from self.data()

    def spikes(self) -> Iterator[Point]:
        """Loss and gradient norm far above their usual level, for a moment or for good."""
        rows, loss = self.rows("loss")
        if len(rows) >= FEWEST:
            usual, spread = local_baseline(loss, min(WINDOW, max(FEWEST // 2, len(loss) // 4)))
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
        rows, norm = self.rows("grad_norm")
        if (
            FEW <= len(rows) < FEWEST
            and self._under_way(rows[-1])
            and norm[-1] > SHORT_RATIO * max(float(norm[:-1].max()), 1e-9)
        ):
            yield self.point(
                Kind.GRAD_SPIKE, "grad_norm", int(rows[-1]), float(norm[-1]), float(np.median(norm[:-1])), 1, lasts=True
            )
        if len(rows) >= FEWEST and bool((norm > 0).all()):
            log = np.log(norm)
            usual, spread = local_baseline(log, min(WINDOW, max(FEWEST // 2, len(log) // 4)))
            limit = np.maximum(GRAD_SIGMA * spread, np.log(GRAD_RATIO))
            high = np.flatnonzero((log - usual > limit) & (np.arange(len(log)) >= FEWEST // 2))
            yield from self._clusters(Kind.GRAD_SPIKE, "grad_norm", rows, norm, np.exp(usual), high)

    def _under_way(self, row: int) -> bool:
        """Whether a row lies behind the first steps of a run, in which everything changes much."""
        return self.step is not None and bool(self.step[row] > 50)

    def _rise(self, rows: NDArray[np.int64], loss: Series, usual: Series, spread: Series) -> Iterator[Point]:
        over = loss - usual
        floor = np.maximum(np.abs(usual), 1e-3)
        high = (over > np.maximum(SPIKE_SIGMA * spread, SPIKE_SHARE * floor)) & (np.arange(len(loss)) >= FEWEST // 2)
        raised = (over > np.maximum(1.5 * spread, RISE_SHARE * floor)) & (np.arange(len(loss)) >= FEWEST // 2)
        at = first_run(raised, RISE_ROWS, 0.9)
        if at is not None:
            level = float(np.median(loss[at : at + RISE_ROWS]))
            if level - usual[at] < max(RISE_SIGMA * spread[at] / 2, RISE_SHARE * floor[at]):
                at = None
        singles = np.flatnonzero(high)
        if at is not None:
            after = loss[at:]
            lasting = float(np.mean(after - usual[at] > RISE_SHARE * floor[at] / 2))
            yield self.point(
                Kind.LOSS_RISE, "loss", int(rows[at]), float(np.median(after[: 4 * RISE_ROWS])), float(usual[at]),
                round(lasting * len(after)), lasts=lasting > 0.8,
            )  # fmt: skip
            singles = singles[singles < at]
        yield from self._clusters(Kind.LOSS_SPIKE, "loss", rows, loss, usual, singles)

    def _clusters(  # noqa: PLR0917
        self, kind: Kind, column: str, rows: NDArray[np.int64], values: Series, usual: Series, high: NDArray[np.int64]
    ) -> Iterator[Point]:
        """One point for each stretch of high rows that lie within a window of each other; the first five of many."""
        if not len(high):
            return
        cuts = np.flatnonzero(np.diff(high) > WINDOW) + 1
        for group in np.split(high, cuts)[:5]:
            first = int(group[0])
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
        if self._counts_up(skipped):
            skipped = np.diff(skipped, prepend=skipped[0])
        at = first_run((skipped > 0) & (self.age[rows] >= FEWEST), 6, 0.8)
        if at is not None:
            rest = skipped[at:] > 0
            yield self.point(
                Kind.SKIPPED, "skipped", int(rows[at]), float(skipped[at : at + 6].mean()), 0.0, int(rest.sum()),
                lasts=float(rest.mean()) > 0.8,
            )  # fmt: skip

    @staticmethod
    def _counts_up(skipped: Series) -> bool:
        """Whether the number is that since the start (DeepSpeed) and not that since the last line (Megatron)."""
        return bool((np.diff(skipped) >= 0).all()) and skipped[-1] > 1

    def pace(self) -> Iterator[Point]:
        """Step time and throughput: lasting shifts, a growing tail, stalls and pauses."""
        drops = list(self._throughput())
        rows, seconds = self.rows("step_time", warm=True)
        if len(rows) < FEWEST:
            yield from drops
            return
        fair = self._for_size(rows, seconds)
        changes = shifts(fair, fewest=SHIFT_ROWS)
        usual = _levels(fair, changes)
        shift = next((p for p in self._shifted(rows, fair, changes) if not self._work_grew(rows, p)), None)
        if shift is not None:
            yield shift
            drops = [d for d in drops if d.line != shift.line and not _near(d, shift)]
        yield from drops
        yield from self._tail(rows, fair, usual, shift)
        yield from self._pauses(rows, fair, usual, fair / np.maximum(seconds, 1e-12))

    def _for_size(self, rows: NDArray[np.int64], seconds: Series) -> Series:
        """Step times as if all batches had the size of the first: a batch that grows by plan takes longer."""
        size = self.steps.values("batch_size")
        if size is None or np.isnan(size[rows]).any() or not (size[rows] > 0).all():
            return seconds
        return np.asarray(seconds * size[rows[0]] / size[rows], dtype=np.float64)

    def _shifted(self, rows: NDArray[np.int64], seconds: Series, changes: Sequence[Shift]) -> Iterator[Point]:
        for shift in changes:
            grown = shift.after - shift.before
            if grown > max(SHIFT_SHARE * shift.before, SHIFT_SIGMA * shift.spread):
                after = seconds[shift.at :]
                slow = after > (shift.before + shift.after) / 2
                yield self.point(
                    Kind.STEP_TIME, "step_time", int(rows[shift.at]), shift.after, shift.before, int(slow.sum()),
                    lasts=float(slow[-SHIFT_ROWS:].mean()) > 0.5,
                )  # fmt: skip

    def _work_grew(self, rows: NDArray[np.int64], shift: Point) -> bool:
        """Whether each step does more since then, since the work a second has not fallen: longer sequences, by plan."""
        for name in ("tflops", "throughput"):
            rate = self.steps.values(name)
            if rate is None:
                continue
            at = int(np.searchsorted(self.steps.line, shift.line))
            before, after = rate[max(0, at - 50) : at], rate[at : at + 50]
            before, after = before[np.isfinite(before)], after[np.isfinite(after)]
            if len(before) >= 5 and len(after) >= 5:
                return bool(np.median(after) > np.median(before) * (1 - SHIFT_SHARE / 2))
        return False

    def _throughput(self) -> Iterator[Point]:
        for name in ("tflops", "throughput"):
            rows, rate = self.rows(name, warm=True)
            if len(rows) < FEWEST or not (rate > 0).all():
                continue
            for shift in shifts(rate, fewest=SHIFT_ROWS):
                lost = shift.before - shift.after
                if lost > max(SHIFT_SHARE / (1 + SHIFT_SHARE) * shift.before, SHIFT_SIGMA * shift.spread):
                    slow = rate[shift.at :] < (shift.before + shift.after) / 2
                    yield self.point(
                        Kind.THROUGHPUT, name, int(rows[shift.at]), shift.after, shift.before, int(slow.sum()),
                        lasts=float(slow[-SHIFT_ROWS:].mean()) > 0.5,
                    )  # fmt: skip
                    return

    def _tail(self, rows: NDArray[np.int64], seconds: Series, usual: Series, shift: Point | None) -> Iterator[Point]:
        slow = seconds > TAIL_RATIO * usual
        planned = self._planned(rows, slow)
        slow &= ~planned
        if shift is not None:
            slow &= self.steps.line[rows] < shift.line
        places = np.flatnonzero(slow)
        if len(places) < TAIL_COUNT:
            return
        # The tail begins where slow rows become dense: the first from which on to the end they keep their share.
        total = len(seconds)
        share = (len(places) - np.arange(len(places))) / (total - places)
        for n, at in enumerate(places[: 1 - TAIL_COUNT]):
            gap = places[n + TAIL_COUNT - 1] - at
            before = n / max(int(at), 1)
            if share[n] >= TAIL_SHARE and before * 5 <= share[n] and gap <= 2 * TAIL_COUNT / share[n]:
                peak = float(np.percentile(seconds[at:], 99))
                yield self.point(
                    Kind.TAIL, "step_time", int(rows[at]), peak, float(usual[at]), len(places) - n, lasts=True
                )
                return

    def _planned(self, rows: NDArray[np.int64], slow: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which slow rows come at regular steps, as checkpoints and evaluations do."""
        if self.step is None or int(slow.sum()) < 2:
            return np.zeros(len(rows), dtype=bool)
        steps = self.step[rows]
        places = np.flatnonzero(slow & np.isfinite(steps))
        if len(places) < 2:
            return np.zeros(len(rows), dtype=bool)
        interval = float(np.nanmedian(np.abs(np.diff(steps)))) or 1.0
        regular = np.zeros(len(rows), dtype=bool)
        gaps, counts = np.unique(np.diff(steps[places]), return_counts=True)
        wanted = gaps >= 8 * interval
        periods = gaps[wanted][np.argsort(-counts[wanted], kind="stable")][:40]
        for period in periods:
            phase = np.mod(steps[places], period)
            phases, often = np.unique(phase, return_counts=True)
            # Behind a checkpoint at 1000 the slow row is that step, or the next one printed.
            for shift in phases[np.argsort(-often, kind="stable")][:10]:
                off = np.abs(np.mod(phase - shift + period / 2, period) - period / 2)
                for reach in (0.0, interval):
                    fit = off <= reach + 0.01 * interval
                    if self._is_plan(steps[places], fit, float(shift), float(period), interval, reach, len(periods)):
                        regular[places[fit]] = True
        return regular

    @staticmethod
    def _is_plan(  # noqa: PLR0917
        steps: Series, fit: NDArray[np.bool_], shift: float, period: float, interval: float, reach: float, tests: int
    ) -> bool:
        """Whether slow rows hit regular steps more often than rows that are slow by chance do."""
        first, last = steps[fit][0], steps[fit][-1]
        hit = len(np.unique(np.round((steps[fit] - shift) / period)))
        between = int(((steps >= first) & (steps <= last)).sum()) - hit + 1
        chance = (1 + 2 * reach / interval) * between * interval / max(last - first, interval)
        return hit >= REGULAR and _by_chance(hit, (last - first) / period + 1, chance) * tests * 20 < 1e-2

    def _pauses(self, rows: NDArray[np.int64], seconds: Series, usual: Series, factor: Series) -> Iterator[Point]:
        spans = np.diff(self.step[rows], prepend=np.nan) if self.step is not None else np.ones(len(rows))
        interval = max(1.0, float(np.nanmedian(spans)) if np.isfinite(spans).any() else 1.0)
        wall = seconds.copy()
        if self.time is not None and self.step is not None:
            took = np.diff(self.time[rows], prepend=np.nan) / np.maximum(spans, 1.0) * factor
            # Times without a date run backwards at midnight, and those of a restart hold the time between.
            good = np.isfinite(took) & (took > 0) & (self.age[rows] > WARM_UP)
            wall = np.where(good, np.maximum(wall, took), wall)
        slow = wall > 2 * usual
        planned = self._planned(rows, slow)
        long = (wall > STALL_RATIO * usual) & ((wall - usual) * interval > STALL_SECONDS) & ~planned
        # A checkpoint takes about as long each time; two stalls hardly do.
        excess = (wall - usual) * interval
        alike = [
            int(a) for a in np.flatnonzero(long) if int((np.abs(excess[slow] - excess[a]) < 0.1 * excess[a]).sum()) > 1
        ]
        long[alike], planned[alike] = False, True
        for at in np.flatnonzero(long)[:3]:
            yield self.point(
                Kind.STALL,
                "step_time",
                int(rows[at]),
                float(wall[at] * interval),
                float(usual[at] * interval),
                1,
                lasts=int(at) == len(wall) - 1,
            )
        where = np.flatnonzero(planned & slow)
        if len(where):
            evaluated = self.steps.columns.get("val_loss")
            near = evaluated is not None and any(evaluated.there[max(0, r - 2) : r + 1].any() for r in rows[where])
            kind = Kind.EVALUATION_PAUSE if near else Kind.CHECKPOINT_PAUSE
            at = int(where[0])
            yield self.point(
                kind,
                "step_time",
                int(rows[at]),
                float(np.median(wall[where]) * interval),
                float(usual[at] * interval),
                len(where),
                lasts=False,
            )

    def memory(self) -> Iterator[Point]:
        """Memory that only climbs, or that jumps for good."""
        for name in ("memory", "memory_reserved"):
            rows, used = self.rows(name, warm=True)
            if len(rows) < 2 * FEWEST:
                continue
            leak = next(filter(None, (self._leak(*one, name) for one in self._starts(rows, used))), None)
            if leak is not None:
                yield leak
                return
            for shift in shifts(used, fewest=SHIFT_ROWS):
                grown = shift.after - shift.before
                if grown > max(JUMP_SHARE * shift.before, 3 * shift.spread) and self.age[rows[shift.at]] > FEWEST:
                    yield self.point(
                        Kind.MEMORY_JUMP,
                        name,
                        int(rows[shift.at]),
                        shift.after,
                        shift.before,
                        len(used) - shift.at,
                        lasts=True,
                    )
                    return

    def _starts(self, rows: NDArray[np.int64], used: Series) -> Iterator[tuple[NDArray[np.int64], Series]]:
        """Rows and values of each start of the run: a restart frees all memory."""
        attempt = self.steps.attempt[rows]
        for one in np.unique(attempt):
            yield rows[attempt == one], used[attempt == one]

    def _leak(self, rows: NDArray[np.int64], used: Series, name: str) -> Point | None:
        if len(rows) < 3 * LEAK_BLOCKS:
            return None
        begin = _climb(used)
        rest = used[begin:]
        if len(rest) < 2 * LEAK_BLOCKS:
            return None
        blocks = np.array([np.median(b) for b in np.array_split(rest, LEAK_BLOCKS)])
        rises = int((np.diff(blocks) > 0).sum())
        largest = float(np.diff(blocks).max())
        grown = float(blocks[-1] - blocks[0])
        if rises < LEAK_BLOCKS - 2 or grown < LEAK_SHARE * blocks[0] or largest > 0.4 * grown:
            return None
        return self.point(
            Kind.LEAK,
            name,
            int(rows[begin]),
            float(used[-1]),
            float(np.median(used[: max(begin, 1)])),
            len(rest),
            lasts=True,
        )

    def data(self) -> Iterator[Point]:
        """A growing share of the step that is spent waiting for data."""
        rows, waited = self.rows("data_time", warm=True)
        seconds = self.steps.values("step_time")
        if len(rows) < FEWEST or seconds is None:
            return
        good = np.isfinite(seconds[rows]) & (seconds[rows] > 0)
        rows, share = rows[good], waited[good] / seconds[rows[good]]
        for shift in shifts(share, fewest=SHIFT_ROWS):
            if shift.after > DATA_SHARE and shift.after > DATA_TIMES * shift.before:
                yield self.point(
                    Kind.DATA_SHARE, "data_time", int(rows[shift.at]), shift.after, shift.before, len(share) - shift.at,
                    lasts=bool(np.median(share[-SHIFT_ROWS:]) > DATA_SHARE),
                )  # fmt: skip
                return


def _climb(used: Series) -> int:
    """Where a climb begins that goes on to the end: the corner of a level and a line that fit best."""
    count = len(used)
    stride = max(1, count // 400)
    corners = np.arange(0, count - count // 4, stride)
    x = np.arange(count, dtype=np.float64)
    thin = slice(None, None, max(1, count // 2000))
    best, cost = 0, np.inf
    for corner in corners:
        ramp = np.maximum(x[thin] - corner, 0.0)
        top = used[thin]
        centred = ramp - ramp.mean()
        below = float(centred @ centred)
        slope = float(centred @ (top - top.mean())) / below if below else 0.0
        left = float(np.abs(top - top.mean() - slope * centred).sum())
        if left < cost:
            best, cost = int(corner), left
    return best


def _levels(values: Series, changes: Sequence[Shift]) -> Series:
    """The usual level of each value: the median of the stretch between two changes in which it lies."""
    edges = [0, *(c.at for c in changes), len(values)]
    return np.concatenate([np.full(b - a, np.median(values[a:b])) for a, b in pairwise(edges)])


def _by_chance(hits: int, tries: float, chance: float) -> float:
    """Upper bound (Chernoff's) of the probability of so many hits or more."""
    share = min(hits / max(tries, 1.0), 1.0)
    if share <= chance or chance >= 1.0:
        return 1.0
    excess = share * np.log(share / chance)
    if share < 1.0:
        excess += (1 - share) * np.log((1 - share) / (1 - chance))
    return float(np.exp(-tries * excess))


def _near(one: Point, other: Point) -> bool:
    """Whether two points begin at one place, by their steps."""
    return one.step is not None and other.step is not None and abs(one.step - other.step) <= 0.02 * max(other.step, 50)


def _between_ranks(tables: Sequence[Steps]) -> Iterator[Point]:
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
    if len(common) < SLOW_ROWS:
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
    return _Course(steps, rank).point(kind, column, row, value, usual, count, lasts=lasts)


def alarms(points: Iterable[Point]) -> list[Point]:
    """Those that are a sign of trouble."""
    return [p for p in points if p.kind not in ORDINARY]
