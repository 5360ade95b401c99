"""The views of the same evidence, as published beside the diagnosis: ranks, events, stacks, groups of processes, memory.

Field names follow the diagnosis; absent is None or missing, never 0.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import CoverageRow, Evidence, Published, Time, Verdict, Verification
from firstfault.model.words import Phase, Role

RANKS = "firstfault.ranks/1"
TIMELINE = "firstfault.timeline/1"
STACKS = "firstfault.stacks/1"
MEMORY = "firstfault.memory/1"
FLIGHT_RECORDER = "firstfault.flight_recorder/1"

PartWord = Literal["initiator", "notified", "died", "terminated", "silent"]
"""What a rank did in a hang; without one only whether it died or was ended."""
StateWord = Literal["failed", "late", "timed_out", "lost_peer", "stopped", "seen", "silent"]
"""How a rank ended."""


class GroupCell(Struct, frozen=True, kw_only=True):
    """One rank in one process group in which somebody is stuck."""

    group: str
    """The group's name, with its description where a line gives one."""
    last_enqueued: int | None = None
    last_completed: int | None = None
    op: str | None = None
    """Op of the collective that did not end in time."""
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    ran_ms: int | None = None
    in_flight: bool = False
    """Whether anything of this rank was in flight in the group."""


class Proof(Struct, frozen=True, kw_only=True):
    """A line, and the cells of a row that it states."""

    states: list[str]
    """Names of fields of the row; `groups.0.seq` is a field of its first group."""
    evidence: Evidence


class RankLine(Struct, frozen=True, kw_only=True):
    """What is true of one rank at the end of the attempt."""

    rank: int
    """Global rank."""
    local_rank: int | None = None
    node_rank: int | None = None
    host: str | None = None
    state: StateWord = "seen"
    part: PartWord | None = None
    """None where there was no hang and nothing says how the rank ended."""
    outlier: bool = False
    """Whether it failed, said nothing while most spoke, or stands elsewhere than most."""
    groups: list[GroupCell] = []
    last_step: int | None = None
    phase: Phase | None = None
    """What a line of its own last showed it doing."""
    note: str = ""
    proof: list[Proof] = []
    """The lines behind the row, most telling first; what is not stated by one of them was joined from other lines."""


class View(Published, frozen=True, kw_only=True):
    """What every view holds beside its rows."""

    verdict: Verdict
    """The verdict of the diagnosis of the same input."""
    attempt: int | None = None
    """Number of the attempt that is shown; None for all."""
    attempts: int = 1
    """How many there are."""
    left_out: int = 0
    """Rows that the filters left out."""
    coverage: list[CoverageRow] = field(default_factory=list)
    verification: Verification = Verification()


class RankTable(View, frozen=True, kw_only=True):
    """All ranks at the end of one attempt, outliers first."""

    schema: str = RANKS
    expected: int | None = None
    """Number of ranks of the job; None where no line tells it."""
    seen: int = 0
    seen_ranks: str = ""
    """The ranks of which anything was read, as runs: `0-6, 8`."""
    at_least: int | None = None
    """How many ranks there are at least; the job may be larger."""
    silent: list[int] = field(default_factory=list)
    """Expected ranks of which no line is there."""
    ranks: list[RankLine] = field(default_factory=list)


class Clock(Struct, frozen=True, kw_only=True):
    """Stamps that can be compared with one another, and with no others."""

    number: int
    zone: str | None = None
    """`UTC` where all lines state a zone; None for local time whose zone no line states."""
    dated: bool = True
    """False where only times of day are known."""
    yeared: bool = True
    """False where the year is not known."""
    files: list[str] = []
    """Sources with events on it."""
    events: int = 0


