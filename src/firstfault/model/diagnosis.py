"""The diagnosis: the only input of every renderer, and the published JSON.

Field names and words follow the contract; absent is None or missing, never 0 and never an empty guess.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.words import (
    ActionKind,
    Category,
    CoverageState,
    Domain,
    Form,
    Layer,
    Phase,
    Scope,
    Strength,
)

SCHEMA = "firstfault.diagnosis/1"


class Published(Struct, frozen=True, kw_only=True):
    """What every published document begins with."""

    schema: str
    redaction: Literal["none", "secrets", "identities"] = "none"
    """What was taken out: nothing, secrets, or secrets and identities."""


class Time(Struct, frozen=True, kw_only=True):
    """When, as ISO 8601 text; with offset where known."""

    earliest: str | None = None
    latest: str | None = None
    zone: str | None = None
    dated: bool = True


class Evidence(Struct, frozen=True, kw_only=True):
    """One raw line, re-read from its source."""

    file: str
    line: int
    column: int
    text: str
    """Window of up to 400 characters around the evidence, undecodable bytes as `\\xNN`."""
    time: Time | None = None


class Culprits(Struct, frozen=True, kw_only=True):
    """The origin only; never a victim."""

    ranks: list[int] = []
    hosts: list[str] = []
    devices: list[str] = []
    storage_nodes: list[str] = []
    strength: Strength = Strength.UNKNOWN
    shared: bool = False
    """Whether nobody is named because the fault lies in what all share; false too where no line tells whose it is."""


class FirstFailed(Struct, frozen=True, kw_only=True):
    """The ranks that failed first by an error of their own."""

    ranks: list[int] = []
    hosts: list[str] = []


class Classes(Struct, frozen=True, kw_only=True):
    """The closed classes of the fault; None where the evidence does not say."""

    domain: Domain | None = None
    form: Form | None = None
    layer: Layer | None = None
    phase: Phase = Phase.UNKNOWN
    scope: Scope | None = None


class Action(Struct, frozen=True, kw_only=True):
    """What to do next."""

    kind: ActionKind
    exclude_hosts: list[str] = []
    exclude_hostlist: str = ""
    """The same hosts as a SLURM hostlist."""
    steps: list[str] = []


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer."""

    failed: bool | None
    """None where the log merely stops."""
    category: Category
    strength: Strength
    summary: str
    culprits: Culprits
    first_failed: FirstFailed
    trigger: Evidence | None
    classes: Classes
    action: Action


class Fact(Struct, frozen=True, kw_only=True):
    """A job fact with its lines; value None where unknown."""

    value: str | int | float | bool | None = None
    evidence: list[Evidence] = []


class ChainLink(Struct, frozen=True, kw_only=True):
    """One step from the first fault to the last exit."""

    what: str
    why: str
    evidence: list[Evidence] = []


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """One start of the job."""

    number: int
    ended: Literal["failed", "completed", "stopped", "unknown"]
    diagnosed: bool
    first_line: Evidence | None = None
    summary: str = ""
    category: Category = Category.UNKNOWN
    strength: Strength = Strength.UNKNOWN
    verdict: Verdict | None = None
    """Its own whole verdict, where every attempt was asked for."""
    chain: list[ChainLink] = []
    """Its own chain, where every attempt was asked for."""


class Recurrence(Struct, frozen=True, kw_only=True):
    """Attempts that failed in the same way."""

    attempts: list[int]
    what: str
    """The kind of fault, as its signature is titled."""
    hosts: list[str] = []
    """Hosts that are named in every one of them."""
    ranks: list[int] = []
    """Ranks that are named in every one of them."""


class RivalSummary(Struct, frozen=True, kw_only=True):
    """Another explanation that was weighed."""

    category: Category
    strength: Strength
    supports: list[str] = []
    against: list[str] = []
    settled_by: list[str] = []


class RankRow(Struct, frozen=True, kw_only=True):
    """What is true of one rank at the end."""

    rank: int
    host: str | None = None
    local_rank: int | None = None
    state: str = "seen"
    """failed, late, timed_out, lost_peer, stopped, seen or silent."""
    last_step: int | None = None
    note: str = ""
    evidence: list[Evidence] = []


class Ranks(Struct, frozen=True, kw_only=True):
    """Completeness: who was expected and who was seen."""

    expected: int | None = None
    seen: int = 0
    seen_ranks: str = ""
    """The ranks of which anything was read, as runs: `0-6, 8`."""
    at_least: int | None = None
    """How many ranks there are at least, by the highest one and by sizes of groups; the job may be larger."""
    with_nccl_state: int = 0
    silent: list[int] = []
    table: list[RankRow] = []
    expected_nodes: int | None = None
    seen_nodes: int = 0
    missing_files: list[str] = []
    witnesses: list[Fact] = []
    """The statements about the number of ranks; `expected` is None where the ranks seen contradict them."""


class CoverageRow(Struct, frozen=True, kw_only=True):
    """What became of one input."""

    file: str
    state: CoverageState
    reason: str = ""
    bytes: int = 0


class Withdrawn(Struct, frozen=True, kw_only=True):
    """A claim that was taken back because its line did not read back."""

    file: str
    line: int
    why: str


class Verification(Struct, frozen=True, kw_only=True):
    """How many cited lines were re-read from the raw bytes."""

    claims: int = 0
    reread: int = 0
    withdrawn: list[Withdrawn] = []


