"""Runs the readers over what the scan found and gathers their observations; infers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from firstfault.analysis.case import Observations
from firstfault.model.evidence import Coverage, Event, Failure, ProgressSample
from firstfault.model.stacks import StackDump
from firstfault.model.words import CoverageState, Role, SourceKind
from firstfault.pipelines.dumps import read_dumps
from firstfault.pipelines.error_files import read_error_file
from firstfault.pipelines.share import shared
from firstfault.pipelines.snapshots import read_snapshots
from firstfault.readers.banners import failure_of_event, read_banners
from firstfault.readers.clock import SourceClock, settle_clocks
from firstfault.readers.events import build_events
from firstfault.readers.gpu_course import HEAD, read_courses, table_of
from firstfault.readers.identity import profile_source
from firstfault.readers.nan import nan_from
from firstfault.readers.numbering import missing_names
from firstfault.readers.progress import (
    MOST_BYTES,
    TRAINING,
    Anchor,
    find_progress,
    last_progress,
    progress_after,
    progress_before,
)
from firstfault.readers.sourcename import read_name
from firstfault.readers.stacks import read_stacks
from firstfault.readers.zones import in_zone
from firstfault.scan.executors import processors
from firstfault.scan.run import MUCH, scanned
from firstfault.scan.stretch import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from firstfault.model.blackbox import BoxRecord
    from firstfault.model.evidence import Source, SourceId
    from firstfault.model.gpu_course import GpuCourse
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.open import Opened
    from firstfault.readers.store import Store
    from firstfault.scan.results import ScanResult, SourceScan
    from firstfault.signatures.library import Library

BANNER = "launcher.torchrun_banner"
"""Prefix of the signatures of lines of torchrun's list of failures."""
OWN_NUMBERS = frozenset({SourceKind.AISTORE, SourceKind.BLACK_BOX})
"""Kinds of files whose names are not the job's numbering: of daemons, and with process ids."""
NEIGHBOURHOODS = 48
"""Places in a large source around which progress is looked for."""
NEXT_STEPS = 4
"""Signs of progress read after each such place."""
STACK = "python.stack_of_thread"
"""Signature of the line that begins a thread in a dump of stacks."""
TABLES = frozenset({SourceKind.METRICS, SourceKind.LOG})
"""Kinds of sources that may be tables of GPU counters."""
COURSE_BYTES = 32 << 20
"""Bytes at the end of such a table that are read."""
STACK_BYTES = 64 << 20
BEHIND_LAST = 64 << 10
"""Bytes behind the head of the last thread that may still be of its stack."""
MOST_SHARED = 100_000
"""Hits beyond which one process reads on alone: a copy holds what is being read twice for a moment."""
UNREAD = {
    SourceKind.METRICS: "metrics, which are not read yet",
    SourceKind.CONFIG: "source code, settings or a document, not a log",
}
"""Kinds of files that are opened and that no reader takes anything from; nobody may believe that they were looked at."""


class Observed(NamedTuple):
    """Observations, with what is needed to read on."""

    seen: Observations
    profiles: dict[SourceId, SourceProfile]
    clocks: dict[SourceId, SourceClock]


def observe(opened: Opened, result: ScanResult, library: Library, options: DiagnoseOptions) -> Observed:
    """Everything that the readers make of a scan."""
    events: list[Event] = []
    failures: list[Failure] = []
    samples: list[ProgressSample] = []
    nans: list[Event] = []
    store = opened.store
    read = [(s, r) for s in opened.sources if scanned(s) and (r := result.of(s.id)) is not None]
    profiles = {s.id: r.profile or profile_source(store.head(s.id, SAMPLE), s.path) for s, r in read}
    clocks = {s.id: SourceClock(store, s, profiles[s.id]) for s, _ in read}
    settle_clocks(list(clocks.values()))

    def piece(number: int) -> _Read:
        source, found = read[number]
        seen = _of_source(store, source, found, library, profiles[source.id], clocks[source.id])
        clocks[source.id].forget()
        return seen

    stacks: list[StackDump] = []
    for seen in shared(piece, len(read), _workers(read, options), _Read):
        events.extend(seen.events)
        failures.extend(seen.failures)
        samples.extend(seen.samples)
        nans.extend(seen.nans)
        stacks.extend(seen.stacks)
    recorded = read_dumps(store, opened.sources, inline=options.engine == "inline")
    box: tuple[BoxRecord, ...] = ()
    told: dict[str, Coverage] = {}
    if any(s.kind is SourceKind.BLACK_BOX for s in opened.sources):
        from firstfault.pipelines.boxes import read_boxes, without_stale

        boxes = read_boxes(store, opened.sources, library)
        box, told = boxes.records, boxes.coverage
        events.extend(boxes.events)
        stacks = without_stale(stacks, box, {s.id: s.path for s in opened.sources})
    # A daemon's logs may lie as a file here and as an archive there: their names are not the job's numbering.
    missing = missing_names(s.path for s in opened.sources if s.kind not in OWN_NUMBERS)
    memory = read_snapshots(store, opened.sources, inline=options.engine == "inline")
    courses = _courses(opened)
    observations = Observations(
        sources=opened.sources,
        events=tuple(in_zone(events, options.assume_zone)),
        failures=tuple(in_zone(failures, options.assume_zone)),
        progress=tuple(in_zone(samples, options.assume_zone)),
        nan_from=tuple(in_zone(nans, options.assume_zone)),
        coverage=_coverage(
            opened,
            result,
            missing,
            {**recorded.coverage, **memory.coverage, **told},
            {c.first.span.source for c in courses},
        ),
        place={i: p.who for i, p in profiles.items()},
        task_files={i: p.number for i, p in profiles.items() if p.number is not None},
        missing_files=missing,
        job_state=options.job_state,
        exit_code=options.exit_code,
        stacks=tuple(stacks),
        box=box,
        dumps=recorded.dumps,
        snapshots=memory.snapshots,
        courses=courses,
    )
    return Observed(observations, profiles, clocks)


