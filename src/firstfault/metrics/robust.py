"""Robust statistics on one series: local baselines, level shifts, runs. Numpy only; knows no column by name.

The level shift is Pettitt's rank test (A. N. Pettitt, Applied Statistics 28, 1979): it needs no distribution, and outliers move
it little. Libraries that hold it or better ones (ruptures, scipy) would triple what an installation weighs for one formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Series = NDArray[np.float64]

TO_SIGMA = 1.4826
"""Median absolute deviation -> standard deviation of a normal series."""
MOST_BASELINES = 100_000
"""Baselines worked out of a series; in longer ones neighbours share one."""
AT_ONCE = 2
"""Values by which the place of a fall may be wrong."""


class Shift(NamedTuple):
    """A lasting change of level."""

    at: int
    """First index of the new level."""
    before: float
    """Median before it."""
    after: float
    spread: float
    """Robust standard deviation on both sides of it."""


def spread_of(values: Series) -> float:
    """Robust standard deviation; 0.0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    return float(TO_SIGMA * np.median(np.abs(values - np.median(values))))


def local_baseline(values: Series, window: int) -> tuple[Series, Series]:
    """Median and robust deviation of the values before each one.

    Args:
        values: finite.
        window: how many values before count; the first of a series are measured by the first window itself.

    Returns:
        Two series of the same length.
    """
    count = len(values)
    if count <= window:
        middle = np.full(count, np.median(values) if count else np.nan)
        return middle, np.full(count, spread_of(values))
    stride = max(1, count // MOST_BASELINES)
    view = np.lib.stride_tricks.sliding_window_view(values, window)[: count - window : stride]
    middle = np.median(view, axis=1)
    deviation = TO_SIGMA * np.median(np.abs(view - middle[:, None]), axis=1)
    middle = np.repeat(middle, stride)[: count - window]
    deviation = np.repeat(deviation, stride)[: count - window]
    lead = np.full(window, middle[0])
    return np.concatenate([lead, middle]), np.concatenate([np.full(window, deviation[0]), deviation])


def level_at(places: Series, values: Series, wanted: Series, window: int) -> tuple[Series, Series] | None:
    """Median and robust deviation of the values around some places of an axis; None where there are too few of them.

    Args:
        places: of the values on the axis, in any order; NaN where one has none.
        values: finite.
        wanted: places on the same axis.
        window: how many values count.
    """
    known = np.flatnonzero(np.isfinite(places))
    if len(known) < window or not len(wanted):
        return None
    order = known[np.argsort(places[known], kind="stable")]
    view = np.lib.stride_tricks.sliding_window_view(values[order], window)
    at = np.clip(np.searchsorted(places[order], wanted) - window // 2, 0, len(view) - 1)
    middle = np.median(view[at], axis=1)
    return middle, TO_SIGMA * np.median(np.abs(view[at] - middle[:, None]), axis=1)


def shifts(values: Series, *, fewest: int, significance: float = 1e-6, depth: int = 4) -> list[Shift]:
    """Lasting changes of level, in order: Pettitt's test, again on both sides of each change found.

    Args:
        values: finite.
        fewest: values that a level must last.
        significance: of the test; the size of a change is for the caller to judge.
        depth: how often parts are parted again.
    """
    found: list[int] = []
    _part(values, 0, len(values), fewest, significance, depth, found)
    edges = [0, *sorted(found), len(values)]
    result = []
    for n in range(1, len(edges) - 1):
        left, right = values[edges[n - 1] : edges[n]], values[edges[n] : edges[n + 1]]
        result.append(
            Shift(edges[n], float(np.median(left)), float(np.median(right)), max(spread_of(left), spread_of(right)))
        )
    return result


def _part(  # noqa: PLR0917
    values: Series, start: int, stop: int, fewest: int, significance: float, depth: int, found: list[int]
) -> None:
    part = values[start:stop]
    count = len(part)
    if depth == 0 or count < 2 * fewest:
        return
    ranks = _ranks(part)
    sums = np.cumsum(ranks - (count + 1) / 2)
    # 2 * |sum of centred ranks| is Pettitt's K; ends are too short to be a level of their own.
    inner = np.abs(sums[fewest - 1 : count - fewest])
    if not len(inner):
        return
    k = 2.0 * float(inner.max())
    p = 2.0 * float(np.exp(-6.0 * k * k / (float(count) ** 3 + float(count) ** 2)))
    if p > significance:
        return
    at = _refined(part, int(inner.argmax()) + fewest, fewest)
    found.append(start + at)
    _part(values, start, start + at, fewest, significance, depth - 1, found)
    _part(values, start + at, stop, fewest, significance, depth - 1, found)


def _ranks(values: Series) -> Series:
    """Ranks from 1, ties by their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def _refined(values: Series, at: int, fewest: int, reach: int = 60) -> int:
    """The split near one that parts two levels best, by absolute deviations from their medians."""
    low, high = max(0, at - 2 * reach), min(len(values), at + 2 * reach)
    near = values[low:high]
    left = float(np.median(values[max(0, at - 4 * reach) : at]))
    right = float(np.median(values[at : at + 4 * reach]))
    cost = np.cumsum(np.abs(near - left) - np.abs(near - right))
    first, last = max(fewest - low, at - reach - low, 1), min(len(values) - fewest - low, at + reach - low)
    if first >= last:
        return at
    return low + first + int(np.argmin(cost[first - 1 : last - 1]))


def first_run(flags: NDArray[np.bool_], length: int, share: float = 1.0) -> int | None:
    """First index from which on at least `share` of `length` flags in a row are set, that one included; None where there is none."""
    if len(flags) < length:
        return None
    sums = np.convolve(flags.astype(np.int64), np.ones(length, np.int64), mode="valid")
    good = np.flatnonzero((sums >= share * length - 1e-9) & flags[: len(sums)])
    return int(good[0]) if len(good) else None


def step_up(values: Series, size: int, sigma: float, share: float) -> int | None:
    """First index at which a series goes up and stays there for some values; None where it does not.

    Only the values right before and behind a place count, so that a series that falls all the time has a level there.

    Args:
        values: finite.
        size: how many on each side count.
        sigma: robust deviations, of the side that has the larger one, by which the medians are to differ.
        share: of the median before, by which they are to differ too.
    """
    if len(values) < 2 * size:
        return None
    view = np.lib.stride_tricks.sliding_window_view(values, size)
    middle = np.median(view, axis=1)
    deviation = TO_SIGMA * np.median(np.abs(view - middle[:, None]), axis=1)
    before, after = middle[:-size], middle[size:]
    least = np.maximum(sigma * np.maximum(deviation[:-size], deviation[size:]), share * np.abs(before))
    up = (after - before > least) & (np.mean(view[size:] > ((before + after) / 2)[:, None], axis=1) >= 0.9)
    if not up.any():
        return None
    first = int(np.argmax(up))
    near = slice(first, first + size)
    best = first + int(np.argmax(np.where(up[near], after[near] - before[near], -np.inf)))
    half, at = (before[best] + after[best]) / 2, best + size
    while values[at - 1] > half and at > best:
        at -= 1  # what takes some rows to come to its level has begun before
    return at + int(np.argmax(values[at:] > half))


def falls_at_once(values: Series, at: int, times: Mapping[int, float]) -> bool:
    """Whether a series falls at a place by more than its level wanders anywhere else.

    Over few values a fall stands out from a level that drifts, over many from values that scatter by themselves: one is enough.

    Args:
        values: finite.
        at: first index of the lower level.
        times: values on each side whose medians are compared -> how many times three of four such changes elsewhere the fall is to be.
    """
    return any(_falls(values, at, size, least) for size, least in times.items())


def _falls(values: Series, at: int, size: int, least: float) -> bool:
    if len(values) < 2 * size:
        return False
    middle = np.median(np.lib.stride_tricks.sliding_window_view(values, size), axis=1)
    falls = middle[:-size] - middle[size:]
    place = at - size  # of the change that begins at `at`
    elsewhere = np.abs(falls[np.abs(np.arange(len(falls)) - place) > size])
    near = falls[max(0, place - AT_ONCE) : max(0, place + AT_ONCE + 1)]
    if not len(elsewhere) or not len(near):
        return False
    return float(near.max()) >= least * float(np.percentile(elsewhere, 75))


def climb(values: Series, reach: int) -> int:
    """Where a climb begins that goes on to the end: the corner of a level and a line that fit best.

    First over all values, coarsely; then among those near it alone, since what the first ones did is of no concern.

    Args:
        values: finite.
        reach: values on both sides of the first guess that count as near, at least.
    """
    count = len(values)
    thin = slice(None, None, max(1, count // 2000))
    rough = _corner(values, range(0, count - count // 4, max(1, count // 400)), thin)
    reach = max(reach, count // 8)
    low, high = max(0, rough - reach), min(count, rough + reach)
    near = values[low:high]
    return low + _corner(near, range(0, max(1, len(near) - len(near) // 8), max(1, len(near) // 400)), slice(None))


def _corner(values: Series, corners: range, thin: slice) -> int:
    """The one of some corners that leaves the least to a level before it and a line from it on."""
    x = np.arange(len(values), dtype=np.float64)[thin]
    top = values[thin]
    above = top - top.mean()
    best, cost = 0, np.inf
    for corner in corners:
        ramp = np.maximum(x - corner, 0.0)
        centred = ramp - ramp.mean()
        below = float(centred @ centred)
        slope = float(centred @ above) / below if below else 0.0
        left = float(np.abs(above - slope * centred).sum())
        if left < cost:
            best, cost = corner, left
    return best
