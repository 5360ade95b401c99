"""Runs the readers over what the scan found in one source; infers nothing, and knows nothing of other sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import Event, Failure, ProgressSample, RanksNamed
from firstfault.model.stacks import StackDump
from firstfault.model.until import LEFT_OFF
from firstfault.model.words import Mark, Role, SourceKind
from firstfault.readers.banners import failure_of_event, read_banners
from firstfault.readers.events import build_events
from firstfault.readers.identity import locate
from firstfault.readers.nan import nan_from
from firstfault.readers.progress import (
    MOST_BYTES,
    Anchor,
    filled,
    find_progress,
    last_progress,
    not_the_last,
    progress_after,
    progress_before,
)
from firstfault.readers.steplines import EVALUATION, TRAINING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.model.evidence import Source
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.progress import Progress
    from firstfault.readers.store import Store
    from firstfault.scan.results import SourceScan
    from firstfault.signatures.library import Library

BANNER = "launcher.torchrun_banner"
"""Prefix of the signatures of lines of torchrun's list of failures."""
NEIGHBOURHOODS = 48
"""Places in a large source around which progress is looked for."""
NEXT_STEPS = 4
"""Signs of progress read after each such place."""
ALL_STEPS = 96 << 20
"""Bytes of all sources together of which every step is kept: each takes about as much memory as its line is long."""
STACK = "python.stack_of_thread"
"""Signature of the line that begins a thread in a dump of stacks."""
STACK_BYTES = 64 << 20
BEHIND_LAST = 64 << 10
"""Bytes behind the head of the last thread that may still be of its stack."""


class Read(Struct):
    """What the readers make of one source."""

    events: list[Event]
    failures: list[Failure]
    samples: list[ProgressSample]
    nans: list[Event]
    stacks: list[StackDump]
    named: list[RanksNamed] = []
    left_off: bool = False
    """Whether nobody read it, for want of time."""


UNREAD = Read([], [], [], [], [], left_off=True)


def largest_whole(sizes: Sequence[int]) -> int:
    """Bytes of a source up to which all of its steps are kept, so that a flood of small files costs no more than one large file.

    Args:
        sizes: of all sources, whatever they are.
    """
    small = [size for size in sizes if size <= MOST_BYTES]
    return MOST_BYTES if sum(small) <= ALL_STEPS else ALL_STEPS // len(small)


def read_source(  # noqa: PLR0917
    store: Store,
    source: Source,
    found: SourceScan,
    library: Library,
    profile: SourceProfile,
    clock: SourceClock,
    whole: int = MOST_BYTES,
) -> Read:
    """What the readers make of one source.

    Args:
        store: of all sources.
        source: which one.
        found: what the scan found in it.
        library: the signatures.
        profile: of the source.
        clock: of the source, settled with the others.
        whole: bytes of a source up to which all of its steps are kept; see `largest_whole`.
    """
    if source.kind is SourceKind.ERROR_JSON:
        from firstfault.pipelines.error_files import read_error_file

        read = read_error_file(store, source, library, profile)
        return Read(read.events, read.failures, [], [], [])
    if source.kind is SourceKind.SCHEDULER:
        from firstfault.pipelines.objects import holds_objects, read_objects

        if holds_objects(store, source):
            return Read(read_objects(store, source, library, profile, clock), [], [], [], [])
    own = build_events(found.hits, store, source.id, profile, library.by_id, clock=clock)
    places = [(e.span.line, e.span.offset - e.span.column + 1) for e in own if e.signature.startswith(BANNER)]
    failures = read_banners(store, source.id, places, profile, clock=clock)
    failures.extend(f for f in map(failure_of_event, own) if f is not None)
    # Lines are counted back from the end, which nobody has seen where the scan was left off.
    nan = None if _left_off(found) else nan_from(store, source.id, found.lines, clock)
    samples = _progress(store, found, profile, clock, _telling(own, library), whole)
    stacks = _stacks(store, source, profile, own)
    return Read(own, failures, samples, [] if nan is None else [nan], stacks, _named(found, profile, library))


def _left_off(found: SourceScan) -> bool:
    return found.damage in LEFT_OFF


def _named(found: SourceScan, profile: SourceProfile, library: Library) -> list[RanksNamed]:
    """The ranks that say alike who they are, or whose ends are told alike, more of them than lines are kept of."""
    listed = []
    for (signature, key), ranks in found.named.items():
        spec = library.by_id.get(signature)
        hit = next((h for h in found.hits if h.signature == signature and h.key == key), None)
        if hit is None or spec is None:
            continue
        tasks = "task" in hit.fields and Mark.DEATH in spec.marks
        if Mark.IDENTITY in spec.marks or tasks:
            place = hit.place or locate(hit.raw, hit.match_start, profile)
            listed.append(RanksNamed(source=found.source, who=place.who, ranks=ranks, tasks=tasks))
    return listed


def _stacks(store: Store, source: Source, profile: SourceProfile, events: Iterable[Event]) -> list[StackDump]:
    """Stack dumps: a file of them as a whole, in a log the stretch that holds some."""
    heads = [e.span for e in events if e.signature == STACK]
    whole = source.kind is SourceKind.STACKS
    if not whole and not heads:
        return []
    from firstfault.readers.stacks import read_stacks

    if whole:
        return read_stacks(store.read(source.id, 0, STACK_BYTES), source.id, profile, path=source.path)
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


def _progress(  # noqa: PLR0917
    store: Store, found: SourceScan, profile: SourceProfile, clock: SourceClock, events: Sequence[Event], whole: int
) -> list[ProgressSample]:
    """Signs of training progress: all of a small source; of a large one those at its end and around telling events."""
    source = found.source
    if found.bytes <= whole:
        steps: list[ProgressSample] = []
        sign: Progress | None = None
        for sign in find_progress(store.read(source, 0, found.bytes), source, profile=profile, clock=clock):
            if sign.kind == TRAINING:
                steps.append(sign.sample)
        return not_the_last(steps, sign)
    kept: dict[int, ProgressSample] = {}
    last = None if _left_off(found) else last_progress(store, source, found.lines, profile)
    if last is not None:
        kept[last.sample.offset] = last.sample
    step = max(1, len(events) // NEIGHBOURHOODS)
    for event in [*events[::step], *events[-2:]]:
        anchor = Anchor(event.span.offset, event.span.line)
        before = progress_before(store, source, anchor, profile, clock=clock)
        for sign in (*([before] if before else []), *progress_after(store, source, anchor, profile, most=NEXT_STEPS)):
            kept[sign.sample.offset] = sign.sample
    steps = [kept[offset] for offset in sorted(kept)]
    if last is None or not filled(last.sample):
        return steps
    return not_the_last(steps, last_progress(store, source, found.lines, profile, kind=EVALUATION))