def _workers(read: Sequence[tuple[Source, SourceScan]], options: DiagnoseOptions) -> int:
    """Processes that are worth their start: copies of this one for much text, unless there is too much to hand back."""
    if (
        options.engine == "inline"
        or sum(r.bytes for _, r in read) < MUCH
        or sum(len(r.hits) for _, r in read) > MOST_SHARED
    ):
        return 1
    return processors()


class _Read(Struct):
    """What the readers make of one source."""

    events: list[Event]
    failures: list[Failure]
    samples: list[ProgressSample]
    nans: list[Event]
    stacks: list[StackDump]


def _of_source(  # noqa: PLR0917
    store: Store, source: Source, found: SourceScan, library: Library, profile: SourceProfile, clock: SourceClock
) -> _Read:
    if source.kind is SourceKind.ERROR_JSON:
        read = read_error_file(store, source, library, profile)
        return _Read(read.events, read.failures, [], [], [])
    own = build_events(found.hits, store, source.id, profile, library.by_id, clock=clock)
    places = [(e.span.line, e.span.offset - e.span.column + 1) for e in own if e.signature.startswith(BANNER)]
    failures = read_banners(store, source.id, places, profile, clock=clock)
    failures.extend(f for f in map(failure_of_event, own) if f is not None)
    nan = nan_from(store, source.id, found.lines, clock)
    samples = _progress(store, found, profile, clock, _telling(own, library))
    stacks = _stacks(store, source, profile, own)
    return _Read(own, failures, samples, [] if nan is None else [nan], stacks)


def _stacks(store: Store, source: Source, profile: SourceProfile, events: Iterable[Event]) -> list[StackDump]:
    """Stack dumps: a file of them as a whole, in a log the stretch that holds some."""
    if source.kind is SourceKind.STACKS:
        return read_stacks(store.read(source.id, 0, STACK_BYTES), source.id, profile, path=source.path)
    heads = [e.span for e in events if e.signature == STACK]
    if not heads:
        return []
    first = min(heads, key=lambda s: s.offset)
    start = first.offset - first.column + 1
    end = min(max(s.offset for s in heads) + BEHIND_LAST, start + STACK_BYTES)
    return read_stacks(
        store.read(source.id, start, end - start), source.id, profile, path=source.path, offset=start, line=first.line
    )


def _telling(events: Iterable[Event], library: Library) -> list[Event]:
    """Events for which it matters whether the job went on after them."""
    wanted = []
    for event in events:
        spec = library.by_id.get(event.signature)
        if spec is None or spec.role in {Role.CAUSE, Role.EFFECT}:
            wanted.append(event)
    return wanted


def _progress(
    store: Store, found: SourceScan, profile: SourceProfile, clock: SourceClock, events: Sequence[Event]
) -> list[ProgressSample]:
    """Signs of training progress: all of a small source; of a large one those at its end and around telling events."""
    source = found.source
    if found.bytes <= MOST_BYTES:
        signs = find_progress(store.read(source, 0, found.bytes), source, profile=profile, clock=clock)
        return [s.sample for s in signs if s.kind == TRAINING]
    kept: dict[int, ProgressSample] = {}
    last = last_progress(store, source, found.lines, profile)
    if last is not None:
        kept[last.sample.offset] = last.sample
    step = max(1, len(events) // NEIGHBOURHOODS)
    for event in [*events[::step], *events[-2:]]:
        anchor = Anchor(event.span.offset, event.span.line)
        before = progress_before(store, source, anchor, profile, clock=clock)
        for sign in (*([before] if before else []), *progress_after(store, source, anchor, profile, most=NEXT_STEPS)):
            kept[sign.sample.offset] = sign.sample
    return [kept[offset] for offset in sorted(kept)]


def _courses(opened: Opened) -> tuple[GpuCourse, ...]:
    """Courses of the GPUs of all tables of their counters; of a very long one the end."""
    found: list[GpuCourse] = []
    for source in opened.sources:
        if source.kind not in TABLES:
            continue
        table = table_of(opened.store.head(source.id, HEAD))
        if table is None:
            continue
        size = opened.store.size(source.id)
        start, line = 0, 1
        if size > COURSE_BYTES:
            start = size - COURSE_BYTES
            step = 1 << 20
            line += sum(
                opened.store.read(source.id, at, min(step, start - at)).count(b"\n") for at in range(0, start, step)
            )
        data = opened.store.read(source.id, start, COURSE_BYTES)
        cut = data.find(b"\n") + 1 if start else 0
        host = read_name(source.path).who.host
        found += read_courses(
            data[cut:], source.id, table, host=host, offset=start + cut, line=line + (1 if cut else 0)
        )
    return tuple(found)


def _coverage(
    opened: Opened,
    result: ScanResult,
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
            rows[source.path] = Coverage(file=source.path, state=CoverageState.SKIPPED, reason=UNREAD[source.kind])
    for path, told in dumps.items():
        if rows[path].state is CoverageState.READ:
            rows[path] = told
    paths: dict[SourceId, str] = {s.id: s.path for s in opened.sources}
    for found in result.sources:
        if found.damage:
            path = paths[found.source]
            rows[path] = Coverage(file=path, state=CoverageState.DAMAGED, reason=found.damage, bytes=found.bytes)
    for name in missing:
        reason = "its neighbours in the numbering are here"
        rows.setdefault(name, Coverage(file=name, state=CoverageState.MISSING, reason=reason))
    return tuple(rows[name] for name in sorted(rows))
