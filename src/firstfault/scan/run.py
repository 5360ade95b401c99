"""The scan of everything that was opened: which sources, which engine, which executor.

It holds no knowledge of lines; the answer does not depend on engine, executor, number of workers or size of blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import SourceId
from firstfault.model.words import SourceKind
from firstfault.readers.identity import profile_source
from firstfault.scan.collect import Collector
from firstfault.scan.engines import make_engine
from firstfault.scan.regions import BLOCK, regions
from firstfault.scan.results import Part, ScanResult, SourceScan, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.model.evidence import Source
    from firstfault.readers.open import Opened
    from firstfault.readers.store import Store
    from firstfault.scan.engines import Engine
    from firstfault.scan.plan import Plan, Planned

SAMPLE = 256 * 1024
"""Bytes at the head of a source from which its label style is told."""
_UNSCANNED = {
    SourceKind.BINARY,
    SourceKind.CONFIG,
    SourceKind.EMPTY,
    SourceKind.FLIGHT_RECORDER,
    SourceKind.MEMORY_SNAPSHOT,
    SourceKind.METRICS,
}


class Stretch(Struct, frozen=True):
    """Some lines of a source, by absolute offsets; `start` is the start of a line."""

    source: SourceId
    path: str
    start: int
    end: int


def scanned(source: Source) -> bool:
    """Whether a source holds lines that signatures speak about."""
    return source.kind not in _UNSCANNED


def scan(
    opened: Opened,
    library: Planned,
    *,
    engine: str = "auto",
    executor: str = "auto",
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
    block_size: int = BLOCK,
) -> ScanResult:
    """Finds every line that a signature of the library matches.

    Args:
        opened: the sources.
        library: the signatures.
        engine: `auto`, `hyperscan`, `re2` or `re`.
        executor: `auto`, `inline` or `processes`.
        workers: number of processes; as many as processors where None.
        progress: called with the number of bytes that were scanned since the last call.
        block_size: bytes read at a time.

    Raises:
        EngineError: the engine is not there.
    """
    del executor, workers
    plan = library.plan
    searcher = make_engine(engine, plan)
    results = []
    for source in opened.sources:
        if not scanned(source):
            continue
        stretch = Stretch(source.id, source.path, 0, opened.store.size(source.id))
        part = scan_stretch(opened.store, stretch, plan, searcher, block_size=block_size, progress=progress)
        results.append(joined(source.id, [part]))
    return ScanResult(sources=tuple(results), engine=searcher.name)


def scan_stretch(
    store: Store,
    stretch: Stretch,
    plan: Plan,
    engine: Engine,
    *,
    block_size: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> Part:
    """Scans the lines between two offsets, of which the first is the start of a line."""

    def read(offset: int, buffer: memoryview) -> int:
        return store.read_into(stretch.source, offset, buffer)

    collector = Collector(plan, profile_source(b"", stretch.path))
    try:
        collector = Collector(plan, profile_source(store.head(stretch.source, SAMPLE), stretch.path))
        for region in regions(read, stretch.start, stretch.end, block_size):
            collector.take(region, engine.propose(region.data, region.size))
            if progress is not None:
                progress(region.used)
    except OSError as error:
        collector.part.damage = f"could not be read to its end: {error.strerror or error}"
    else:
        if collector.part.bytes < stretch.end - stretch.start:
            collector.part.damage = "became shorter while it was read"
    return collector.part


__all__ = ["ScanResult", "SourceScan", "scan", "scan_stretch", "scanned"]
