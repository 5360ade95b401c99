"""Step times and throughput: lasting shifts, growing tails, stalls, and pauses that are planned."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.course import Course, row_of
from firstfault.metrics.kinds import (
    EVEN_RATE,
    FEWEST,
    GROWTH_REACH,
    GROWTH_SHARE,
    GROWTH_STAIRS,
    PAUSE_RATIO,
    REGULAR,
    ROUND_ALONE,
    ROUND_PAUSE,
    ROUND_STEPS,
    SHIFT_ROWS,
    SHIFT_SHARE,
    SHIFT_SIGMA,
    STALL_RATIO,
    STALL_SECONDS,
    TAIL_BEFORE,
    TAIL_COUNT,
    TAIL_RATIO,
    TAIL_SHARE,
    WANDER_TIMES,
    WARM_UP,
    Kind,
    Point,
)
from firstfault.metrics.robust import climb, falls_at_once, shifts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.robust import Shift

    Series = NDArray[np.float64]


class Pace(Course):
    """Abnormal pace of one rank."""

    def points(self) -> Iterator[Point]:
        """All of them."""
        yield from self.pace()

    def pace(self) -> Iterator[Point]:
        """Step time and throughput: lasting shifts, a growing tail, stalls and pauses."""
        drops = list(self._throughput())
        rows, seconds = self.rows("step_time", warm=True)
        if len(rows) < FEWEST:
            yield from drops
            yield from self._rate_tail(drops)
            rows, seconds = self._by_clock()
            if len(rows) >= FEWEST:
                yield from self._pauses(
                    rows, seconds, self._levels(rows, seconds, shifts(seconds, fewest=SHIFT_ROWS)), np.ones(len(rows))
                )
            return
        fair = self._for_size(rows, seconds)
        changes = shifts(fair, fewest=SHIFT_ROWS)
        usual = self._levels(rows, fair, changes)
        shift = next((p for p in self._shifted(rows, fair, changes) if not self._work_grew(p)), None)
        if shift is not None:
            yield shift
            drops = [d for d in drops if row_of(self.steps, d) != row_of(self.steps, shift) and not _near(d, shift)]
        yield from drops
        yield from self._tail(rows, fair, usual, shift)
        yield from self._pauses(rows, fair, usual, fair / np.maximum(seconds, 1e-12))

    def _by_clock(self) -> tuple[NDArray[np.int64], Series]:
        """Rows and seconds a step by the clock of the lines: whole seconds as a rule, good for what stands still and for nothing finer."""
        if self.time is None or self.step is None:
            return np.empty(0, np.int64), np.empty(0)
        rows = np.flatnonzero(np.isfinite(self.time) & np.isfinite(self.step))
        # A bar that rounds its count (`1.23kit`) tells one step several times: it lasts until the count goes on.
        rows = rows[np.diff(self.step[rows], prepend=np.nan) != 0]
        took = np.diff(self.time[rows], prepend=np.nan) / np.maximum(np.diff(self.step[rows], prepend=np.nan), 1.0)
        good = (took > 0) & (self.age[rows] >= WARM_UP)
        return rows[good], took[good]

    def _for_size(self, rows: NDArray[np.int64], seconds: Series) -> Series:
        """Step times as if all batches had the size of the first: a batch that grows by plan takes longer."""
        size = self.steps.values("batch_size")
        if size is None:
            return seconds
        told = np.isfinite(size) & (size > 0)
        if not told.any():
            return seconds
        # A row that tells no size, or 0, has that of the row before it.
        last = np.maximum.accumulate(np.where(told, np.arange(len(size)), int(np.argmax(told))))
        size = size[last][rows]
        return np.asarray(seconds * size[0] / size, dtype=np.float64)

    def _levels(self, rows: NDArray[np.int64], values: Series, changes: Sequence[Shift]) -> Series:
        """The usual level of each value: the median of the stretch between two changes in which it lies.

        What a start of the run changed within its own rows counts too: another that goes back over its steps hides it.
        """
        edges = {0, *(c.at for c in changes), len(values)}
        attempt = self.steps.attempt[rows]
        starts = [0, *(np.flatnonzero(np.diff(attempt) != 0) + 1).tolist(), len(values)]
        for begin, end in pairwise(starts):
            own = shifts(values[begin:end], fewest=SHIFT_ROWS) if len(starts) > 2 else []
            edges.update({begin, end, *(begin + c.at for c in own)} if own else ())
        return np.concatenate([np.full(b - a, np.median(values[a:b])) for a, b in pairwise(sorted(edges))])

    def _shifted(self, rows: NDArray[np.int64], seconds: Series, changes: Sequence[Shift]) -> Iterator[Point]:
        for shift in changes:
            grown = shift.after - shift.before
            if grown > max(SHIFT_SHARE * shift.before, SHIFT_SIGMA * shift.spread):
                yield self._longer(rows, seconds, shift.at, shift.before, shift.after)
        for low, high in _rises(changes):
            first, last = changes[low], changes[high]
            grown = last.after - first.before
            if grown > max(GROWTH_SHARE * first.before, SHIFT_SIGMA * max(c.spread for c in changes[low : high + 1])):
                end = changes[high + 1].at if high + 1 < len(changes) else len(seconds)
                at = min(first.at, climb(seconds[:end], GROWTH_REACH))
                yield self._longer(rows, seconds, at, first.before, last.after)

    def _longer(self, rows: NDArray[np.int64], seconds: Series, at: int, before: float, after: float) -> Point:
        slow = seconds[at:] > (before + after) / 2
        lasts = float(slow[-SHIFT_ROWS:].mean()) > 0.5
        return self.point(Kind.STEP_TIME, "step_time", int(rows[at]), after, before, int(slow.sum()), lasts=lasts)

    def _work_grew(self, shift: Point) -> bool:
        """Whether each step does more since then, since the work a second has not fallen: longer sequences, by plan."""
        for name in ("tflops", "throughput"):
            rate = self.steps.values(name)
            if rate is None:
                continue
            at = row_of(self.steps, shift)
            before, after = rate[max(0, at - 50) : at], rate[at : at + 50]
            before, after = (part[np.isfinite(part) & (part > 0)] for part in (before, after))
            if len(before) >= 5 and len(after) >= 5:
                return bool(np.median(after) > np.median(before) * (1 - SHIFT_SHARE / 2))
        return False

    def _throughput(self) -> Iterator[Point]:
        for name in ("tflops", "throughput"):
            rows, rate = self.rows(name, warm=True, positive=True)
            if len(rows) < FEWEST:
                continue
            level = np.log(rate)
            for shift in shifts(rate, fewest=SHIFT_ROWS):
                lost = shift.before - shift.after
                if lost <= max(SHIFT_SHARE / (1 + SHIFT_SHARE) * shift.before, SHIFT_SIGMA * shift.spread):
                    continue
                if falls_at_once(level, shift.at, WANDER_TIMES):
                    slow = rate[shift.at :] < (shift.before + shift.after) / 2
                    yield self.point(
                        Kind.THROUGHPUT, name, int(rows[shift.at]), shift.after, shift.before, int(slow.sum()),
                        lasts=float(slow[-SHIFT_ROWS:].mean()) > 0.5,
                    )  # fmt: skip
                    return

    def _tail(self, rows: NDArray[np.int64], seconds: Series, usual: Series, shift: Point | None) -> Iterator[Point]:
        slow = seconds > TAIL_RATIO * usual
        planned = self._planned(rows, slow) | self._round(rows, slow)
        slow &= ~planned
        if shift is not None:
            slow &= rows < row_of(self.steps, shift)
        places = np.flatnonzero(slow)
        if len(places) < TAIL_COUNT:
            return
        # The tail begins where slow rows become dense: the first from which on to the end they keep their share.
        total = len(seconds)
        share = (len(places) - np.arange(len(places))) / (total - places)
        for n, at in enumerate(places[: 1 - TAIL_COUNT]):
            gap = places[n + TAIL_COUNT - 1] - at
            before = n / max(int(at), 1)
            if at * share[n] < TAIL_BEFORE:
                continue  # slow steps are how this run is: there was no time without them
            if share[n] >= TAIL_SHARE and before * 5 <= share[n] and gap <= 2 * TAIL_COUNT / share[n]:
                peak = float(np.percentile(seconds[at:], 99))
                yield self.point(
                    Kind.TAIL, "step_time", int(rows[at]), peak, float(usual[at]), len(places) - n, lasts=True
                )
                return

    def _rate_tail(self, drops: Sequence[Point]) -> Iterator[Point]:
        """The same by the throughput, where no step time is printed."""
        for name in ("tflops", "throughput"):
            rows, rate = self.rows(name, warm=True, positive=True)
            if len(rows) < FEWEST:
                continue
            seconds = 1 / rate
            usual = self._levels(rows, seconds, shifts(seconds, fewest=SHIFT_ROWS))
            if np.percentile(np.abs(seconds / usual - 1), 75) > EVEN_RATE:
                return  # tokens a second of texts of all lengths: slow rows are how they are
            for point in self._tail(rows, seconds, usual, next(iter(drops), None)):
                yield point._replace(column=name, value=1 / point.value, usual=1 / point.usual)
            return

    def _planned(self, rows: NDArray[np.int64], slow: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which slow rows come at regular steps, as checkpoints and evaluations do."""
        if self.step is None or int(slow.sum()) < 2:
            return np.zeros(len(rows), dtype=bool)
        steps = self.step[rows]
        places = np.flatnonzero(slow & np.isfinite(steps))
        if len(places) < 2:
            return np.zeros(len(rows), dtype=bool)
        interval = _interval(steps)
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

    def _round(self, rows: NDArray[np.int64], slow: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Slow rows at all multiples of one round number of steps: too few of them for chance to be ruled out by their count."""
        regular = np.zeros(len(rows), dtype=bool)
        if self.step is None:
            return regular
        steps = self.step[rows]
        interval = _interval(steps)
        for period in (interval * n for n in ROUND_STEPS):
            there = np.mod(steps, period) == 0
            if not there.any() or not slow[there].all():
                continue
            if int(there.sum()) >= 2 or period >= interval * ROUND_ALONE:
                regular |= there
        return regular

    @staticmethod
    def _is_plan(  # noqa: PLR0917
        steps: Series, fit: NDArray[np.bool_], shift: float, period: float, interval: float, reach: float, tests: int
    ) -> bool:
        """Whether slow rows hit regular steps more often than rows that are slow by chance do."""
        first, last = steps[fit].min(), steps[fit].max()  # a run that started again goes over its steps twice
        hit = len(np.unique(np.round((steps[fit] - shift) / period)))
        between = int(((steps >= first) & (steps <= last)).sum()) - hit + 1
        chance = (1 + 2 * reach / interval) * between * interval / max(last - first, interval)
        return hit >= REGULAR and _by_chance(hit, (last - first) / period + 1, chance) * tests * 20 < 1e-2

    def _pauses(self, rows: NDArray[np.int64], seconds: Series, usual: Series, factor: Series) -> Iterator[Point]:
        spans = np.diff(self.step[rows], prepend=np.nan) if self.step is not None else np.ones(len(rows))
        interval = 1.0 if self.step is None else max(1.0, _interval(self.step[rows]))
        wall = seconds.copy()
        if self.time is not None and self.step is not None:
            took = np.diff(self.time[rows], prepend=np.nan) / np.maximum(spans, 1.0) * factor
            # Times without a date run backwards at midnight, and those of a restart hold the time between.
            good = np.isfinite(took) & (took > 0) & (self.age[rows] > WARM_UP)
            wall = np.where(good, np.maximum(wall, took), wall)
        slow = wall > 2 * usual
        planned = self._planned(rows, slow) | (self._new_epoch(rows) & slow)
        # In seconds of the clock: a batch that grew is taken out of the pace, not out of how long it stood still.
        excess = (wall - usual) * interval / factor
        at_round = self._round(rows, slow) & slow
        if at_round.any() and float(np.median(excess[at_round])) <= ROUND_PAUSE:
            planned |= at_round
        if (planned & slow).any():
            # What took far longer than the pauses that came at such steps was more than one of them.
            planned &= excess <= PAUSE_RATIO * np.median(excess[planned & slow])
        long = (wall > STALL_RATIO * usual) & (excess > STALL_SECONDS) & ~planned
        alike = [int(a) for a in np.flatnonzero(long) if self._recurs(int(a), rows, slow & ~planned, excess, interval)]
        long[alike], planned[alike] = False, True
        places = np.flatnonzero(long)
        if self.step is not None and len(places):
            # Processes that wait for each other stand still once.
            places = places[np.sort(np.unique(self.step[rows[places]], return_index=True)[1])]
        for at in places[:3]:
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
        # Where most rows are late, the clock counts what the step does not: that is no pause.
        if 0 < len(where) < len(rows) / 3:
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

    def _new_epoch(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows are the first of a new pass over the data, before which trainers evaluate, save and start their loaders again."""
        epoch = self.steps.values("epoch")
        if epoch is None:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(np.diff(np.floor(epoch[rows]), prepend=np.nan) > 0)

    def _recurs(
        self, at: int, rows: NDArray[np.int64], slow: NDArray[np.bool_], excess: Series, interval: float
    ) -> bool:
        """Whether a long row is one of several as long, at regular steps or times: one timeout is as long as the next, but comes when it will."""
        alike = np.flatnonzero(slow & (np.abs(excess - excess[at]) < 0.1 * excess[at]))
        if len(alike) < 2:
            return False
        if self.step is not None:
            steps = self.step[rows[alike]]
            for period in (interval * n for n in ROUND_STEPS):
                # The slow row is the step of the checkpoint, or the next one printed.
                phases = {float(p) for p in np.mod(steps, period)}
                if phases in ({0.0}, {interval}):
                    return True
        counted = [self.time] if self.step is None else [self.time, self.step]
        for clock in counted:
            gaps = np.diff(clock[rows[alike]]) if clock is not None else np.empty(0)
            if len(gaps) >= REGULAR - 1 and gaps[0] > 0 and bool((np.abs(gaps - gaps[0]) <= 0.05 * gaps[0]).all()):
                return True
        return False


def _interval(steps: Series) -> float:
    """Steps from one row to the next; those that tell the same step again aside."""
    spans = np.abs(np.diff(steps))
    spans = spans[np.isfinite(spans) & (spans > 0)]
    return float(np.median(spans)) if len(spans) else 1.0


def _rises(changes: Sequence[Shift]) -> Iterator[tuple[int, int]]:
    """First and last of so many changes in a row that each go up: what grows bit by bit looks like stairs."""
    up = np.array([c.after > c.before for c in changes], dtype=bool)
    edges = np.flatnonzero(np.diff(up, prepend=False, append=False))
    yield from (
        (a, b - 1) for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True) if b - a >= GROWTH_STAIRS
    )


def _by_chance(hits: int, tries: float, chance: float) -> float:
    """Upper bound (Chernoff's) of the probability of so many hits or more."""
    share = min(hits / max(tries, 1.0), 1.0)
    if share <= chance or not 0.0 < chance < 1.0:
        return 1.0
    excess = share * np.log(share / chance)
    if share < 1.0:
        excess += (1 - share) * np.log((1 - share) / (1 - chance))
    return float(np.exp(-tries * excess))


def _near(one: Point, other: Point) -> bool:
    """Whether two points begin at one place, by their steps."""
    return one.step is not None and other.step is not None and abs(one.step - other.step) <= 0.02 * max(other.step, 50)
