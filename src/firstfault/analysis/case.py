"""All observations of one incident, indexed for the questions; holds no opinion."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.far import PLATFORMS
from firstfault.analysis.order import Clock, clock_of, exact
from firstfault.analysis.state.progress import Track
from firstfault.model.blackbox import BoxRecord
from firstfault.model.evidence import (
    Coverage,
    Event,
    Failure,
    ProgressSample,
    RanksNamed,
    Source,
    SourceId,
    When,
    Who,
)
from firstfault.model.gpu_course import GpuCourse
from firstfault.model.memory import MemorySnapshot
from firstfault.model.recorder import RankDump
from firstfault.model.stacks import StackDump
from firstfault.model.words import Mark, Role, SourceKind

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from firstfault.analysis.nature import Nature
    from firstfault.model.patterns import SignatureFile
    from firstfault.signatures.library import Library

GENERIC_EXCEPTION = "python.exception"
BARE_EXCEPTION = "python.exception_line"
TRACEBACK_START = "python.traceback_start"
"""Signature of a traceback whose last line is not there."""


STILL, STILL_STEPS, STILL_LONGEST = 600.0, 20.0, 3.0
"""How long a job must have made no step to have stood still: seconds, and multiples of its usual and its longest step
(the longest holds what it does between steps: saving, evaluation)."""


class Observations(Struct, frozen=True, kw_only=True):
    """What the readers saw; the only input of the analysis."""

    sources: tuple[Source, ...]
    events: tuple[Event, ...]
    failures: tuple[Failure, ...] = ()
    named: tuple[RanksNamed, ...] = ()
    """Ranks that floods of lines name, of which not every line is an event."""
    progress: tuple[ProgressSample, ...] = ()
    nan_from: tuple[Event, ...] = ()
    """For each source whose training signs are NaN to the end: the first line of that run."""
    coverage: tuple[Coverage, ...] = ()
    place: dict[SourceId, Who] = {}
    """What the place (path) of each source tells."""
    task_files: dict[SourceId, int] = {}
    """Number in the name of a source that a scheduler writes for each task (`%t`): a task or a node, which is not said."""
    missing_files: tuple[str, ...] = ()
    """Names that a numbering of the files leads to expect and that are not there."""
    cut: dict[SourceId, int] = {}
    """Number of the last line of each source in which it has no end: such a source was cut, or still written."""
    empty: dict[str, tuple[Who, int | None]] = {}
    """What the names of files without a byte tell, by shown path: who, and a task's or node's number."""
    job_state: str | None = None
    """The scheduler's word for how the job ended, where the user gave it; of one attempt, also where a record states it."""
    exit_code: int | None = None
    """The job's exit code, where the user gave it or, of one attempt, a record states it."""
    recorded: Event | None = None
    """The line of the scheduler's record from which the two above are; None where the user gave them."""
    stacks: tuple[StackDump, ...] = ()
    """Stack dumps; somebody takes them at the end, so they are of the last attempt."""
    dumps: tuple[RankDump, ...] = ()
    """Flight-recorder dumps; a rerun overwrites them, so they are of the last attempt."""
    courses: tuple[GpuCourse, ...] = ()
    """Courses of GPU counters; a monitor runs on, so what they tell of the end is of the last attempt."""
    box: tuple[BoxRecord, ...] = ()
    """What the recorder of the job wrote, of its last start."""
    snapshots: tuple[MemorySnapshot, ...] = ()
    """Memory snapshots; nothing inside tells of which attempt, so they are of the last."""


