"""What a trial of a job's data found; the published JSON; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.checks import CheckState
from firstfault.model.diagnosis import Published

DATA_CHECK = "firstfault.data-check/1"

DataKind = Literal["loader", "webdataset", "lhotse_cuts", "lhotse_recordings", "lhotse_supervisions", "list", "unknown"]
"""What was tried: a loader or dataset by its import path, shards, a manifest of Lhotse, a list of files."""
RunEnd = Literal["ended", "batches", "time", "memory", "stalled", "failed", "died", "gave_up"]
"""How the dry run of a rank ended: the data ended, a limit was reached, an item never came, the code failed, the process died,
or too many batches failed one after the other."""


class DataFinding(Struct, frozen=True, kw_only=True):
    """One thing that was found, however often."""

    check: str
    """Such as `item.fails`, `shard.truncated`."""
    state: CheckState
    what: str
    """What was seen, with the numbers."""
    why: str = ""
    """What the job would do with it."""
    fix: str = ""
    """What to do; empty where there is nothing to do."""
    count: int = 1
    """How many items, lines or files."""
    file: str = ""
    """The first file; empty where it is about no file."""
    line: int | None = None
    """In that file, from 1; None where it is about the whole."""
    names: list[str] = field(default_factory=list)
    """The first items or files of which it is true."""
    ranks: list[int] = field(default_factory=list)
    """Global ranks of which it is true; empty where it is true of all."""
    lines: list[str] = field(default_factory=list)
    """Frames of the code, innermost last, or where a thread stood, innermost first."""


class SlowItem(Struct, frozen=True, kw_only=True):
    """An item that took long to load."""

    name: str
    seconds: float
    rank: int
    worker: int | None = None
    """Number of the worker that loaded it; None for the process itself."""


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker of a loader."""

    number: int
    items: int
    failed: int
    busy_s: float
    """Seconds that it spent in items."""
    state: str
    """How it was seen last: `ended`, `idle`, `in an item`, or the state letter of the kernel with what it waits in."""


class RankTrial(Struct, frozen=True, kw_only=True):
    """The dry run of one rank. Absent is None: what was not measured is not 0."""

    rank: int
    end: RunEnd
    batches: int
    items: int
    failed: int
    """Items that raised an exception."""
    seconds: float
    first_s: float | None = None
    """Seconds until the first batch: starting workers, opening files."""
    median_s: float | None = None
    """Of the batches after the first."""
    p90_s: float | None = None
    p99_s: float | None = None
    longest_s: float | None = None
    batch_bytes: int | None = None
    """Bytes of the tensors of the largest batch."""
    memory_mb: int | None = None
    """The most memory that all its processes held, shared memory counted once."""
    shm_mb: int | None = None
    """How much more of /dev/shm was in use than before, at most."""
    workers: list[WorkerRow] = field(default_factory=list)


class DataFile(Struct, frozen=True, kw_only=True):
    """One manifest or shard."""

    file: str
    kind: DataKind
    items: int | None = None
    """Samples, cuts or lines; None where they could not be counted."""
    bytes: int | None = None
    hours: float | None = None
    """Of sound, as the manifest states it."""


class DataCheck(Published, frozen=True, kw_only=True):
    """What is wrong with the data of a job, as far as was looked."""

    schema: str = DATA_CHECK
    state: Literal["ok", "warn", "fail", "unknown"]
    """The worst that was found; unknown where nothing could be tried."""
    summary: str
    kind: DataKind
    target: str
    """The import path, or what was given."""
    world_size: int = 1
    limits: dict[str, float] = field(default_factory=dict)
    """`seconds`, `batches`, `stall_seconds`, `memory_mb`: what the trial was allowed."""
    loader: dict[str, str] = field(default_factory=dict)
    """What the loader says of itself: `type`, `dataset`, `sampler`, `workers`, `items`, `batches`."""
    ranks: list[RankTrial] = field(default_factory=list)
    per_rank: list[int | None] = field(default_factory=list)
    """Items of each rank, by the sampler or the shards; None of a rank where it is not known. Empty where nothing says it."""
    slowest: list[SlowItem] = field(default_factory=list)
    """The slowest first."""
    files: list[DataFile] = field(default_factory=list)
    findings: list[DataFinding] = field(default_factory=list)
    """The worst first."""
    not_checked: list[str] = field(default_factory=list)
