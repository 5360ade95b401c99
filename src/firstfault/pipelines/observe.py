"""Runs the readers over what the scan found and gathers their observations; infers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.case import Observations
from firstfault.model.evidence import EMPTY, Coverage
from firstfault.model.until import OVER, UNLIMITED
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.abreast import gather
from firstfault.readers.gpu_columns import UNTOLD, is_untold
from firstfault.readers.gpu_course import HEAD, read_courses, table_of
from firstfault.readers.lines import number_at
from firstfault.readers.numbering import missing_names
from firstfault.readers.sniff import WITH_ADVICE
from firstfault.readers.sourcename import read_name
from firstfault.readers.zones import in_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from firstfault.model.blackbox import BoxRecord
    from firstfault.model.evidence import SourceId
    from firstfault.model.gpu_course import GpuCourse
    from firstfault.model.memory import MemorySnapshot
    from firstfault.model.recorder import RankDump
    from firstfault.model.until import Stages, Until
    from firstfault.pipelines.kept import Kept
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.open import Opened
    from firstfault.readers.sourcename import NameFacts
    from firstfault.scan.results import SourceScan
    from firstfault.signatures.library import Library

OWN_NUMBERS = frozenset({SourceKind.AISTORE, SourceKind.BLACK_BOX})
"""Kinds of files whose names are not the job's numbering: of daemons, and with process ids."""
TABLES = frozenset({SourceKind.METRICS, SourceKind.LOG})
"""Kinds of sources that may be tables of GPU counters."""
COURSE_BYTES = 32 << 20
"""Bytes at the end of such a table that are read."""
UNREAD = {
    SourceKind.METRICS: "metrics: `firstfault metrics` reads them; here a bad or the last step is taken at most",
    SourceKind.CONFIG: "source code, settings or a document, not a log",
}
"""Kinds of files that are opened and that no reader takes anything from; nobody may believe that they were looked at."""


class Observed(NamedTuple):
    """Observations, with what is needed to read on."""

    seen: Observations
    profiles: dict[SourceId, SourceProfile]
    clocks: dict[SourceId, SourceClock]


def observe(
    opened: Opened,
    library: Library,
    options: DiagnoseOptions,
    tell: Callable[[int], None] | None = None,
    until: Stages = UNLIMITED,
    *,
    kept: Kept | None = None,
) -> Observed:
    """Everything that the scan and the readers make of an input.

    Args:
        opened: the sources.
        library: the signatures.
        options: of the run.
        tell: called with numbers of bytes that were scanned.
        until: when to leave off.
        kept: what was made of the sources before.
    """
    found = gather(opened, library, options, tell, until, kept=kept)
    events = [e for r in found.read for e in r.events]
    failures = [f for r in found.read for f in r.failures]
    samples = [s for r in found.read for s in r.samples]
    nans = [n for r in found.read for n in r.nans]
    stacks = [s for r in found.read for s in r.stacks]
    dumps, snapshots, coverage = _dumped(opened, options, until.beside)
    box: tuple[BoxRecord, ...] = ()
    stale: frozenset[SourceId] = frozenset()
    if any(s.kind is SourceKind.BLACK_BOX for s in opened.sources):
        from firstfault.pipelines.boxes import read_boxes, without_stale

        boxes = read_boxes(opened.store, opened.sources, library, until.beside)
        box = boxes.records
        coverage |= boxes.coverage
        events.extend(boxes.events)
        stale = boxes.others
        stacks = without_stale(stacks, box, {s.id: s.path for s in opened.sources})
        stacks = [s for s in stacks if s.begin.source not in stale]
        events, failures, samples, nans = (
            [e for e in events if e.span.source not in stale],
            [f for f in failures if f.span.source not in stale],
            [s for s in samples if s.source not in stale],
            [n for n in nans if n.span.source not in stale],
        )
        dumps = tuple(d for d in dumps if d.source not in stale)
        snapshots = tuple(s for s in snapshots if s.source not in stale)
    # A daemon's logs may lie as a file here and as an archive there: their names are not the job's numbering.
    missing = missing_names(s.path for s in opened.sources if s.kind not in OWN_NUMBERS)
    courses, untold = _courses(opened, until.beside)
    observations = Observations(
        sources=opened.sources,
        events=tuple(in_zone(events, options.assume_zone)),
        failures=tuple(in_zone(failures, options.assume_zone)),
        named=tuple(n for r in found.read for n in r.named if n.source not in stale),
        progress=tuple(in_zone(samples, options.assume_zone)),
        nan_from=tuple(in_zone(nans, options.assume_zone)),
        coverage=_coverage(
            opened, found.scans, missing, {**coverage, **untold}, {c.first.span.source for c in courses}
        ),
        place={i: p.who for i, p in found.profiles.items() if i not in stale},
        task_files={i: p.number for i, p in found.profiles.items() if p.number is not None},
        missing_files=missing,
        cut={scan.source: scan.lines for scan in found.scans if scan.unterminated},
        empty={row.file: (name.who, name.number) for row, name in _empty(opened)},
        job_state=options.job_state,
        exit_code=options.exit_code,
        stacks=tuple(stacks),
        box=box,
        dumps=dumps,
        snapshots=snapshots,
        courses=courses,
    )
    return Observed(observations, found.profiles, found.clocks)


