"""Tells the attempts (starts) of one job apart.

A job is started again by its scheduler (requeue), its launcher (elastic restart) or a person who appends to the
same file or leaves the files of an earlier run beside the new ones. A start line alone, even one that speaks of a restart, is no new attempt: it must follow a start and a failure.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.far import ZONES
from firstfault.analysis.order import Clock, clock_of, exact
from firstfault.analysis.state.neighbours import neighbours
from firstfault.model.evidence import Event, Span, When
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import ProgressSample, RanksNamed, SourceId

_FOLDER = lazy(r"(?:^|/)attempt_(\d+)/")
_FILE = lazy(r"(?<![a-z])(?:attempt|restart|requeue|retry)[-_.]?(\d{1,3})(?!\d)", re.IGNORECASE)
"""Number of an attempt in the name of a file that holds one."""
SLACK = 1.0
"""Seconds by which a launcher's line may come before the first line of the attempt that it belongs to."""
GRACE = 600.0
"""Seconds after an order to stop from which on a step is one of another attempt; grace times are shorter."""
STEPS = 2
COUNT = "value"
"""Field of a line about a restart that counts the restarts: it is the same in the lines of all agents."""
_FAILED = frozenset({Mark.DEATH, Mark.STOP_SIGNAL, Mark.ABORT})


class Attempts:
    """Which attempt a place in a source belongs to; attempts are numbered from 1."""

    def __init__(self, case: Case) -> None:
        by_source: dict[SourceId, list[Event]] = {}
        for event in case.events:
            by_source.setdefault(event.span.source, []).append(event)
        self._folder = {s: _folder_attempt(path) for s, path in case.paths.items()}
        if all(number is None for number in self._folder.values()):
            self._folder = _numbered_files(case)
        self.neighbours = neighbours(case)
        if self.neighbours.names:
            # Files of several jobs of one scheduler: each job is an attempt, the higher number the later one.
            # A file without a number (a kernel log, a daemon's) is of no job by its name: a line that names one is its,
            # and any other is placed by its time.
            self._folder = {s: self.neighbours.place.get(s) for s in case.paths}
        numbers = sorted({f for f in self._folder.values() if f is not None})
        # By place among those that are there: a number that is far off (a date, a damaged name) makes no attempts between.
        self._number_of = {f: n for n, f in enumerate(numbers, start=1)}
        self.cuts = {s: boundaries(case, es) for s, es in by_source.items() if self._folder.get(s) is None}
        for source, cuts in self.cuts.items():
            own = by_source[source]
            cuts = sorted([*cuts, *resumed(case, own, cuts)], key=lambda e: e.span.offset)  # noqa: PLW2901
            self.cuts[source] = sorted([*cuts, *restarted(case, own, cuts)], key=lambda e: e.span.offset)
        if not numbers and not any(self.cuts.values()):
            self._folder = {**self._folder, **separate_starts(case)}
            self._number_of = {
                n: n + 1 for n in range(1 + max((n for n in self._folder.values() if n is not None), default=-1))
            }
            numbers = sorted(self._number_of)
        longest = max((self.cuts[s] for s in sorted(self.cuts)), key=len, default=[])
        self.total = max(1, len(longest) + 1, len(numbers))
        stated = [] if self.total == 1 else self._stated(case)
        self._starts = _start_times(stated)
        self.abreast = self.neighbours.array or (
            bool(self.neighbours.names)
            and (_overlap(stated) or (self.neighbours.listed(case) and not _in_turn(stated, self.total)))
        )
        """Whether these are jobs of which none is known to be the successor of another: they ran side by side, or may have."""

    def _stated(self, case: Case) -> list[tuple[Clock, int, float]]:
        """Times that are stated in the sources of each attempt that have a number of their own."""
        stated = [(e.span.source, e.span.offset, e.when) for e in case.events]
        stated += [(p.source, p.offset, p.when) for p in case.seen.progress]
        return [
            (clock_of(when), number, when.earliest)
            for source, offset, when in stated
            if (number := self._place(source, offset)) is not None
            and when.earliest is not None
            and when.dated
            and exact(when)
        ]

    @property
    def only(self) -> bool:
        """Whether there is one attempt, and every line is of it."""
        return self.total == 1 and not self.neighbours.names

    def of(self, event: Event) -> int:
        """Number of the attempt in which an event happened."""
        if self.neighbours.names and self._folder.get(event.span.source) is None:
            named = self.neighbours.of_row(event)
            if named is not None:
                return self._number_of[named]
        return self.at(event.span.source, event.span.offset, event.when)

    def at(self, source: SourceId, offset: int, when: When) -> int:
        """Number of the attempt at a place: by the source's own restarts, else by the clock, else the last one."""
        if self.total == 1:
            return 1
        place = self._place(source, offset)
        if place is not None:
            return place
        starts = self._starts.get(clock_of(when))
        # A line in front of the first stamp of its file has only an end: it is of no later attempt than that stamp.
        moment = when.latest if when.earliest is None else when.earliest
        if moment is None or starts is None:
            return self.total
        before = [n for n, start in starts.items() if start <= moment + SLACK]
        return max(before, default=1)

    def _place(self, source: SourceId, offset: int) -> int | None:
        folder = self._folder.get(source)
        if folder is not None:
            return self._number_of[folder]
        cuts = self.cuts.get(source, [])
        if len(cuts) + 1 == self.total:
            return 1 + sum(1 for cut in cuts if cut.span.offset <= offset)
        return None

    def of_named(self, named: RanksNamed, number: int) -> RanksNamed:
        """The ranks that floods of lines name in one attempt."""
        if self.total == 1:
            return named
        own = {
            rank: row
            for rank, row in named.ranks.items()
            if number in {self.at(named.source, row[0], When()), self.at(named.source, row[1], When())}
        }
        return replace(named, ranks=own)

    def number(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """The events with their attempt set."""
        return tuple(replace(e, attempt=self.of(e)) for e in events)


def _start_times(stated: Iterable[tuple[Clock, int, float]]) -> dict[Clock, dict[int, float]]:
    """On each clock the earliest time stated in each attempt."""
    starts: dict[Clock, dict[int, float]] = {}
    for clock, number, at in stated:
        own = starts.setdefault(clock, {})
        own[number] = min(own.get(number, at), at)
    return starts


def _spans(stated: Iterable[tuple[Clock, int, float]]) -> dict[Clock, dict[int, tuple[float, float]]]:
    """On each clock the first and the last time stated in each attempt."""
    spans: dict[Clock, dict[int, tuple[float, float]]] = {}
    for clock, number, at in stated:
        low, high = spans.setdefault(clock, {}).get(number, (at, at))
        spans[clock][number] = (min(low, at), max(high, at))
    return spans


def _overlap(stated: Iterable[tuple[Clock, int, float]]) -> bool:
    """Whether two attempts were at work at one time, by one clock: longer than a grace time, which one may need to end."""
    return any(
        min(one[1], other[1]) - max(one[0], other[0]) > GRACE
        for own in _spans(stated).values()
        for one, other in itertools.combinations(own.values(), 2)
    )


def _in_turn(stated: Iterable[tuple[Clock, int, float]], total: int) -> bool:
    """Whether some clock puts the attempts one after another."""
    return any(
        len(own) == total and all(own[n][1] <= own[n + 1][0] + GRACE for n in range(1, total))
        for own in _spans(stated).values()
    )


def boundaries(case: Case, events: Sequence[Event]) -> list[Event]:
    """Events of one source at which a new attempt begins, in order.

    A line with mark `attempt` or `start` begins one where the job had started before it and a process was reported dead
    or stopped since. Start lines of several ranks are one start, and so are the lines of several agents that count the
    same number of restarts.
    """
    found: list[Event] = []
    failed = False
    started = False
    counted: str | None = None
    attempt, start = case.signatures_with(Mark.ATTEMPT), case.signatures_with(Mark.START)
    ended = case.signatures_with(*_FAILED)
    for event in events:
        signature = event.signature
        if signature in attempt:
            count = event.fields.get(COUNT)
            if count is not None and count == counted:
                continue  # another agent's line about the restart that was told before
            if failed and (started or (count is not None and _ran(case, event, found))):
                found.append(event)
                started = False
                counted = count
            failed = False
        elif signature in start:
            if failed and started:
                found.append(event)
            failed = False
            started = True
        elif signature in ended:
            failed = True
    return found


def _ran(case: Case, event: Event, cuts: Sequence[Event]) -> bool:
    """Whether processes ran before a line about a restart, since the one before: they made steps, or raised something."""
    since = cuts[-1].span.offset if cuts else -1
    track = case.tracks.get(event.span.source)
    if track is not None and any(since < s.offset < event.span.offset for s in track.samples):
        return True
    return any(
        e.exception is not None and e.span.source == event.span.source and since < e.span.offset < event.span.offset
        for e in case.events
    )


def restarted(case: Case, events: Sequence[Event], cuts: Sequence[Event]) -> list[Event]:
    """First steps of attempts that nothing announces: a launcher's process had died, and steps that were made come again.

    An agent that starts its workers anew says so at a level that is hidden as a rule. Steps that are printed late are no
    such sign: their stamps lie before the death, or another rank had made them before.
    """
    track = case.tracks.get(events[0].span.source)
    found: list[Event] = []
    if track is None:
        return found
    for event in events:
        if not (case.has(event, Mark.DEATH) and case.has(event, Mark.CHILD)):
            continue
        before = [s for s in track.samples if s.offset < event.span.offset and s.step is not None]
        later = [s for s in track.samples if s.offset > event.span.offset and s.step is not None]
        if len(before) < STEPS or len(later) < STEPS:
            continue
        again = later[0]
        reached = max((s.step for s in before if s.step is not None and s.rank == again.rank), default=None)
        if reached is None or again.step is None or again.step > reached:
            continue
        if (
            exact(again.when)
            and exact(before[-1].when)
            and (again.when.earliest or 0.0) <= (before[-1].when.latest or 0.0)
        ):
            continue
        if any(before[-1].offset < c.span.offset <= again.offset for c in (*cuts, *found)):
            continue
        span = Span(events[0].span.source, again.offset, 0, again.line, 1)
        found.append(Event(signature="progress", span=span, text="", when=again.when))
    return found


def resumed(case: Case, events: Sequence[Event], cuts: Sequence[Event]) -> list[Event]:
    """First steps of attempts that begin without a start line, behind the scheduler's word that it stopped what ran before.

    An order to stop is carried out within a grace time, in which steps may still be made.
    """
    track = case.tracks.get(events[0].span.source)
    found: list[Event] = []
    if track is None:
        return found
    for event in events:
        if not case.has(event, Mark.STOP_SIGNAL):
            continue
        later = [s for s in track.samples if s.offset > event.span.offset and exact(s.when)]
        if len(later) < STEPS or not _anew(case, event, track.before(event.span.offset), later):
            continue
        at = later[0].offset
        if any(event.span.offset < c.span.offset <= at for c in (*cuts, *found)):
            continue
        span = Span(events[0].span.source, at, 0, later[0].line, 1)
        found.append(Event(signature="progress", span=span, text="", when=later[0].when))
    return found


def _anew(case: Case, stop: Event, before: ProgressSample | None, later: Sequence[ProgressSample]) -> bool:
    """Whether the steps behind an order to stop are those of another start.

    They come only after any grace time, or behind a checkpoint that was loaded since; or the order ended what ran before the
    first step of all, and they went on for longer.
    """
    source, last = stop.span.source, later[-1].when
    loads = (e.span.offset for e in case.marked(Mark.CHECKPOINT_LOAD) if e.span.source == source)
    if any(stop.span.offset < offset < later[0].offset for offset in loads):
        return True
    # A report without a stamp was written after the step above it.
    told = stop.when if exact(stop.when) else None if before is None else before.when
    if told is None or told.latest is None or clock_of(later[0].when) != clock_of(told):
        return False
    until = later[0].when if before is not None else last
    return until.earliest is not None and until.earliest - told.latest >= GRACE


def separate_starts(case: Case) -> dict[SourceId, int]:
    """The start to which each log belongs, from 0, where logs are of separate times and the later begin anew; else empty.

    A file of an earlier run that was left behind or set aside is no witness of the last one. A log that goes on where the
    one before it ended (set aside by size) makes the steps that come next, and no start.
    """
    spans: dict[SourceId, tuple[float, float, int, int, Clock]] = {}
    for source, track in case.tracks.items():
        dated = [s for s in track.samples if s.step is not None and _certain(s.when)]
        if not dated or case.kind_of.get(source) is not SourceKind.LOG:
            continue
        times = [s.when.earliest for s in dated if s.when.earliest is not None]
        steps = [s.step for s in dated if s.step is not None]
        spans[source] = (min(times), max(times), steps[0], steps[-1], clock_of(dated[0].when))
    if len({clock for *_, clock in spans.values()}) != 1:
        return {}
    before = _without_steps(case, min(spans.values()))
    found: dict[SourceId, int] = dict.fromkeys(before, 0)
    until, furthest, number = float("-inf"), -1, 0 if before else -1
    for source, (begun, ended, first_step, last_step, _) in sorted(spans.items(), key=lambda item: item[1]):
        if begun > until + ZONES:
            if number >= 0 and first_step > furthest >= 0:
                return {}
            number += 1
            furthest = -1
        until, furthest = max(until, ended), max(furthest, last_step)
        found[source] = number
    return found if number > 0 else {}


def _without_steps(case: Case, first: tuple[float, float, int, int, Clock]) -> list[SourceId]:
    """Logs of an error without steps, last stamped days before the first step of any other: a run that came to nothing.

    A rank's own log is none: it may be silent for days before it says a last word.
    """
    raised = {e.span.source for e in case.events if e.exception is not None}
    ranks = {s for s, who in case.seen.place.items() if who.rank is not None or who.local_rank is not None}
    asked = {s for s in raised - ranks if s not in case.tracks and case.kind_of.get(s) is SourceKind.LOG}
    times: dict[SourceId, list[When]] = {}
    for event in case.events if asked else ():
        if event.span.source in asked:
            times.setdefault(event.span.source, []).append(event.when)
    return sorted(s for s, whens in times.items() if _days_before(whens, first))


def _days_before(whens: Iterable[When], first: tuple[float, float, int, int, Clock]) -> bool:
    """Whether all times that lines of a log state are days before another began; a line without a stamp has that before it."""
    known = [(w, w.earliest) for w in whens if w.dated and w.yeared and w.earliest is not None]
    last = [at if w.latest is None else w.latest for w, at in known]
    return bool(known) and max(last) + ZONES < first[0] and all(clock_of(w) == first[-1] for w, _ in known)


def _certain(when: When) -> bool:
    return when.dated and when.yeared and exact(when)


def _folder_attempt(path: str) -> int | None:
    found = _FOLDER.search(path)
    return int(found.group(1)) if found else None


def _numbered_files(case: Case) -> dict[SourceId, int | None]:
    """Attempts by the names of logs (`attempt-2.log`), where several names differ in that number."""
    found: dict[SourceId, int | None] = dict.fromkeys(case.paths)
    for source, path in case.paths.items():
        named = _FILE.search(path.rsplit("/", 1)[-1].rsplit("!", 1)[-1])
        if named is not None and case.kind_of.get(source) is SourceKind.LOG:
            found[source] = int(named[1])
    return found if len({n for n in found.values() if n is not None}) > 1 else dict.fromkeys(case.paths)
