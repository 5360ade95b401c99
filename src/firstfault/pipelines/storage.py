"""Reads the storage daemons' logs around a failure: indexes every source, joins the clocks, then reads the time that counts.

It wires readers, scan and the fold of the store; it does not judge.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.state.storage import Moment, StorageState, fold
from firstfault.analysis.state.storage_clock import (
    SLACK,
    ClockJoin,
    JobTimes,
    by_breaks,
    contradicted,
    job_times,
    join_clocks,
    of_this_job,
    on_store_clock,
    refuted,
    settled,
)
from firstfault.analysis.storage_request import names_batches, of_other_jobs
from firstfault.analysis.zones import EAST, WEST
from firstfault.model.evidence import Coverage
from firstfault.model.storage import DaemonRole, LogPiece, StorageLogs
from firstfault.model.until import NEVER
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.share import shared
from firstfault.pipelines.times import seconds_of_zone
from firstfault.readers.aistore import Index, ends, index_source, read_piece
from firstfault.readers.discover import STDIN
from firstfault.scan.executors import processors
from firstfault.scan.newlines import count_newlines, want_numpy
from firstfault.scan.records import RecordSearch
from firstfault.scan.run import MUCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Source
    from firstfault.model.until import Until
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.readers.open import Opened
    from firstfault.signatures.library import Library

BEFORE = 3 * 3600.0
"""Seconds before the job stood still in which causes are looked for."""
AFTER = 600.0
"""Seconds after its last line."""
LOOKED_FOR = "no log of a storage daemon: looked for AIStore's, as files, archives of `ais log get` and output of pods"
"""Why what was named as the storage side is none of it."""
SAMPLED = 8
"""Daemons whose counters are read over a day to join the clocks."""
SAMPLED_BYTES = 256 << 20
BREAKS = frozenset({"aistore.out_of_bounds", "aistore.batch_aborted", "aistore.panic", "aistore.member_removed"})
"""Lines that come once in a failure: they tell one zone from another where counters do not."""
FAILED = BREAKS | {"aistore.batch_entry_missing", "aistore.rejected"}
"""Lines of batches that failed, of which there may be several: seconds from the job's error they speak against another zone."""
FAULTS = frozenset({"aistore.disk_fault", "aistore.out_of_space", "aistore.daemon_fatal", "aistore.stopping"})
"""Lines of faults that end the batches of all jobs alike."""


def with_storage_paths(paths: Sequence[str | os.PathLike[str]], storage: Sequence[str]) -> list[str | os.PathLike[str]]:
    """The paths of a command with those of the storage logs; what lies inside one of the others is not read twice."""
    roots = [os.path.realpath(os.fspath(p)) for p in paths if os.fspath(p) != STDIN]
    new = [s for s in storage if not any(_inside(os.path.realpath(s), root) for root in roots)]
    return [*paths, *new]


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def without_daemons(opened: Opened, storage: Sequence[str]) -> tuple[Coverage, ...]:
    """One row for each place that was named as the storage daemons' and holds no log of one, with what was looked for."""
    ours = [os.path.realpath(s.origin) for s in daemon_sources(opened.sources) if s.origin]
    every = [os.path.realpath(s.origin) for s in opened.sources if s.origin]
    rows = []
    for given in storage:
        root = os.path.realpath(given)
        place = Path(root)
        if any(_inside(path, root) for path in ours):
            continue
        others = len({path for path in every if _inside(path, root)})
        held = (
            "nothing to read lies there"
            if not others
            else f"{others} other file{'s lie' if others > 1 else ' lies'} there"
        )
        name = place.name + ("/" if place.is_dir() else "")
        rows.append(Coverage(file=name, state=CoverageState.MISSING, reason=f"{LOOKED_FOR}; {held}"))
    return tuple(rows)


def daemon_sources(sources: Sequence[Source]) -> list[Source]:
    """The sources that storage daemons wrote."""
    return [s for s in sources if s.kind is SourceKind.AISTORE]


