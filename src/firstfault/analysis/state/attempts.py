"""Tells the attempts (starts) of one job apart.

A job is started again by its scheduler (requeue), its launcher (elastic restart) or a person who appends to the
same file. A start line alone, even one that speaks of a restart, is no new attempt: it must follow a start and a failure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.order import Clock, clock_of, exact
from firstfault.model.evidence import Event, Span
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import SourceId, When

_FOLDER = lazy(r"(?:^|/)attempt_(\d+)/")
_NUMBERED = lazy(r"^(slurm|job|error|err|out|output|log|std(?:out|err))[-_.](\d+)(?=[-_.])", re.IGNORECASE)
_JOB = lazy(r"[1-9]\d{3,8}")
"""A scheduler's job number: never padded, and of at least four digits, unlike the number of a rank or a node."""
SLACK = 1.0
"""Seconds by which a launcher's line may come before the first line of the attempt that it belongs to."""
GRACE = 600.0
"""Seconds after an order to stop from which on a step is one of another attempt; grace times are shorter."""
STEPS = 2
_FAILED = frozenset({Mark.DEATH, Mark.STOP_SIGNAL, Mark.ABORT})


class Attempts:
    """Which attempt a place in a source belongs to; attempts are numbered from 1."""

    def __init__(self, case: Case) -> None:
        by_source: dict[SourceId, list[Event]] = {}
        for event in case.events:
            by_source.setdefault(event.span.source, []).append(event)
        self._folder = {s: _folder_attempt(path) for s, path in case.paths.items()}
        jobs = _jobs(case.paths)
        several = sorted({j for j in jobs.values() if j is not None})
        if len(several) > 1:
            # Files of several jobs of one scheduler: each job is an attempt, the higher number the later one.
            # A file without a number (a kernel log, a daemon's) is of no job by its name: each line is placed by its time.
            self._folder = {s: None if j is None else several.index(j) for s, j in jobs.items()}
        numbers = sorted({f for f in self._folder.values() if f is not None})
        # By place among those that are there: a number that is far off (a date, a damaged name) makes no attempts between.
        self._number_of = {f: n for n, f in enumerate(numbers, start=1)}
        self.cuts = {s: boundaries(case, es) for s, es in by_source.items() if self._folder.get(s) is None}
        for source, cuts in self.cuts.items():
            self.cuts[source] = sorted(
                [*cuts, *resumed(case, by_source[source], cuts)], key=lambda e: (e.span.source, e.span.offset)
            )
        longest = max((self.cuts[s] for s in sorted(self.cuts)), key=len, default=[])
        self.total = max(1, len(longest) + 1, len(numbers))
        self._starts = self._start_times(case)

    def _start_times(self, case: Case) -> dict[Clock, dict[int, float]]:
        """On each clock the earliest time stated in the sources of each attempt that have a number of their own."""
        starts: dict[Clock, dict[int, float]] = {}
        if self.total == 1:
            return starts  # nothing to tell apart
        stated = [(e.span.source, e.span.offset, e.when) for e in case.events]
        stated += [(p.source, p.offset, p.when) for p in case.seen.progress]
        for source, offset, when in stated:
            number = self._place(source, offset)
            if number is not None and when.earliest is not None and when.dated and exact(when):
                own = starts.setdefault(clock_of(when), {})
                own[number] = min(own.get(number, when.earliest), when.earliest)
        return starts

    def of(self, event: Event) -> int:
        """Number of the attempt in which an event happened."""
        return self.at(event.span.source, event.span.offset, event.when)

    def at(self, source: SourceId, offset: int, when: When) -> int:
        """Number of the attempt at a place: by the source's own restarts, else by the clock, else the last one."""
        if self.total == 1:
            return 1
        place = self._place(source, offset)
        if place is not None:
            return place
        starts = self._starts.get(clock_of(when))
        if when.earliest is None or starts is None:
            return self.total
        before = [n for n, start in starts.items() if start <= when.earliest + SLACK]
        return max(before, default=1)

    def _place(self, source: SourceId, offset: int) -> int | None:
        folder = self._folder.get(source)
        if folder is not None:
            return self._number_of[folder]
        cuts = self.cuts.get(source, [])
        if len(cuts) + 1 == self.total:
            return 1 + sum(1 for cut in cuts if cut.span.offset <= offset)
        return None

    def number(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """The events with their attempt set."""
        return tuple(replace(e, attempt=self.of(e)) for e in events)


def boundaries(case: Case, events: Sequence[Event]) -> list[Event]:
    """Events of one source at which a new attempt begins, in order.

    A line with mark `attempt` or `start` begins one where the job had started before it and a process was reported dead
    or stopped since. Start lines of several ranks are one start.
    """
    found: list[Event] = []
    failed = False
    started = False
    attempt, start = case.signatures_with(Mark.ATTEMPT), case.signatures_with(Mark.START)
    ended = case.signatures_with(*_FAILED)
    for event in events:
        signature = event.signature
        if signature in attempt:
            if started and failed:
                found.append(event)
                started = False
            failed = False
        elif signature in start:
            if failed and started:
                found.append(event)
            failed = False
            started = True
        elif signature in ended:
            failed = True
    return found


def resumed(case: Case, events: Sequence[Event], cuts: Sequence[Event]) -> list[Event]:
    """First steps of attempts that begin without a start line: long after the scheduler had stopped the job before.

    An order to stop is carried out within a grace time; steps that come much later are those of a requeued job.
    """
    track = case.tracks.get(events[0].span.source)
    found: list[Event] = []
    if track is None:
        return found
    for event in events:
        if not case.has(event, Mark.STOP_SIGNAL) or not exact(event.when) or event.when.latest is None:
            continue
        later = [s for s in track.samples if s.offset > event.span.offset and exact(s.when)]
        if len(later) < STEPS or clock_of(later[0].when) != clock_of(event.when) or later[0].when.earliest is None:
            continue
        if later[0].when.earliest - event.when.latest < GRACE:
            continue
        at = later[0].offset
        if any(event.span.offset < c.span.offset <= at for c in (*cuts, *found)):
            continue
        span = Span(events[0].span.source, at, 0, later[0].line, 1)
        found.append(Event(signature="progress", span=span, text="", when=later[0].when))
    return found


def _jobs(paths: Mapping[SourceId, str]) -> dict[SourceId, int | None]:
    """Job numbers in the names of a scheduler's output files; None where there is none.

    Where names of one kind also hold numbers that can be no job's (`log_0001`, `out_7`), all of them count ranks or nodes.
    """
    found = {s: _NUMBERED.search(path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]) for s, path in paths.items()}
    counters = {m.group(1).lower() for m in found.values() if m is not None and not _JOB.fullmatch(m.group(2))}
    return {
        s: int(m.group(2)) if m is not None and m.group(1).lower() not in counters else None for s, m in found.items()
    }


def _folder_attempt(path: str) -> int | None:
    found = _FOLDER.search(path)
    return int(found.group(1)) if found else None
