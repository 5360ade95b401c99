"""What training metrics tell: tables that were read, abnormal points, what they mean together, two runs side by side; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import CoverageRow, Evidence, Published
from firstfault.model.words import Strength

METRICS = "firstfault.metrics/1"
COMPARE = "firstfault.compare/1"

PointKind = Literal[
    "nan",
    "loss_spike",
    "loss_rise",
    "grad_spike",
    "loss_scale_floor",
    "skipped_steps",
    "step_time_shift",
    "step_time_tail",
    "throughput_drop",
    "stall",
    "slow_rank",
    "ranks_differ",
    "memory_leak",
    "memory_jump",
    "data_share",
    "checkpoint_pause",
    "evaluation_pause",
]
"""What is abnormal; the two pauses are planned and no sign of trouble."""


class MetricTable(Struct, frozen=True, kw_only=True):
    """The steps of one source."""

    file: str
    rows: int
    ranks: list[int] = []
    """Global ranks that the lines or the file's name tell."""
    unnamed: int = 0
    """Processes, about, that tell each step in this source without their ranks; 0 where one alone writes or the ranks are told."""
    attempts: int = 1
    """Starts of the run in this source: the step went back."""
    first_step: float | None = None
    last_step: float | None = None
    columns: list[str] = []
    """Columns that hold anything."""


class MetricPoint(Struct, frozen=True, kw_only=True):
    """Where a column begins to be abnormal."""

    kind: PointKind
    column: str
    rank: int | None = None
    attempt: int = 1
    step: float | None = None
    """First abnormal step; None where the source names none."""
    value: float | None = None
    """The peak, or the new level, in the unit of the column; None where it is no number."""
    usual: float | None = None
    """The level before; None where there is none."""
    count: int = 0
    """Rows that are abnormal."""
    lasts: bool = False
    """Whether it goes on to the end."""
    before: list[str] = []
    """What came in the steps before."""
    summary: str = ""
    evidence: Evidence
    """The first abnormal row."""


class MetricFinding(Struct, frozen=True, kw_only=True):
    """What several points mean together."""

    claim: str
    strength: Strength
    step: float | None = None
    supports: list[str] = []
    against: list[str] = []
    """What speaks against it, or was not measured."""
    next: list[str] = []
    """What to measure or do next."""


class Curve(Struct, frozen=True, kw_only=True):
    """One column of one rank, thinned for drawing: of many rows the lowest and highest of each stretch."""

    file: str
    column: str
    rank: int | None = None
    x: list[float] = []
    """Steps, or numbers of rows where the source names no step."""
    y: list[float | None] = []
    """None where the value is no number."""


class MetricsView(Published, frozen=True, kw_only=True):
    """The training metrics of an input."""

    schema: str = METRICS
    tables: list[MetricTable] = field(default_factory=list)
    points: list[MetricPoint] = field(default_factory=list)
    findings: list[MetricFinding] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    coverage: list[CoverageRow] = field(default_factory=list)

    @property
    def is_abnormal(self) -> bool:
        """Whether any point is a sign of trouble, and no planned pause."""
        return any(p.kind not in {"checkpoint_pause", "evaluation_pause"} for p in self.points)


class RunDifference(Struct, frozen=True, kw_only=True):
    """One thing that is not the same in two runs."""

    area: Literal["configuration", "versions", "environment", "seeds", "topology", "pace", "curves"]
    what: str
    first: str
    """In the first run; empty where it has none."""
    second: str
    step: float | None = None
    """First step at which they part, for pace and curves."""
    evidence: list[Evidence] = []


class RunComparison(Published, frozen=True, kw_only=True):
    """Two runs side by side."""

    schema: str = COMPARE
    same: bool
    """Whether nothing differs beyond noise."""
    summary: str
    """What differs first."""
    differences: list[RunDifference] = field(default_factory=list)
    """What was set before the first step first, then by step."""
    missing: list[str] = field(default_factory=list)
    """What could not be compared, and why."""