def _empty(opened: Opened) -> Iterable[tuple[Coverage, NameFacts]]:
    """Files without a byte, which are no sources, with what their names tell."""
    return ((row, read_name(row.file)) for row in opened.coverage if row.reason == EMPTY)


def _dumped(
    opened: Opened, options: DiagnoseOptions, until: Until
) -> tuple[tuple[RankDump, ...], tuple[MemorySnapshot, ...], dict[str, Coverage]]:
    """Flight-recorder dumps, memory snapshots, and what became of each such file by shown path; most jobs leave none."""
    kinds = {s.kind for s in opened.sources}
    inline = options.engine == "inline"
    dumps: tuple[RankDump, ...] = ()
    snapshots: tuple[MemorySnapshot, ...] = ()
    coverage: dict[str, Coverage] = {}
    if SourceKind.FLIGHT_RECORDER in kinds:
        from firstfault.pipelines.dumps import read_dumps

        dumps, told = read_dumps(opened.store, opened.sources, inline=inline, until=until)
        coverage |= told
    if SourceKind.MEMORY_SNAPSHOT in kinds:
        from firstfault.pipelines.snapshots import read_snapshots

        snapshots, told = read_snapshots(opened.store, opened.sources, inline=inline, until=until)
        coverage |= told
    return dumps, snapshots, coverage


def _courses(opened: Opened, until: Until) -> tuple[tuple[GpuCourse, ...], dict[str, Coverage]]:
    """Courses of the GPUs of all tables of their counters, of a very long one the end; and tables that cannot be read."""
    found: list[GpuCourse] = []
    untold: dict[str, Coverage] = {}
    for source in opened.sources:
        if source.kind not in TABLES:
            continue
        head = opened.store.head(source.id, HEAD)
        table, size = table_of(head), opened.store.size(source.id)
        if table is None:
            if is_untold(head):
                untold[source.path] = Coverage(file=source.path, state=CoverageState.SKIPPED, reason=UNTOLD)
            continue
        if until.over():
            untold[source.path] = Coverage(file=source.path, state=CoverageState.DAMAGED, reason=OVER)
            continue
        start, line = 0, 1
        if size > COURSE_BYTES:
            start = size - COURSE_BYTES
            line = number_at(opened.store, source.id, start)
        data = opened.store.read(source.id, start, COURSE_BYTES)
        cut = data.find(b"\n") + 1 if start else 0
        host = read_name(source.path).who.host
        found += read_courses(
            data[cut:], source.id, table, host=host, offset=start + cut, line=line + (1 if cut else 0)
        )
    return tuple(found), untold


def _coverage(
    opened: Opened,
    scans: Iterable[SourceScan],
    missing: Iterable[str],
    dumps: Mapping[str, Coverage],
    tables: Container[SourceId],
) -> tuple[Coverage, ...]:
    """Coverage of opening, with what no reader knows, what the scan found damaged and what the numbering misses."""
    rows = {c.file: c for c in opened.coverage}
    for source in opened.sources:
        row = rows.get(source.path)
        if source.id in tables:
            continue
        if row is not None and row.state is CoverageState.READ and source.kind in UNREAD:
            reason = row.reason if row.reason in WITH_ADVICE else UNREAD[source.kind]
            rows[source.path] = Coverage(file=source.path, state=CoverageState.SKIPPED, reason=reason)
    for path, told in dumps.items():
        if rows[path].state is CoverageState.READ:
            rows[path] = told
    paths: dict[SourceId, str] = {s.id: s.path for s in opened.sources}
    for found in scans:
        if found.damage:
            path = paths[found.source]
            rows[path] = Coverage(file=path, state=CoverageState.DAMAGED, reason=found.damage, bytes=found.bytes)
    for name in missing:
        reason = "its neighbours in the numbering are here"
        rows.setdefault(name, Coverage(file=name, state=CoverageState.MISSING, reason=reason))
    return tuple(rows[name] for name in sorted(rows))
