"""Reads the memory snapshots of an input; infers nothing.

They come from strangers: they are read in copies of this process where that is possible. The reader runs nothing of a
pickle and is linear in bytes, so that where no copies can be made it may read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import Coverage
from firstfault.model.memory import MemorySnapshot
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.apart import SECONDS, apart, possible
from firstfault.readers.memory_snapshot import UnreadableSnapshotError, read_snapshot
from firstfault.scan.executors import processors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import Source
    from firstfault.readers.store import Store

SLOWEST = 1 << 20
"""Bytes a second that a busy machine still reads."""
LOST = "not read: it took too much time or memory, as a file does that was made to harm"


class ReadSnapshots(NamedTuple):
    """Snapshots, and what became of each file that should be one."""

    snapshots: tuple[MemorySnapshot, ...]
    coverage: dict[str, Coverage]
    """By shown path."""


def read_snapshots(store: Store, sources: Iterable[Source], *, inline: bool = False) -> ReadSnapshots:
    """All memory snapshots of an input.

    Args:
        store: the bytes.
        sources: all sources; others than snapshots are passed over.
        inline: keep to one copy at a time.
    """
    files = [s for s in sources if s.kind is SourceKind.MEMORY_SNAPSHOT]
    if not files:
        return ReadSnapshots((), {})

    def piece(number: int) -> MemorySnapshot | str:
        return _read(store, files[number])

    found: list[MemorySnapshot | str | None]
    if possible():
        seconds = SECONDS + max(store.size(s.id) for s in files) / SLOWEST
        found = apart(piece, len(files), 1 if inline else processors(), MemorySnapshot | str, seconds=seconds)
    else:
        found = [piece(n) for n in range(len(files))]
    snapshots: list[MemorySnapshot] = []
    coverage = {}
    for source, read in zip(files, found, strict=True):
        if isinstance(read, str) or read is None:
            reason = LOST if read is None else f"not read: {read}"
            coverage[source.path] = Coverage(file=source.path, state=CoverageState.DAMAGED, reason=reason)
            continue
        snapshots.append(read)
        state = CoverageState.DAMAGED if read.notes else CoverageState.READ
        coverage[source.path] = Coverage(
            file=source.path, state=state, reason="; ".join(read.notes), bytes=store.size(source.id)
        )
    return ReadSnapshots(tuple(snapshots), coverage)


def _read(store: Store, source: Source) -> MemorySnapshot | str:
    """One snapshot, or why it cannot be read."""

    def read(offset: int, length: int) -> bytes:
        return store.read(source.id, offset, length)

    try:
        return read_snapshot(read, store.size(source.id), source.id, source.path)
    except (UnreadableSnapshotError, OSError) as error:
        return str(error)
