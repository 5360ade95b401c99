"""Step tables and GPU counters as plots of bounded size: few lines, a spread over many ranks, and the values that stand out kept.

Must not judge a value: which points are abnormal is handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from firstfault.metrics.columns import UNITS
from firstfault.metrics.curves import thin
from firstfault.metrics.devices import DEVICE_UNITS
from firstfault.metrics.steps import by_rank
from firstfault.model.plots import Plot, PlotLine, PlotSpread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.devices import DeviceSeries
    from firstfault.metrics.steps import Steps

    Series = NDArray[np.float64]

ALWAYS = ("loss", "grad_norm", "step_time", "throughput", "tflops", "memory", "val_loss")
"""Columns that are drawn wherever they are there, in this order; others where something in them is abnormal."""
MOST_PLOTS = 12
LINES = 8
"""Courses up to which each has its line; of more a spread is drawn, and lines of those that are asked for."""
NAMED = 4
MOVES = 0.1
"""Counters of GPUs other than their use are drawn where they move by such a share."""
STARTS = 4
"""Starts of one course that are drawn: the last ones."""
POINTS, STRETCHES = 320, 240
"""Values of one line, fewer where there are several, and stretches of a spread."""


class Course(NamedTuple):
    """One column of one rank or GPU in one start of the run."""

    file: str
    rank: int | None
    device: str
    host: str | None
    attempt: int
    x: Series
    y: Series


def plots_of(
    tables: Sequence[Steps],
    devices: Sequence[DeviceSeries],
    *,
    abnormal: Collection[str] = (),
    ranks: Collection[int] = (),
) -> list[Plot]:
    """The plots of all columns that are worth one, without marks.

    Args:
        tables: the steps of each source.
        devices: the counters of each GPU.
        abnormal: columns in which something is.
        ranks: whose lines are drawn where there are too many for all.
    """
    held = {name for table in tables for name in table.columns}
    names = [n for n in ALWAYS if n in held]
    if "throughput" in names and "tflops" in names:
        names.remove("throughput" if "tflops" in abnormal or "throughput" not in abnormal else "tflops")
    names += [n for n in UNITS if n in abnormal and n in held and n not in names]
    stepped = any("step" in table.columns for table in tables)
    found = [_plot(n, _unit(n), "step" if stepped else "row", list(_courses(tables, n, stepped)), ranks) for n in names]
    timed = any(np.isfinite(d.time).any() for d in devices)
    for name, unit in DEVICE_UNITS.items():
        courses = list(_counters(devices, name, timed))
        plot = _plot(f"gpu_{name}", unit, "time" if timed else "row", courses, ranks)
        if name == "utilization" or _moves(plot):
            found.append(plot)
    return [p for p in found if p.courses and (p.column in abnormal or _extends(p))][:MOST_PLOTS]


def _extends(plot: Plot) -> bool:
    """Whether it has a course: a lone value is told by its line, and a picture of it says no more."""
    return plot.first != plot.last


def _unit(name: str) -> str:
    """The unit of a column without what else is said of it; empty where it has none, or whatever was printed."""
    first = UNITS[name].split(" ")[0].rstrip(",")
    return first if first in {"s", "GiB", "TFLOP/s"} else ""


def _moves(plot: Plot) -> bool:
    return plot.low is not None and plot.high is not None and plot.high - plot.low > MOVES * abs(plot.high)


def _courses(tables: Sequence[Steps], name: str, stepped: bool) -> Iterator[Course]:
    for table in tables:
        if name not in table.columns or (stepped and "step" not in table.columns):
            continue
        for rank, steps in by_rank(table):
            column = steps.columns.get(name)
            if column is None:
                continue
            step = steps.columns.get("step")
            x = (
                np.arange(1.0, steps.height + 1)
                if step is None or not stepped
                else np.where(step.there, step.values, np.nan)
            )
            good = column.there & np.isfinite(x)
            for attempt in np.unique(steps.attempt[good])[-STARTS:].tolist():
                rows = np.flatnonzero(good & (steps.attempt == attempt))
                yield Course(table.source, rank, "", None, attempt, x[rows], column.values[rows])


def _counters(devices: Sequence[DeviceSeries], name: str, timed: bool) -> Iterator[Course]:
    for device in devices:
        values = device.columns.get(name)
        if values is None:
            continue
        x = device.time if timed else np.arange(1.0, len(values) + 1)
        rows = np.flatnonzero(np.isfinite(values) & np.isfinite(x))
        if len(rows):
            rows = rows[np.argsort(x[rows], kind="stable")]
            yield Course(device.source, None, device.gpu, device.host, 1, x[rows], values[rows])


def _who(course: Course) -> tuple[str, int | None, str, str | None]:
    return (course.file, course.rank, course.device, course.host)


def _plot(
    name: str, unit: str, axis: Literal["step", "row", "time"], courses: Sequence[Course], ranks: Collection[int]
) -> Plot:
    own = list(dict.fromkeys(map(_who, courses)))
    drawn, spread = courses, None
    if len(own) > LINES:
        wanted = set([w for w in own if w[1] is not None and w[1] in ranks][:NAMED])
        drawn = [c for c in courses if _who(c) in wanted]
        spread = _spread(courses, len(own))
    most = max(80, POINTS // max(1, len(drawn) // 2))
    known = [c.y[np.isfinite(c.y)] for c in courses]
    known = [y for y in known if len(y)]
    return Plot(
        column=name,
        unit=unit,
        axis=axis,
        courses=len(own),
        first=min((float(c.x[0]) for c in courses), default=None),
        last=max((float(c.x[-1]) for c in courses), default=None),
        low=min((_short(y.min()) for y in known), default=None),
        high=max((_short(y.max()) for y in known), default=None),
        lines=[_line(c, most) for c in drawn],
        spread=spread,
    )


def _line(course: Course, most: int) -> PlotLine:
    at = thin(course.y, most)
    return PlotLine(
        file=course.file,
        rank=course.rank,
        device=course.device,
        host=course.host,
        attempt=course.attempt,
        x=[float(v) for v in course.x[at]],
        y=[_short(v) if np.isfinite(v) else None for v in course.y[at]],
    )


def _spread(courses: Iterable[Course], count: int) -> PlotSpread | None:
    """Over the last start of each course; values that are no number are left out."""
    last: dict[tuple[str, int | None, str, str | None], Course] = {}
    for course in courses:
        last[_who(course)] = course
    x, y = np.concatenate([c.x for c in last.values()]), np.concatenate([c.y for c in last.values()])
    good = np.isfinite(y)
    x, y = x[good], y[good]
    if not len(x):
        return None
    places, at = np.unique(x, return_inverse=True)
    if len(places) > STRETCHES:
        at = at * STRETCHES // len(places)
    order = np.lexsort((y, at))
    x, y, at = x[order], y[order], at[order]
    begin = np.flatnonzero(np.diff(at, prepend=-1))
    end = np.append(begin[1:], len(at))
    return PlotSpread(
        count=count,
        x=[float(v) for v in np.minimum.reduceat(x, begin)],
        low=[_short(v) for v in y[begin]],
        middle=[_short(v) for v in y[(begin + end) // 2]],
        high=[_short(v) for v in y[end - 1]],
    )


def _short(value: float) -> float:
    """Five digits: more is not seen, and the page holds many."""
    return float(f"{value:.5g}")
