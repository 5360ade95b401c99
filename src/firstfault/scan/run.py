"""The scan of everything that was opened: which sources, which engine, which executor.

It holds no knowledge of lines; the answer does not depend on engine, executor, number of workers or size of blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.words import SourceKind
from firstfault.scan.engines import make_engine
from firstfault.scan.regions import BLOCK
from firstfault.scan.results import ScanResult, SourceScan, joined
from firstfault.scan.stretch import Stretch, scan_stretch

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.model.evidence import Source
    from firstfault.readers.open import Opened
    from firstfault.scan.plan import Planned

_UNSCANNED = {
    SourceKind.BINARY,
    SourceKind.CONFIG,
    SourceKind.EMPTY,
    SourceKind.FLIGHT_RECORDER,
    SourceKind.MEMORY_SNAPSHOT,
    SourceKind.METRICS,
}


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


__all__ = ["ScanResult", "SourceScan", "scan", "scanned"]