class Entry(Struct, frozen=True, kw_only=True):
    """One event, or a flood of equal ones."""

    clock: int | None = None
    """Number of its clock; None where it has no time: then only its place in its own file orders it."""
    time: Time | None = None
    """The interval in which it happened; of a flood, from its first event to its last."""
    exact: bool = False
    """Whether the time is that of the line's own stamp."""
    role: Role = Role.CONTEXT
    what: str
    """Title of its signature, or what was derived."""
    signature: str
    """Id of the signature; `progress`, `launcher.failure` and `collective.began` are made by firstfault."""
    attempt: int = 1
    ranks: list[int] = []
    """Global ranks, where lines state or join them."""
    hosts: list[str] = []
    files: list[str] = []
    """Sources; of a flood, all of them."""
    count: int = 1
    evidence: Evidence
    """The first line."""
    last: Evidence | None = None
    """The last line of a flood."""


class Timeline(View, frozen=True, kw_only=True):
    """Events of all sources, clock by clock; nothing is ordered across clocks."""

    schema: str = TIMELINE
    clocks: list[Clock] = field(default_factory=list)
    """Most events first; entries follow in this order, then those without a time."""
    events: list[Entry] = field(default_factory=list)
    noise: int = 0
    """Events that look like errors and are none, left out where their role was not asked for."""


class StackPlace(Struct, frozen=True, kw_only=True):
    """Processes whose main threads stood at one place."""

    doing: str
    """`collective`, `rendezvous`, `device`, `data`, `checkpoint`, `lock`, `debugger` or `code`."""
    call: str
    """The frame that tells: `all_reduce (distributed_c10d.py:3252)`; `step (train.py:118, 301)` where those at work were caught at several lines."""
    called_from: str | None = None
    """The frame of the program that made the call; None where none is told from libraries."""
    ranks: list[int] = []
    """Global ranks."""
    others: list[str] = []
    """Processes of which no rank is known."""
    hosts: list[str] = []
    odd: bool = False
    """Whether few stand here and the most stand elsewhere."""
    also: list[str] = []
    """Collectives in which further threads of these processes stand."""
    evidence: list[Evidence] = []


class StackNode(Struct, frozen=True, kw_only=True):
    """One frame of the merged tree of main threads."""

    depth: int
    """0 for the outermost frame."""
    frame: str
    """`function (file:line)`; `function (file:line, line)` where the processes stand at several, `…` for more than four."""
    ranks: list[int] = []
    others: list[str] = []


class StackThreads(Struct, frozen=True, kw_only=True):
    """Threads other than main ones that stand alike, over all processes."""

    name: str
    """With `#` for numbers; empty where the tool prints none."""
    doing: str
    """As for a place."""
    call: str
    """The frame that tells."""
    threads: int
    """How many."""
    ranks: list[int] = []
    others: list[str] = []


class StackTable(View, frozen=True, kw_only=True):
    """Where every process stood at its last dump, the odd ones first, and one tree of all main threads."""

    schema: str = STACKS
    dumps: int = 0
    """Dumps that were read, those of loaders' workers and earlier ones of a process included."""
    processes: int = 0
    expected: int | None = None
    """Number of ranks of the job; None where no line tells it."""
    places: list[StackPlace] = field(default_factory=list)
    tree: list[StackNode] = field(default_factory=list)
    threads: list[StackThreads] = field(default_factory=list)
    """Threads beside the main ones, equal ones as one; fewest first."""
    refused: list[int] = field(default_factory=list)
    """Ranks that gave no stack when they were asked for one."""


class MemoryPlace(Struct, frozen=True, kw_only=True):
    """What one place of the program had asked for and still held."""

    place: str
    """`forward (model.py:41)`, or what it is where no frame of the program is there."""
    part: str = ""
    """`gradients`, `backward` or `optimizer`, where the stack tells it."""
    through: str = ""
    """Innermost function of a library on the way."""
    line: str = ""
    """File and line, where there are any."""
    bytes: int
    """As asked for, without rounding."""
    blocks: int
    kept: int = 0
    """Of the bytes, those asked for within the recorded history."""
    steady: bool = False
    """Whether the history shows that it asked all along and gave nothing back."""


class MemorySize(Struct, frozen=True, kw_only=True):
    """Blocks of one size, held at the dump."""

    bytes: int
    blocks: int


