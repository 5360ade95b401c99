"""Reads the memory snapshots of an input; infers nothing.

The reader runs nothing of a pickle and is linear in bytes, so that where no copies can be made it may read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.memory import MemorySnapshot
from firstfault.model.until import NEVER
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.strangers import Told, read_strangers
from firstfault.readers.memory_snapshot import UnreadableSnapshotError, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import Coverage, Source
    from firstfault.model.until import Until
    from firstfault.readers.store import Store


class ReadSnapshots(NamedTuple):
    """Snapshots, and what became of each file that should be one."""

    snapshots: tuple[MemorySnapshot, ...]
    coverage: dict[str, Coverage]
    """By shown path."""


def read_snapshots(
    store: Store, sources: Iterable[Source], *, inline: bool = False, until: Until = NEVER
) -> ReadSnapshots:
    """All memory snapshots of an input.

    Args:
        store: the bytes.
        sources: all sources; others than snapshots are passed over.
        inline: keep to one copy at a time.
        until: when to leave off.
    """
    files = [s for s in sources if s.kind is SourceKind.MEMORY_SNAPSHOT]

    def one(source: Source) -> MemorySnapshot | str:
        return _read(store, source)

    return ReadSnapshots(*read_strangers(store, files, one, MemorySnapshot | str, _told, inline=inline, until=until))


def _told(read: MemorySnapshot) -> Told:
    return Told(CoverageState.DAMAGED if read.notes else CoverageState.READ, read.notes)


def _read(store: Store, source: Source) -> MemorySnapshot | str:
    """One snapshot, or why it cannot be read."""

    def read(offset: int, length: int) -> bytes:
        return store.read(source.id, offset, length)

    try:
        return read_snapshot(read, store.size(source.id), source.id, source.path)
    except (UnreadableSnapshotError, OSError) as error:
        return str(error)
