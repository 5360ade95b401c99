"""Flight-recorder dumps as facts: what one rank had issued, started and completed in each process group.

Columns instead of objects, since a job may leave a million entries. Holds no opinion and no I/O.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import Frame, GlobalRank, SourceId

if TYPE_CHECKING:
    Column = array[int]
else:
    Column = array  # Python before 3.12 knows no `array[int]` when the types of fields are looked up


DEFAULT_NAME = "0"
"""Name that PyTorch gives to the default process group: names of groups count from it."""
DEFAULT_DESC = "default_pg"


class Stage(IntEnum):
    """How far an entry had come."""

    UNFINISHED = 0
    """Scheduled or started, and not completed: it runs, waits or timed out."""
    RETIRED = 1
    """Its backend keeps no states; it left the list of running works, by completion or by a time-out."""
    COMPLETED = 2


class Call(Struct, frozen=True, kw_only=True):
    """What was called; shared by all entries that are alike."""

    op: str
    """Without backend and peers: `all_reduce`, `_all_gather_base`, `send`, `coalesced`."""
    backend: str
    """`nccl`, `gloo`, …; empty where the name has none."""
    peer: int | None = None
    """Rank inside the group of the other side of a send or receive."""
    own: int | None = None
    """Rank inside the group of this side of a send or receive."""
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    timeout_ms: int | None = None
    frames: int = 0
    """Index in `RankDump.frames`."""


class GroupLog(Struct, frozen=True, kw_only=True):
    """The entries of one rank in one process group, all collectives or all point-to-point, in order of issue."""

    group: str
    """Name of the group that is the same in all processes."""
    desc: str
    p2p: bool
    entry: Column
    """Index of each entry in the file, from 0."""
    record: Column
    """Number of each entry among all that the process ever recorded."""
    seq: Column
    """Sequence number in the group: of collectives, or of point-to-point works."""
    call: Column
    """Index in `RankDump.calls`."""
    created: Column
    """When it was issued, in nanoseconds since the epoch by the clock of its machine; 0 where not told."""
    stage: bytes
    """A `Stage` each."""
    started: bytes
    """1 where it is known to have begun on the device."""


class Membership(Struct, frozen=True):
    """A process group as a dump describes it."""

    name: str
    desc: str
    ranks: tuple[GlobalRank, ...]
    """Sorted; empty where the dump does not tell."""


class Counters(Struct, frozen=True):
    """The last numbers of one group of one process; they count collectives or point-to-point works, whichever came last."""

    enqueued: int
    started: int
    completed: int


class RankDump(Struct, frozen=True, kw_only=True):
    """One dump: the last entries of one process."""

    source: SourceId
    rank: GlobalRank | None
    """None where neither the content nor the name of the file tells it."""
    stated: bool
    """Whether the content tells the rank; else it comes from the name of the file."""
    version: tuple[int, ...]
    """Of the format; empty where there is none (lists of 2023)."""
    library: str = ""
    """Version of the communication library."""
    groups: tuple[Membership, ...] = ()
    counters: dict[str, Counters] = {}
    """By name of the group, as far as the numbers of the process can be assigned."""
    logs: tuple[GroupLog, ...] = ()
    calls: tuple[Call, ...] = ()
    frames: tuple[tuple[Frame, ...], ...] = ()
    """Stacks at the call, innermost first."""
    entries: int = 0
    first_record: int = 0
    """Number of the oldest entry kept; what was recorded before has been overwritten, or left out as completed."""
    active_only: bool = False
    """Whether completed entries were left out."""
    latest_ns: int = 0
    """When the newest entry was issued; 0 where there is none."""
    notes: tuple[str, ...] = ()
    """What was odd about it, for people."""