class MemoryRow(Struct, frozen=True, kw_only=True):
    """One device of one snapshot; all sizes in bytes."""

    file: str
    rank: int | None = None
    """Global rank, by the name of the file alone."""
    host: str | None = None
    device: int
    """Ordinal as the process sees it."""
    use: str | None = None
    """`growing`, `fragmented`, `pools`, `large` or `own`; None where no request failed."""
    failed: int | None = None
    """Size of the last request that failed."""
    failed_at: str = ""
    free: int | None = None
    """Free on the device at that time."""
    ooms: int = 0
    at_oom: bool = False
    """Whether sums by place are those at that time; else those of the dump."""
    held: int
    reserved: int
    inactive: int = 0
    """Free in pieces of segments, at the dump."""
    largest_inactive: int = 0
    pool_reserved: int = 0
    """Held by private pools."""
    pool_inactive: int = 0
    nameless: int = 0
    """Of what is held, by no known stack."""
    entries: int = 0
    """Of the recorded history."""
    sentences: list[str] = []
    steps: list[str] = []
    places: list[MemoryPlace] = []
    """Largest first."""
    sizes: list[MemorySize] = []
    """Those of the most bytes first."""


class MemoryTable(View, frozen=True, kw_only=True):
    """What held the memory in every snapshot of the input: those of failed requests first."""

    schema: str = MEMORY
    snapshots: int = 0
    rows: list[MemoryRow] = field(default_factory=list)


class StuckWork(Struct, frozen=True, kw_only=True):
    """The first work of a group that does not end."""

    number: int
    """Sequence number in the group."""
    op: str
    waiting: list[int] = []
    """Ranks in it."""
    awaited: list[int] = []
    """Ranks that they wait for; empty where all members are in it."""
    why: str | None = None
    """`absent`, `frozen`, `unpaired`, `busy` or `unseen`; None where all members are in it."""


class GroupRow(Struct, frozen=True, kw_only=True):
    """One process group."""

    name: str
    description: str
    members: list[int]
    """Global ranks, as all that follow."""
    told: bool
    """Whether a dump tells the members; else they are those that were seen."""
    without_dump: list[int]
    """Members of which no dump is here."""
    issued_least: int | None
    """Lowest number that a member issued last."""
    issued_most: int | None
    """Highest number that a member issued last."""
    behind: list[int]
    """Members that issued less than the others."""
    stuck: StuckWork | None = None
    """The first work that does not end; None where nothing is known to be unfinished."""
    states: bool = True
    """Whether the backend records how far a work has come; gloo does not."""


class Side(Struct, frozen=True, kw_only=True):
    """What some ranks issued."""

    what: str
    ranks: list[int]
    place: str | None = None
    """File, line and function of the call of one of them."""


class Difference(Struct, frozen=True, kw_only=True):
    """Different calls at one number of one group."""

    group: str
    number: int
    kind: str
    """`op`, `size`, `dtype` or `total`."""
    sides: list[Side]
    """Largest side first."""
    odd: list[int]
    """Ranks of the clearly smaller side; empty where there is none."""
    shift: str | None = None
    """`skipped`, `extra` or `swapped`, where the next numbers show it."""


class RecorderView(View, frozen=True, kw_only=True):
    """Where every process group stands by the flight-recorder dumps of an input."""

    schema: str = FLIGHT_RECORDER
    expected: list[int] = field(default_factory=list)
    """Ranks that the groups name, and those that left a dump."""
    told: bool = False
    """Whether a dump tells the members of the whole job."""
    dumps: list[int] = field(default_factory=list)
    """Ranks that left a dump."""
    missing: list[int] = field(default_factory=list)
    """Ranks that are expected and left none."""
    earlier: list[str] = field(default_factory=list)
    """Dumps that ended before the others began and were left out: of an earlier start, or of a machine whose clock is off."""
    frozen: list[int] = field(default_factory=list)
    """Ranks whose completions stopped before those of their peers."""
    groups: list[GroupRow] = field(default_factory=list)
    difference: Difference | None = None
    """The first difference between calls; None where all agree, or cannot be compared."""
    key_entries: list[Evidence] = field(default_factory=list)
    """Entries on which the verdict rests."""