class NaiveReading(Struct, frozen=True, kw_only=True):
    """What a quick look would have concluded, and why that was dropped."""

    reading: str
    """first_watchdog_line, first_error, last_error, launcher_root_cause, or acquitted in a healthy run."""
    says: str
    dropped_because: str
    evidence: list[Evidence] = []


class TimelineEntry(Struct, frozen=True, kw_only=True):
    """One row of the timeline: an event, or equal ones of one burst."""

    time: Time | None
    what: str
    evidence: Evidence
    count: int = 1
    clock: int | None = None
    """Number of the clock on which it is timed: rows of one clock are in order, those of two are not; null without a time."""
    ranks: list[int] = []
    hosts: list[str] = []
    left_out: int = 0
    """Rows of the same clock that come before this one and are not here."""


class Count(Struct, frozen=True, kw_only=True):
    """How often one kind of line occurred, by file and by rank."""

    signature: str
    title: str
    total: int
    files: dict[str, int] = {}
    ranks: dict[str, int] = {}


class StorageClock(Struct, frozen=True, kw_only=True):
    """How the clock of the storage daemons lies to that of the job."""

    offset_seconds: float | None = None
    """To add to a daemon's time (in UTC where its zone is known) to have it on the job's clock; null where unknown."""
    how: Literal["stated", "counters", "lines", "unknown"] = "unknown"
    """By zones that both sides state; by the moment at which the counters of reads stopped; by a failed batch seconds from the job's
    error; or not at all."""
    why: str = ""
    evidence: list[Evidence] = []


class StorageDaemon(Struct, frozen=True, kw_only=True):
    """One storage daemon and what its logs cover."""

    name: str
    node: str = ""
    """Its id in the cluster."""
    role: str = "unknown"
    """target, proxy or unknown."""
    version: str = ""
    begins: Time | None = None
    ends: Time | None = None
    covers_failure: bool = False
    """Whether its logs reach over the moment at which the job stood still."""
    restarts: list[Evidence] = []
    holes: list[str] = []
    """Times of which its logs tell nothing, with the reason."""
    alerts: list[str] = []
    """What its state flags said around the failure, beyond a healthy node's: each with its time on both clocks and its line."""


class StorageEvent(Struct, frozen=True, kw_only=True):
    """One thing that befell a storage daemon around the failure."""

    daemon: str
    what: str
    evidence: Evidence
    """The line, with its time on the daemon's clock."""
    job_time: Time | None = None
    """The same moment on the job's clock."""
    count: int = 1
    """Lines of this kind in a row."""


class StorageCounter(Struct, frozen=True, kw_only=True):
    """What one counter of a storage daemon did around the failure."""

    daemon: str
    counter: str
    before: int
    after: int
    delta: int
    """Moves in between; a reset to zero is counted from there."""
    per_second: float
    reset: bool = False
    evidence: list[Evidence] = []
    """The first and the last line, with their times on the daemon's clock."""
    job_times: list[Time] = []
    """The times of the same lines on the job's clock; empty where the clocks could not be joined."""


class Storage(Struct, frozen=True, kw_only=True):
    """The storage side: only where logs of its daemons were given."""

    clock: StorageClock
    begins: Time | None = None
    """First moment that was looked at, on the job's clock."""
    ends: Time | None = None
    daemons: list[StorageDaemon] = []
    targets: int | None = None
    """Targets of the cluster as its map has it; null where no line tells."""
    events: list[StorageEvent] = []
    counters: list[StorageCounter] = []


class SeenBefore(Struct, frozen=True, kw_only=True):
    """A past incident that is like this one: a hint where to look, never a proof."""

    id: str
    title: str
    state: str
    """open, supported, fixed, verified or rejected, as its record says."""
    verified: bool
    """Whether its fix is shown to hold."""
    fix: str = ""
    """What was done then; empty where that is not known."""
    by: Literal["fingerprint", "lines"]
    """How it was found: the fingerprints are of one fault, or the first lines are those that its record names."""
    equal: list[str] = []
    """Parts that are equal, as `name: value`."""
    differs: list[str] = []
    """Parts that both know and that differ, as `name: past | now`."""
    date: str = ""
    where: str = ""
    """The file of the record; empty for one that ships with the program."""


class Diagnosis(Published, frozen=True, kw_only=True):
    """Everything that a renderer may say about one incident."""

    schema: str = SCHEMA
    verdict: Verdict
    job: dict[str, Fact] = field(default_factory=dict)
    attempts: list[AttemptSummary] = field(default_factory=list)
    chain: list[ChainLink] = field(default_factory=list)
    rivals: list[RivalSummary] = field(default_factory=list)
    naive: list[NaiveReading] = field(default_factory=list)
    timeline: list[TimelineEntry] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    key_lines: list[Evidence] = field(default_factory=list)
    """The best lines, most telling first."""
    ranks: Ranks = field(default_factory=Ranks)
    coverage: list[CoverageRow] = field(default_factory=list)
    verification: Verification = field(default_factory=Verification)
    seen_before: list[SeenBefore] = field(default_factory=list)
    """Past incidents that are like this one, where records were at hand; nothing of the verdict rests on them."""
    collect_next: list[str] = field(default_factory=list)
    storage: Storage | None = None
    recommendations: dict[str, list[str]] = field(default_factory=dict)
    """Section (storage, client, training) -> steps."""
    recurrence: list[Recurrence] = field(default_factory=list)
    """Attempts that failed in the same way, each kind of fault once."""