class Case:
    """Observations of one attempt (or of all), with indexes."""

    def __init__(self, seen: Observations, library: Library) -> None:
        self.seen = seen
        self.library = library
        self.events = tuple(sorted(seen.events, key=position))
        self.plain: dict[str, Nature] = {}
        """Natures of signatures of which every line without an exception has the same one."""
        self.natures: dict[tuple[str, str | None], Nature] = {}
        """What was made of signatures and rows of vendor tables (see `firstfault.analysis.suspects.nature_of`)."""
        self._by_marks: dict[tuple[Mark, ...], frozenset[str]] = {}

    def spec(self, event: Event) -> SignatureFile | None:
        """Signature body of an event; None for a traceback that no signature knows."""
        return self.library.by_id.get(event.signature)

    def role(self, event: Event) -> Role:
        """Role of an event's line, with the vendor table's word over the signature's."""
        spec = self.spec(event)
        if spec is None:
            return Role.CAUSE
        if spec.table:
            row = self.library.row(spec.table, event.fields.get(spec.table, ""))
            if row is not None and row.role is not None:
                return row.role
        return spec.role

    def depth(self, event: Event) -> int:
        """How near to the root an event of this kind is; 50 for a plain exception."""
        spec = self.spec(event)
        if spec is None:
            return 50
        if spec.table:
            row = self.library.row(spec.table, event.fields.get(spec.table, ""))
            if row is not None and row.depth is not None:
                return row.depth
        return spec.depth

    def marked(self, *marks: Mark) -> tuple[Event, ...]:
        """Events whose signature carries one of the marks, in order of position."""
        return self.of(self.signatures_with(*marks))

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Places in `events` of those of each signature: of a thousand ranks' lines most questions ask about a few kinds."""
        found: dict[str, list[int]] = {}
        for place, event in enumerate(self.events):
            found.setdefault(event.signature, []).append(place)
        return found

    @property
    def signatures(self) -> Iterable[str]:
        """Ids that stand in the events."""
        return self._places.keys()

    @cached_property
    def uniform(self) -> frozenset[str]:
        """Those of which all events are of one nature: no exception is told with any, and no table refines them."""
        specs = self.library.by_id
        plain = {s for s in self._places if s in specs and not specs[s].table}
        return frozenset(plain - {e.signature for e in self.events if e.exception is not None})

    def one_of(self, signature: str) -> Event:
        """The first event of a signature that is among `signatures`."""
        return self.events[self._places[signature][0]]

    def of(self, wanted: Container[str]) -> tuple[Event, ...]:
        """Events of some signatures, in order of position."""
        places = [places for signature, places in self._places.items() if signature in wanted]
        # Each list is ascending, and sorting what is made of such costs little more than to merge them.
        chosen = places[0] if len(places) == 1 else sorted(chain.from_iterable(places))
        return tuple(map(self.events.__getitem__, chosen))

    @cached_property
    def _by_mark(self) -> dict[Mark, frozenset[str]]:
        found: dict[Mark, set[str]] = {m: set() for m in Mark}
        for name, spec in self.library.by_id.items():
            for mark in spec.marks:
                found[mark].add(name)
        return {m: frozenset(ids) for m, ids in found.items()}

    def signatures_with(self, *marks: Mark) -> frozenset[str]:
        """Ids of the signatures that carry one of the marks."""
        known = self._by_marks.get(marks)
        if known is None:
            known = self._by_marks[marks] = frozenset().union(*(self._by_mark[m] for m in marks))
        return known

    def has(self, event: Event, mark: Mark) -> bool:
        """Whether an event's signature carries a mark."""
        return event.signature in self._by_mark[mark]

    @cached_property
    def marked_spawn(self) -> bool:
        """Whether torch.multiprocessing.spawn started the processes: then they run on one machine each call."""
        return any(s.startswith("launcher.spawn_") for s in self.signatures)

    @cached_property
    def tracks(self) -> dict[SourceId, Track]:
        """Progress of each source that has any."""
        by_source: dict[SourceId, list[ProgressSample]] = {}
        for sample in self.seen.progress:
            by_source.setdefault(sample.source, []).append(sample)
        return {source: Track(tuple(samples)) for source, samples in by_source.items()}

    @cached_property
    def _onward(self) -> dict[Clock, list[tuple[float, SourceId]]]:
        """Per clock the two sources whose last step but one began latest, with that time."""
        best: dict[Clock, list[tuple[float, SourceId]]] = {}
        for source, track in self.tracks.items():
            when, until = track.last.when, track.stepped_until
            if until is not None and exact(when):
                row = best.setdefault(clock_of(when), [])
                row.append((until, source))
                row.sort(reverse=True)
                del row[2:]
        return best

    def stepped_elsewhere(self, event: Event, after: float) -> bool:
        """Whether another source, on the clock of an event, made more than one step later than a time."""
        if after >= self._furthest:
            return False
        row = self._onward.get(clock_of(event.when), ())
        return any(until > after and source != event.span.source for until, source in row)

    @cached_property
    def _furthest(self) -> float:
        """The latest time in `_onward`, whatever the clock: nobody made a step after it."""
        return max((until for row in self._onward.values() for until, _ in row), default=float("-inf"))

    def stood_still(self, event: Event) -> float | None:
        """Seconds for which no log had made a step when an event came, where that is far longer than any step took.

        Returns:
            None where steps went on until about then, or where their times do not tell.
        """
        if not exact(event.when) or event.when.earliest is None:
            return None
        paces = [
            track.pace
            for track in self.tracks.values()
            if track.pace is not None and clock_of(track.last.when) == clock_of(event.when)
        ]
        if not paces or any(track.pace is None for track in self.tracks.values()):
            return None
        still = event.when.earliest - max(last for last, _, _ in paces)
        usual, longest = max(gap for _, gap, _ in paces), max(gap for _, _, gap in paces)
        return still if still > max(STILL, STILL_STEPS * usual, STILL_LONGEST * longest) else None

    @cached_property
    def kind_of(self) -> dict[SourceId, SourceKind]:
        """Kind of each source."""
        return {s.id: s.kind for s in self.seen.sources}

    @cached_property
    def job_days(self) -> tuple[float, float] | None:
        """First and last date of the job's steps and failures, whatever their zone; None where none has a whole date.

        Lines of the start are left out: they may be a container's or a copy's, of any day.
        """
        told = self.signatures_with(Mark.DEATH, Mark.HANG, Mark.ABORT, Mark.STOP_SIGNAL)
        whens = [
            e.when
            for e in self.events
            if self.kind_of.get(e.span.source) is SourceKind.LOG
            and (e.exception is not None or e.signature in told)
            and e.signature.split(".", 1)[0] not in PLATFORMS
        ]
        whens += [p.when for p in self.seen.progress]
        whens += [f.when for f in self.seen.failures]
        known = [w.earliest for w in whens if w.earliest is not None and w.dated and w.yeared and exact(w)]
        return (min(known), max(known)) if known else None

    @cached_property
    def reported_end(self) -> When | None:
        """When the job was last reported to have died, by a launcher or by stamped tracebacks that nobody caught.

        Returns:
            None where neither tells a time, where a log shows life after it, or where a time-out may lie between the fault
            and the end.
        """
        whens = [f.when for f in self.seen.failures]
        whens += [
            e.when
            for e in self.events
            if e.exception is not None
            and e.exception.frames
            and e.exception.frames[0].function == "<module>"
            and self.kind_of.get(e.span.source) is SourceKind.LOG
        ]
        known = [w for w in whens if w.earliest is not None and w.dated and w.yeared and exact(w)]
        if not known or len({clock_of(w) for w in known}) > 1 or self.marked(Mark.HANG):
            return None
        last = max(known, key=lambda w: w.earliest or 0.0)
        alive = self.job_days
        return last if alive is not None and alive[1] <= (last.latest or 0.0) + 1.0 else None

    @cached_property
    def first_error(self) -> float | None:
        """The earliest time at which a traceback of a job's log can have been printed; None where one may be of any time."""
        begun = [
            e.when.earliest
            for e in self.events
            if e.exception is not None and self.kind_of.get(e.span.source) is SourceKind.LOG
        ]
        known = [b for b in begun if b is not None]
        return min(known) if known and len(known) == len(begun) else None

    @cached_property
    def size_of(self) -> dict[SourceId, int | None]:
        """Bytes of each source; None where nobody counted them."""
        return {s.id: s.size for s in self.seen.sources}

    @cached_property
    def paths(self) -> dict[SourceId, str]:
        """Shown path of each source."""
        return {s.id: s.path for s in self.seen.sources}


def position(event: Event) -> tuple[int, int, str]:
    """Sort key: source (sorted by path), byte offset, signature."""
    return (event.span.source, event.span.offset, event.signature)
