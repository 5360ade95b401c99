"""The scan of everything that was opened: which sources, which engine, which executor.

It holds no knowledge of lines; the answer does not depend on engine, executor, number of workers or size of blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.until import NEVER, STOPPED
from firstfault.model.words import SourceKind
from firstfault.scan.engines import EngineError, kept_engine
from firstfault.scan.executors import Parts, Work, consecutive, inline, processes, processors
from firstfault.scan.newlines import want_numpy
from firstfault.scan.regions import BLOCK
from firstfault.scan.results import ScanResult, SourceScan, joined
from firstfault.scan.tasks import Task, split

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from firstfault.model.evidence import Source, SourceId
    from firstfault.model.until import Until
    from firstfault.readers.open import Opened
    from firstfault.scan.plan import Planned
    from firstfault.scan.stretch import Stretch

MUCH = 48 << 20
"""Bytes from which on several processes are worth their start."""
_UNSCANNED = {
    SourceKind.AISTORE,
    SourceKind.BINARY,
    SourceKind.BLACK_BOX,
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
    only: Container[SourceId] | None = None,
    until: Until = NEVER,
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
        only: the sources to scan; all where None.
        until: when to leave off.

    Raises:
        EngineError: no such engine or executor is there.
        ScanError: a worker process met a fault of this program.
    """
    plan = library.plan
    sources = [s for s in opened.sources if scanned(s) and (only is None or s.id in only)]
    work = Work(opened.store, plan, kept_engine(engine, plan), block_size, until)
    many = processors() if workers is None else max(1, workers)
    total = sum(opened.store.size(s.id) for s in sources)
    if total >= MUCH:
        want_numpy()
    if executor not in {"auto", "inline", "processes"}:
        raise EngineError(f"no executor is called {executor!r}. Use auto, inline or processes.")
    shared = executor == "processes" or (executor == "auto" and total >= MUCH and many > 1)
    tasks = split(opened.store, sources, many if shared else 1)
    if shared and len(tasks) > 1:
        parts, complete = processes(work, tasks, many, progress)
    else:
        parts, complete = inline(work, tasks, progress)
    return ScanResult(sources=by_source(sources, tasks, parts), engine=work.engine_name, complete=complete)


def by_source(sources: Sequence[Source], tasks: Sequence[Task], parts: Parts) -> tuple[SourceScan, ...]:
    """The scans of some sources from what was found in their stretches; what has no part was stopped before."""
    stretches: dict[SourceId, list[Stretch]] = {s.id: [] for s in sources}
    for stretch in (stretch for task in tasks for stretch in task):
        stretches[stretch.source].append(stretch)
    found = []
    for source in sources:
        known = list(consecutive(stretches[source.id], parts))
        scan_of = joined(source.id, known)
        if len(known) < len(stretches[source.id]) and not scan_of.damage:
            scan_of = replace(scan_of, damage=STOPPED)
        found.append(scan_of)
    return tuple(found)


__all__ = ["ScanResult", "SourceScan", "by_source", "scan", "scanned"]
