"""Many jobs beside each other: a short answer for each; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import Culprits, Evidence, Published
from firstfault.model.words import ActionKind, Category, Strength

BATCH = "firstfault.batch/1"
TABLE = "firstfault.batch-table/1"

JobState = Literal["diagnosed", "cut_short", "too_much_memory", "too_long", "unread", "no_logs", "not_begun", "broken"]
"""How far a job was looked at: whole; until its time was over, with what was known by then; not at all for want of memory or
time; nothing of it could be read; no file of it was found; the batch ended before; firstfault itself failed on it."""


class JobAnswer(Published, frozen=True, kw_only=True):
    """What is known of one job."""

    schema: str = BATCH
    job: str
    """Its number, or the name of its folder or file."""
    paths: list[str]
    """What was read for it."""
    state: JobState = "diagnosed"
    note: str = ""
    """Why the state is not `diagnosed`; empty where it is."""
    scheduler_state: str | None = None
    """How the scheduler says that it ended; None where nobody said it."""
    failed: bool | None = None
    category: Category = Category.UNKNOWN
    strength: Strength = Strength.UNKNOWN
    summary: str = ""
    culprits: Culprits = Culprits()
    first_line: Evidence | None = None
    """The first sign of the fault."""
    action: ActionKind | None = None
    """What to do next; None where the job was not diagnosed."""
    exit_code: int = 3
    """What `firstfault diagnose` ends with for it."""
    seconds: float = 0.0
    """How long it took."""


class Shared(Struct, frozen=True, kw_only=True):
    """What some jobs have in common."""

    name: str
    jobs: list[str]


class Batch(Published, frozen=True, kw_only=True):
    """The answers to many jobs, in the order in which the jobs were given; shown as a table, published a job at a time."""

    schema: str = TABLE
    jobs: list[JobAnswer] = field(default_factory=list)
    categories: list[Shared] = field(default_factory=list)
    """Category of the failed and the undecided ones -> their jobs, the most frequent first."""
    hosts: list[Shared] = field(default_factory=list)
    """Host or storage node that was named as a culprit -> the jobs, the most frequent first."""
