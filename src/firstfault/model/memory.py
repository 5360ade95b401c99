"""A memory snapshot of one process: what its caching allocator held, by the stack that asked for it.

Sums instead of blocks, since a snapshot may hold ten million entries. Observations only; what explains a failure is not
said here. All sizes are bytes.
"""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Frame, SourceId, Who

PARTS = 8
"""Equal parts into which the recorded history is cut."""


class Held(Struct, frozen=True, kw_only=True):
    """What one stack asked for and still held at the moment of interest."""

    frames: tuple[Frame, ...]
    """Innermost first; empty where the snapshot has none: asked for before recording began."""
    size: int
    """As asked for, without rounding."""
    count: int
    """Blocks."""


class Grown(Struct, frozen=True, kw_only=True):
    """What one stack asked for within the recorded history and still held at the moment of interest."""

    frames: tuple[Frame, ...]
    size: int
    parts: tuple[int, ...]
    """Blocks asked for in each of `PARTS` equal parts of the history, by number of entries."""


class Asked(Struct, frozen=True, kw_only=True):
    """How often and over how much of the history one stack asked, whether it still holds anything or not."""

    frames: tuple[Frame, ...]
    count: int
    span: float
    """From its first to its last request, as a share of the entries before the moment of interest."""


class Oom(Struct, frozen=True, kw_only=True):
    """One failed request."""

    asked: int
    free: int | None
    """Free on the device, by the driver; None where the snapshot does not say."""
    frames: tuple[Frame, ...]
    time_us: int | None = None
    """Microseconds since the epoch."""


class DeviceMemory(Struct, frozen=True, kw_only=True):
    """One device of one process."""

    device: int
    """Ordinal as the process sees it."""
    reserved: int
    """Held by the allocator, at the moment of interest."""
    allocated: int
    """In blocks that tensors held at the dump, rounding included."""
    requested: int
    """Of it, what was asked for."""
    awaiting: int = 0
    """In blocks freed but still in use by another stream."""
    inactive: int = 0
    """Free in pieces of segments of the common pool."""
    largest_inactive: int = 0
    """The largest such piece."""
    pool_reserved: int = 0
    """Held by private pools, as of CUDA graphs."""
    pool_inactive: int = 0
    """Free in those, for nobody else."""
    segments: int = 0
    expandable: bool = False
    """Whether segments may grow in place."""
    held: tuple[Held, ...] = ()
    """Largest first, at the moment of interest."""
    held_beyond: int = 0
    """In stacks beyond those listed."""
    held_unknown: int = 0
    """Held then and freed before the dump, by stacks that the history no longer holds."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Size and number of blocks held at the dump, those of the most bytes first."""
    grown: tuple[Grown, ...] = ()
    """Largest first."""
    asked: tuple[Asked, ...] = ()
    """Of the largest spans."""
    ooms: tuple[Oom, ...] = ()
    """In order; the first few and the last."""
    oom_count: int = 0
    entries: int = 0
    """Of the recorded history."""
    first_us: int | None = None
    last_us: int | None = None
    at_oom: bool = False
    """Whether sums by stack are those at the last failed request; else those of the dump."""
    later: int = 0
    """Entries behind the last failed request."""


class MemorySnapshot(Struct, frozen=True, kw_only=True):
    """One file."""

    source: SourceId
    path: str
    """As shown."""
    who: Who
    """What the name tells; nothing inside the file does."""
    devices: tuple[DeviceMemory, ...]
    settings: str = ""
    """The allocator's settings as given to the process, where the snapshot holds them."""
    notes: tuple[str, ...] = ()
    """What was left out and why."""
