"""Two runs side by side: what is set differently, and from which step on pace and curves part. Must not read a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.kinds import SHIFT_SHARE, WARM_UP
from firstfault.metrics.robust import first_run, spread_of
from firstfault.metrics.settings import is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.settings import Area, Setting
    from firstfault.metrics.steps import Steps

SAME = 1e-9
"""Relative difference up to which two printed values are one."""
PART_SIGMA, PART_SHARE, PART_ROWS = 4.0, 0.05, 10
"""Curves part where their difference lasts: beyond noise, and by such a share."""
AREAS = ("versions", "environment", "topology", "seeds", "configuration")
"""In the order in which they are told."""


class Part(NamedTuple):
    """Where a column of two runs parts."""

    column: str
    step: float
    first: float
    second: float
    same_until: float | None
    """Last step up to which every value is the same; None where the first already differs."""


class Differing(NamedTuple):
    """A setting that is not the same, or that only one run tells."""

    area: Area
    name: str
    first: Setting | None
    second: Setting | None


def settings_differ(first: Iterable[Setting], second: Iterable[Setting]) -> Iterator[Differing]:
    """Settings that differ, by area and name.

    A setting that only one run tells is told only where the other tells settings of that area too.
    """
    one, other = _first_words(first), _first_words(second)
    areas = {k[0] for k in one} & {k[0] for k in other}
    for key in sorted(one.keys() | other.keys(), key=lambda k: (AREAS.index(k[0]), k[1])):
        a, b = one.get(key), other.get(key)
        if is_own(key[1]) or (a is not None and b is not None and a.value == b.value):
            continue
        if (a is None or b is None) and key[0] not in areas:
            continue
        yield Differing(key[0], key[1], a, b)


def _first_words(settings: Iterable[Setting]) -> dict[tuple[Area, str], Setting]:
    found: dict[tuple[Area, str], Setting] = {}
    for setting in settings:
        found.setdefault((setting.area, setting.name), setting)
    return found


def main_table(tables: Sequence[Steps], column: str) -> Steps | None:
    """The longest table of a run that has a column and steps; None where there is none."""
    fit = [t for t in tables if column in t.columns and "step" in t.columns]
    return max(fit, key=lambda t: t.height, default=None)


def curve_parts(first: Sequence[Steps], second: Sequence[Steps], column: str) -> Part | None:
    """Where a column of two runs parts; None where it does not, or has too few common steps."""
    common = _common(first, second, column)
    if common is None:
        return None
    steps, a, b = common
    # A value that is no number in one run alone is a difference by itself.
    bad = np.isnan(a) != np.isnan(b)
    unequal = bad | (np.abs(a - b) > SAME * np.maximum(np.abs(a), 1e-12))
    if not unequal.any():
        return None
    at = int(np.flatnonzero(unequal)[0])
    same = float(steps[at - 1]) if at >= 3 else None
    if same is not None:
        return Part(column, float(steps[at]), float(a[at]), float(b[at]), same)
    gone = int(np.flatnonzero(bad)[0]) if bad.any() else None
    lasting = _parts_for_good(a, b)
    place = min((p for p in (gone, lasting) if p is not None), default=None)
    if place is None:
        return None
    return Part(column, float(steps[place]), float(a[place]), float(b[place]), None)


def _parts_for_good(a: NDArray[np.float64], b: NDArray[np.float64]) -> int | None:
    difference = b - a
    # What successive rows differ by is noise, whatever the trend.
    noise = spread_of(np.diff(difference)[np.isfinite(np.diff(difference))]) / np.sqrt(2)
    level = np.maximum(np.abs(a), 1e-9)
    for sign in (1.0, -1.0):
        apart = sign * difference > np.maximum(PART_SIGMA / np.sqrt(PART_ROWS) * noise, PART_SHARE * level)
        at = first_run(apart, PART_ROWS, 0.9)
        if at is not None:
            return at
    return None


def pace_differs(first: Sequence[Steps], second: Sequence[Steps], column: str) -> tuple[float, float] | None:
    """The usual values of a column of pace in both runs where they differ by more than healthy runs do; None else."""
    values = []
    for tables in (first, second):
        table = main_table(tables, column)
        seen = None if table is None else table.values(column)
        if seen is None:
            return None
        seen = seen[np.isfinite(seen)][WARM_UP:]
        if len(seen) < 10:
            return None
        values.append(seen)
    a, b = (float(np.median(v)) for v in values)
    noise = max(spread_of(v) / np.sqrt(len(v)) for v in values)
    return (a, b) if abs(b - a) > max(SHIFT_SHARE * min(a, b), 4 * noise) else None


def _common(
    first: Sequence[Steps], second: Sequence[Steps], column: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """Steps that both runs print with a column, and its values in both; of a step printed twice the last one."""
    sides = []
    for tables in (first, second):
        table = main_table(tables, column)
        if table is None:
            return None
        step, values = table.columns["step"], table.columns[column]
        good = step.there & values.there
        sides.append(dict(zip(step.values[good].tolist(), values.values[good].tolist(), strict=True)))
    steps = sorted(sides[0].keys() & sides[1].keys())
    if len(steps) < 3:
        return None
    return np.array(steps), np.array([sides[0][s] for s in steps]), np.array([sides[1][s] for s in steps])