def read_storage(
    opened: Opened, scene: Scene, library: Library, options: DiagnoseOptions, until: Until = NEVER
) -> StorageState | None:
    """What the storage daemons' logs tell about the time of a failure, as far as there is time; None where there are none."""
    sources = daemon_sources(opened.sources)
    if not sources:
        return None
    store = opened.store
    if sum(store.size(s.id) for s in sources) >= MUCH:
        want_numpy()
    job = job_times(scene)
    assumed = job.stop if job.stop is not None else 0.0
    workers = _workers(opened, sources, options)

    def index(number: int) -> Index | None:
        if until.over():
            return None
        try:
            return index_source(store, sources[number], _newlines, assumed)
        except OSError:
            return None

    indexes = [i for i in shared(index, len(sources), workers, Index | None) if i is not None]
    search = RecordSearch(library.plan, _wanted)
    clock = _shown(opened, indexes, job, search, assumed, scene=scene)
    if options.assume_zone is not None and clock.how == "stated" and job.stop is not None:
        clock = _held_against(clock, job, lambda naive: _shown(opened, indexes, naive, search, assumed, scene=scene))
    window = _window(job, clock)
    much = sum(i.size for i in indexes) > SAMPLED_BYTES

    def piece(number: int) -> list[LogPiece]:
        found = indexes[number]
        if until.over():
            return []
        try:
            within = _local(found, window, indexes) if window is not None or much else _unjoined(found, job, indexes)
            return read_piece(store, found, within, search, assumed)
        except OSError:
            return []

    pieces = [p for part in shared(piece, len(indexes), workers, list[LogPiece]) for p in part]
    targets = [i.targets for i in indexes if i.targets is not None]
    logs = StorageLogs(pieces=tuple(pieces), targets=max(targets, default=None))
    return fold(logs, clock, job, window)


def _held_against(clock: ClockJoin, job: JobTimes, shown_by: Callable[[JobTimes], ClockJoin]) -> ClockJoin:
    """The join that a zone given by hand makes, or the one that the logs show, where they show another.

    Args:
        clock: the join by the zones of both sides, the job's by `--assume-zone`.
        job: when the job ran, in that zone.
        shown_by: joins the clocks by the logs, for a job whose zone nobody states.
    """
    assert job.stop is not None
    east = seconds_of_zone(job.zone)
    naive = replace(
        job,
        utc=False,
        zone=None,
        start=None if job.start is None else job.start + east,
        stop=job.stop + east,
        end=None if job.end is None else job.end + east,
    )
    return refuted(clock, shown_by(naive), east)


def _shown(
    opened: Opened, indexes: Sequence[Index], job: JobTimes, search: RecordSearch, assumed: float, *, scene: Scene
) -> ClockJoin:
    """The join by counters and lines."""
    clock = _join(opened, indexes, job, assumed)
    if job.stop is None or clock.how == "stated":
        return clock
    reached = wide(job, known=_zone(indexes) is not None)
    ended = clock.how == "counters" and clock.alone
    if ended and not names_batches(scene):
        return clock
    if ended and clock.offset is not None:
        reached = (job.stop - clock.offset - SLACK, job.stop - clock.offset + SLACK)
    told = _breaks(opened, indexes, reached, search, assumed)
    others = of_other_jobs(scene, told)
    if not ended:
        own = [m for m, other in zip(told, others, strict=True) if not other and m.event.signature in FAILED]
        breaks = [m.at for m in own if m.event.signature in BREAKS]
        clock = by_breaks(settled(clock, job, breaks), job, breaks)
        clock = contradicted(clock, job, [m.at for m in own])
    return of_this_job(clock, job, [(m.at, other) for m, other in zip(told, others, strict=True)])


def _newlines(data: bytes) -> int:
    return count_newlines(data, 0, len(data))


def _wanted(signature: str) -> bool:
    return signature.startswith("aistore.")


def _workers(opened: Opened, sources: Sequence[Source], options: DiagnoseOptions) -> int:
    much = sum(opened.store.size(s.id) for s in sources) >= MUCH
    return processors() if much and options.engine != "inline" else 1


