"""What the plots of training metrics on a page are drawn from: bounded courses, spreads over ranks, marks with their lines.

It is no published document. Absent is None or missing, never 0.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from firstfault.model.diagnosis import Evidence
from firstfault.model.metrics import MetricFinding, PointKind


class PlotLine(Struct, frozen=True, kw_only=True):
    """One course of one rank or GPU in one start of the run, thinned: the lowest and the highest of each stretch."""

    file: str
    rank: int | None = None
    device: str = ""
    """Of a GPU: its index or bus, as the table of its counters says."""
    host: str | None = None
    attempt: int = 1
    x: list[float] = []
    y: list[float | None] = []
    """None where the value is no number."""


class PlotSpread(Struct, frozen=True, kw_only=True):
    """Lowest, median and highest over many ranks or GPUs, by stretches of steps."""

    count: int
    """Ranks or GPUs."""
    x: list[float] = []
    low: list[float] = []
    middle: list[float] = []
    high: list[float] = []


class PlotMark(Struct, frozen=True, kw_only=True):
    """Where a column begins to be abnormal."""

    kind: PointKind
    x: float | None
    """None where the point has no place on the axis of its plot."""
    rank: int | None = None
    planned: bool = False
    """A checkpoint or an evaluation, which is no sign of trouble."""
    text: str
    evidence: Evidence


class Plot(Struct, frozen=True, kw_only=True):
    """One column against steps, rows or time."""

    column: str
    unit: str = ""
    axis: Literal["step", "row", "time"] = "step"
    """What stands on the axis; times are seconds since the epoch of the clock's own wall time."""
    courses: int = 0
    """Ranks or GPUs of which anything is known, drawn or not."""
    first: float | None = None
    last: float | None = None
    low: float | None = None
    high: float | None = None
    lines: list[PlotLine] = []
    spread: PlotSpread | None = None
    """Where there are more courses than lines are drawn."""
    marks: list[PlotMark] = []


class Plots(Struct, frozen=True, kw_only=True):
    """All plots of an input, and what the courses mean together."""

    plots: list[Plot] = []
    findings: list[MetricFinding] = []
    left_out: int = 0
    """Sources that may hold metrics and were not read for the page: too many, or too large."""
