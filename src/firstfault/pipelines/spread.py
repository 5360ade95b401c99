"""Scans and reads the sources of one input on the workers of a cluster, and says the same as one machine would.

What travels is small: where the sources lie and which, and back what readers made of them. A worker uses its own firstfault
and its own view of the files. Where that differs from ours, where it cannot read a file, or where it dies, the piece is done here.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, TypeVar

from firstfault.model.until import LEFT_OFF, OVER, STOPPED
from firstfault.pipelines.abreast import Alike, Gathered
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.read import UNREAD, largest_whole
from firstfault.pipelines.site import (
    HEADS,
    PIECES,
    STRETCHES,
    Head,
    Piece,
    Plot,
    Scanned,
    Site,
    Wanted,
    heads,
    ourselves,
    pieces,
    stretches,
)
from firstfault.pipelines.transport import BrokenMessageError
from firstfault.readers.clock import SourceClock, settle_clocks
from firstfault.readers.recall import forget
from firstfault.scan.cluster import Cluster, ClusterError, Task
from firstfault.scan.results import SourceScan
from firstfault.scan.run import by_source
from firstfault.scan.tasks import UNDIVIDED, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from firstfault.model.evidence import Source, SourceId
    from firstfault.model.until import Stages, Until
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.pipelines.transport import Transport
    from firstfault.readers.open import Opened
    from firstfault.scan.executors import Parts
    from firstfault.scan.results import Part
    from firstfault.scan.stretch import Stretch
    from firstfault.signatures.library import Library

T = TypeVar("T", Head, Scanned, Piece)

NAME = "dask"
"""Word of `--engine`; what follows it behind a colon is an address."""
HEADS_TOGETHER = 64
"""Sources of which one task takes the first look."""
TOGETHER = 32
"""Sources of one task at most."""
BYTES_TOGETHER = 16 << 20
"""Bytes of them from which on no more are added."""
_LOG = logging.getLogger("firstfault.cluster")


def spread(  # noqa: PLR0917 - as `gather`
    opened: Opened,
    sources: Sequence[Source],
    library: Library,
    options: DiagnoseOptions,
    tell: Callable[[int], None] | None,
    until: Stages,
) -> Gathered:
    """Scans and reads the sources on a cluster.

    Args:
        opened: all sources.
        sources: those that hold text.
        library: the signatures.
        options: of the run; its engine names the cluster.
        tell: called with numbers of bytes that were scanned.
        until: when to leave off.

    Raises:
        PipelineError: there is no cluster to work on.
    """
    address = options.engine.partition(":")[2]
    try:
        with Cluster(address) as cluster:
            return _Spread(cluster, opened, sources, library, options, tell, until).gathered()
    except ClusterError as error:
        raise PipelineError(
            f"this cluster cannot be used: {error}",
            where="--engine",
            fix="Give the address of a Dask scheduler or its scheduler file, install `firstfault[cluster]`, or use `--engine processes`.",
        ) from error
    finally:
        forget()


class _Spread:
    """One run on a cluster."""

    def __init__(  # noqa: PLR0917 - as `spread`
        self,
        cluster: Cluster,
        opened: Opened,
        sources: Sequence[Source],
        library: Library,
        options: DiagnoseOptions,
        tell: Callable[[int], None] | None,
        until: Stages,
    ) -> None:
        self._cluster = cluster
        self._sources = sources
        self._by_id = {s.id: s for s in sources}
        self._store = opened.store
        self._tell = tell
        self._until = until
        self._size = {s.id: opened.store.size(s.id) for s in sources}
        largest = largest_whole([*self._size.values()])
        self._site = Site(opened.store, library, largest)
        self._plot = cluster.send(
            Plot(
                name=uuid.uuid4().hex,
                extents=opened.store.extents,
                sources=tuple(sources),
                signatures=tuple(str(folder.absolute()) for folder in options.signatures),
                ours=ourselves(library),
                largest=largest,
            )
        )
        self._seen: dict[SourceId, int | None] = {}
        self._given_back: dict[str, int] = {}
        self._stopped = False

    def gathered(self) -> Gathered:
        """All of it."""
        known = self._heads()
        clocks = {s.id: SourceClock(self._store, s, known[s.id].profile) for s in self._sources}
        for source, clock in clocks.items():
            clock.believe(known[source].date)
        settle_clocks(list(clocks.values()))
        wanted = {i: Wanted(i, known[i].profile, c.date, c.neighbour) for i, c in clocks.items()}
        small = [s.id for s in self._sources if self._size[s.id] <= UNDIVIDED]
        large = [s for s in self._sources if self._size[s.id] > UNDIVIDED]
        scans = {r.source: r for r in self._scans(large)}
        batches = [[wanted[i] for i in some] for some in _batches(small, self._size)]
        batches += [
            [Wanted(i, w.profile, w.date, w.neighbour, scans[i])] for s in large for i, w in [(s.id, wanted[s.id])]
        ]
        found = self._pieces(batches)
        self._say()
        return Gathered(
            tuple(_scan(s, found.get(s.id), known[s.id], scans.get(s.id)) for s in self._sources),
            [UNREAD if (p := found.get(s.id)) is None else p.read for s in self._sources],
            {i: head.profile for i, head in known.items()},
            clocks,
        )

    def _heads(self) -> dict[SourceId, Head]:
        ids = [s.id for s in self._sources]
        groups = [ids[at : at + HEADS_TOGETHER] for at in range(0, len(ids), HEADS_TOGETHER)]
        found: dict[SourceId, Head] = {}
        tasks = (Task(heads, (self._plot, group)) for group in groups)
        for number, told in self._told(tasks, HEADS, [len(g) for g in groups], self._until.scanning):
            known = zip(groups[number], told, strict=True)
            found |= {i: head for i, head in known if head is not None and head.seen == self._sight(i)}
        return {i: found[i] if i in found else self._site.head(self._by_id[i]) for i in ids}

    def _scans(self, large: Sequence[Source]) -> tuple[SourceScan, ...]:
        """Scans of the sources that are split."""
        groups = split(self._store, large, max(1, self._cluster.threads))
        until = self._until.scanning
        tasks = (Task(stretches, (self._plot, group, until.left)) for group in groups)
        parts: Parts = {}
        try:
            for number, told in self._told(tasks, STRETCHES, [len(g) for g in groups], until):
                for stretch, one in zip(groups[number], told, strict=True):
                    parts[stretch] = self._part(stretch, one, until)
                    self._count(parts[stretch].bytes)
        except KeyboardInterrupt:
            self._stopped = True
        return by_source(list(large), groups, parts)

    def _part(self, stretch: Stretch, told: Scanned | None, until: Until) -> Part:
        if told is not None and _is_whole(told.part.damage) and told.seen == self._sight(stretch.source):
            return told.part
        return self._site.scanned(stretch, until)

    def _pieces(self, batches: Sequence[Sequence[Wanted]]) -> dict[SourceId, Piece]:
        """What became of each source; those are missing that were not read when an interrupt came."""
        until = self._until.reading
        tasks = (Task(pieces, (self._plot, batch, until.left)) for batch in batches)
        found: dict[SourceId, Piece] = {}
        alike = Alike()
        if self._stopped:
            return found
        try:
            for number, told in self._told(tasks, PIECES, [len(b) for b in batches], until):
                for wanted, one in zip(batches[number], told, strict=True):
                    piece = one
                    redone = wanted.found is not None and one is not None and one.damage == wanted.found.damage
                    if (
                        piece is None
                        or not (redone or _is_whole(piece.damage))
                        or piece.seen != self._sight(wanted.source)
                    ):
                        piece = self._site.wanted(wanted, self._by_id[wanted.source], until)
                    found[wanted.source] = alike.joined(piece)
                    if wanted.found is None:
                        self._count(piece.bytes)
        except KeyboardInterrupt:
            self._stopped = True
        return found

    def _told(
        self, tasks: Iterator[Task], transport: Transport[list[T]], lengths: Sequence[int], until: Until
    ) -> Iterator[tuple[int, Sequence[T | None]]]:
        """What workers tell, task by task; None for what has to be done here."""
        for number, result, why in self._cluster.outcomes(tasks, until):
            told: list[T] = []
            reason = why
            if result is not None:
                try:
                    told = transport.unpack(result)[1]
                except BrokenMessageError as error:
                    reason = str(error)
            if len(told) == lengths[number]:
                yield number, told
                continue
            self._given_back[reason] = self._given_back.get(reason, 0) + 1
            yield number, [None] * lengths[number]

    def _sight(self, source: SourceId) -> int | None:
        """What this machine sees at the head of a source; None where it cannot read it."""
        if source not in self._seen:
            try:
                self._seen[source] = self._site.seen(source)
            except OSError:
                self._seen[source] = None
        return self._seen[source]

    def _count(self, number: int) -> None:
        if self._tell is not None:
            self._tell(number)

    def _say(self) -> None:
        for why, count in self._given_back.items():
            _LOG.warning("%d pieces of work were done on this machine instead of the cluster: %s", count, why)


def _is_whole(damage: str) -> bool:
    """Whether what a worker told can stand: one that could not read to the end may only not see what we see."""
    return not damage or damage == OVER


def _scan(source: Source, piece: Piece | None, head: Head, scanned: SourceScan | None) -> SourceScan:
    """The scan of a source without its hits, which were read where they were found."""
    if piece is not None:
        counted = (piece.bytes, piece.lines, piece.damage, piece.unterminated)
    elif scanned is not None:
        damage = scanned.damage if scanned.damage in LEFT_OFF else STOPPED
        counted = (scanned.bytes, scanned.lines, damage, scanned.unterminated)
    else:
        counted = (0, 0, STOPPED, False)
    return SourceScan(
        source=source.id,
        bytes=counted[0],
        lines=counted[1],
        damage=counted[2],
        unterminated=counted[3],
        profile=head.profile,
    )


def _batches(sources: Sequence[SourceId], size: dict[SourceId, int]) -> Iterator[list[SourceId]]:
    batch: list[SourceId] = []
    weight = 0
    for source in sources:
        batch.append(source)
        weight += size[source]
        if len(batch) >= TOGETHER or weight >= BYTES_TOGETHER:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch
