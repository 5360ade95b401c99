"""What a page that people look at holds beside the diagnosis: every rank, lanes over time, lines around the evidence.

Bounded, and in columns where there is one row a rank, so that 16,384 ranks stay small. It is no published document: programs
read the diagnosis and the views. Absent is None or missing, never 0.
"""

from __future__ import annotations

from msgspec import Struct, field

from firstfault.model.diagnosis import Diagnosis, Evidence, Published, Time
from firstfault.model.plots import Plots
from firstfault.model.views import MemoryTable, RecorderView, StackTable

PAGE = "firstfault.page/1"
QUOTE = "firstfault.quote/1"


class GroupColumns(Struct, frozen=True, kw_only=True):
    """One process group in which somebody is stuck; one entry a rank of which anything is known there."""

    name: str
    in_verdict: bool = False
    """Whether lines of it are among those on which the verdict rests."""
    rows: list[int] = []
    """Which row of the ranks each entry is about."""
    enqueued: list[int | None] = []
    """Number of the collective that was enqueued last."""
    completed: list[int | None] = []
    """Number of the collective that was completed last."""
    op: list[int | None] = []
    """Index into `ops`: the collective that did not end in time."""
    seq: list[int | None] = []
    """Its sequence number."""
    numel_in: list[int | None] = []
    """Elements that go into it."""
    numel_out: list[int | None] = []
    """Elements that come out of it."""
    timeout_ms: list[int | None] = []
    ran_ms: list[int | None] = []
    in_flight: list[bool] = []
    """Whether anything of this rank was in flight in the group."""
    ops: list[str] = []


class RankColumns(Struct, frozen=True, kw_only=True):
    """All ranks at the end of the attempt, outliers first; every column has one entry a row."""

    rank: list[int] = []
    """Global rank."""
    host: list[int | None] = []
    """Index into `hosts`."""
    local_rank: list[int | None] = []
    node_rank: list[int | None] = []
    state: list[int] = []
    """Index into `states`."""
    part: list[int | None] = []
    """Index into `parts`."""
    outlier: list[bool] = []
    """Whether it failed, said nothing while most spoke, or stands elsewhere than most."""
    last_step: list[int | None] = []
    phase: list[int | None] = []
    """Index into `phases`."""
    note: list[int | None] = []
    """Index into `notes`."""
    file: list[int | None] = []
    """Index into `files`: where the most telling line of the rank stands."""
    line: list[int | None] = []
    """Its number."""
    hosts: list[str] = []
    states: list[str] = []
    parts: list[str] = []
    phases: list[str] = []
    notes: list[str] = []
    files: list[str] = []
    groups: list[GroupColumns] = []
    left_out: int = 0
    """Ranks that are not here because there are too many; outliers never are, as far as the bound goes."""


class Lanes(Struct, frozen=True, kw_only=True):
    """When each rank spoke, waited and failed, on the clock that most ranks share; one entry a row of the ranks.

    Seconds from the origin; None where no line of that clock tells.
    """

    origin: Time
    """The first moment."""
    seconds: float
    """From the first moment to the last."""
    first_fault: float | None = None
    """The line that is the first sign of the fault, where it bears a stamp."""
    fault_after: float | None = None
    """Where it bears none: the last moment before it that is told."""
    fault_before: float | None = None
    """The first moment after it that is told."""
    begins: list[float | None] = []
    """First line."""
    active_to: list[float | None] = []
    """Last line before anybody ran out of time."""
    wait_from: list[float | None] = []
    """Begin of the collective in which it waited: its time-out less the time that it ran."""
    wait_to: list[float | None] = []
    """The line that says that it waited too long."""
    died: list[float | None] = []
    """An error or an exit of its own, whose line bears a stamp."""
    died_after: list[float | None] = []
    """Where that line bears none: the last moment before it that is told."""
    died_before: list[float | None] = []
    """The first moment after it that is told."""
    reported: list[float | None] = []
    """When a launcher or scheduler first told of its end, or told it to stop; None where its own error or exit is told."""
    ends: list[float | None] = []
    """Last line of its own."""


class Context(Struct, frozen=True, kw_only=True):
    """Lines of one file that stand together, around cited ones."""

    file: str
    first: int
    """Number of the first of them."""
    lines: list[str] = []


class CoursePoint(Struct, frozen=True, kw_only=True):
    """One telling sample of a GPU's counters."""

    what: str
    """`first`, `slowed`, `errors`, `idle`, `busy`, `lost` or `last`."""
    evidence: Evidence
    utilization: float | None = None
    """Per cent of the time in which a kernel ran."""
    memory: float | None = None
    """In use, in MiB."""
    temperature: float | None = None
    """Degrees Celsius."""
    uncorrected: int | None = None
    """Uncorrected memory errors so far."""


class Course(Struct, frozen=True, kw_only=True):
    """What the counters of one GPU did."""

    gpu: int | None = None
    """Index on its machine, as the driver's tools count."""
    bus: str | None = None
    host: str | None = None
    samples: int
    points: list[CoursePoint] = []
    """In the order of time."""
    told: bool = False
    """Whether anything but its first and last sample is telling."""


class Page(Published, frozen=True, kw_only=True):
    """A diagnosis with what its pictures are drawn from; what the evidence does not hold is empty."""

    schema: str = PAGE
    diagnosis: Diagnosis
    ranks: RankColumns = field(default_factory=RankColumns)
    lanes: Lanes | None = None
    context: list[Context] = field(default_factory=list)
    """By file and line; no line twice."""
    courses: list[Course] = field(default_factory=list)
    """Telling ones first."""
    stacks: StackTable | None = None
    memory: MemoryTable | None = None
    recorder: RecorderView | None = None
    plots: Plots | None = None


class Quote(Published, frozen=True, kw_only=True):
    """Lines of one file as they stand there."""

    schema: str = QUOTE
    context: list[Context] = field(default_factory=list)