def _zone(indexes: Sequence[Index]) -> int | None:
    """The zone that the daemons' clocks show, where some state one and none another."""
    zones = {i.zones[0] for i in indexes if len(i.zones) == 1}
    return zones.pop() if len(zones) == 1 else None


def _window(job: JobTimes, clock: ClockJoin) -> tuple[float, float] | None:
    """The time to read, on the store's clock."""
    if clock.offset is None or job.stop is None:
        return None
    last = job.end if job.end is not None else job.stop
    return job.stop - clock.offset - BEFORE, max(last, job.stop) - clock.offset + AFTER


def _local(index: Index, window: tuple[float, float] | None, indexes: Sequence[Index]) -> tuple[float, float] | None:
    """A time of the store's clock on the wall clock of one daemon."""
    if window is None:
        return None
    zone = index.zones[0] if len(index.zones) == 1 else _zone(indexes)
    shift = 0 if zone is None else zone
    return window[0] + shift, window[1] + shift


def _unjoined(index: Index, job: JobTimes, indexes: Sequence[Index]) -> tuple[float, float] | None:
    """The time to read where nothing joins the clocks: as long as zones can differ by, else the last hours that are there."""
    if job.stop is not None:
        known = len(index.zones) == 1 or _zone(indexes) is not None
        return _local(index, wide(job, known=known), indexes)
    last = ends(index)
    return None if last is None else (last - BEFORE, last + 1.0)


def wide(job: JobTimes, *, known: bool) -> tuple[float, float]:
    """First and last moment of the store's clock at which the failure can be, whatever zones the two clocks are in.

    Args:
        job: when it stood still.
        known: whether the store's clock is that of UTC.
    """
    assert job.stop is not None
    # A job in a zone is behind UTC by it, a store in a zone before it.
    earlier = (0 if job.utc else EAST) - (0 if known else WEST)
    later = (0 if known else EAST) - (0 if job.utc else WEST)
    return job.stop - earlier - BEFORE, (job.end or job.stop) + later + AFTER


def _join(opened: Opened, indexes: Sequence[Index], job: JobTimes, assumed: float) -> ClockJoin:
    """Joins the clocks by the counters of some targets over as long a time as zones can differ by."""
    if job.stop is None:
        return join_clocks([], job)
    known = _zone(indexes) is not None
    reached = wide(job, known=known)
    pieces: list[LogPiece] = []
    read = 0
    for found in _sample(indexes):
        if read > SAMPLED_BYTES:
            break
        within = _local(found, reached, indexes) if known else reached
        try:
            pieces += read_piece(opened.store, found, within, None, assumed)
        except OSError:
            continue
        read += min(found.size, SAMPLED_BYTES)
    return join_clocks(pieces, job)


def _breaks(
    opened: Opened, indexes: Sequence[Index], reached: tuple[float, float], search: RecordSearch, assumed: float
) -> list[Moment]:
    """The lines by which batches broke or daemons died in a time of the store's clock."""
    common = _zone(indexes)
    found: list[Moment] = []
    read = 0
    for index in indexes:
        if read > SAMPLED_BYTES:
            break
        read += min(index.size, SAMPLED_BYTES)
        try:
            pieces = read_piece(opened.store, index, _local(index, reached, indexes), search, assumed)
        except OSError:
            continue
        found += [
            Moment(on_store_clock(piece, line.at, common), line.event)
            for piece in pieces
            for line in piece.lines
            if line.event.signature in FAILED | FAULTS
        ]
    return found


def _sample(indexes: Sequence[Index]) -> list[Index]:
    """All sources of a few targets, evenly chosen."""
    by_node: dict[str, list[Index]] = {}
    for found in indexes:
        several = len(found.labels) > 1
        if several or (found.identity.daemon.role is not DaemonRole.PROXY and not found.identity.errors_only):
            daemon = found.identity.daemon
            by_node.setdefault(daemon.node or daemon.name or found.source.path, []).append(found)
    names = sorted(by_node)
    step = max(1, len(names) // SAMPLED)
    return [i for name in names[::step][:SAMPLED] for i in by_node[name]]
