"""Tells the attempts (starts) of one job apart.

A job is started again by its scheduler (requeue), its launcher (elastic restart) or a person who appends to the
same file. A start line alone is no new attempt: it must follow a failure, or say that it is a restart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.order import first
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, SourceId

_FOLDER = re.compile(r"(?:^|/)attempt_(\d+)/")
_JOB = re.compile(r"^(?:slurm|job|error|err|out|output|log|std(?:out|err))[-_.](\d{4,9})(?=[-_.])", re.IGNORECASE)
_FAILED = frozenset({Mark.DEATH, Mark.STOP_SIGNAL, Mark.ABORT})


class Attempts:
    """Which attempt a place in a source belongs to; attempts are numbered from 1."""

    def __init__(self, case: Case) -> None:
        by_source: dict[SourceId, list[Event]] = {}
        for event in case.events:
            by_source.setdefault(event.span.source, []).append(event)
        self._folder = {s: _folder_attempt(path) for s, path in case.paths.items()}
        jobs = {s: _job_of(path) for s, path in case.paths.items()}
        several = sorted({j for j in jobs.values() if j is not None})
        if len(several) > 1:
            # Files of several jobs of one scheduler: each job is an attempt, the higher number the later one.
            self._folder = {s: several.index(j) if j is not None else len(several) - 1 for s, j in jobs.items()}
        numbers = [f for f in self._folder.values() if f is not None]
        self._lowest = min(numbers, default=0)
        self.cuts = {s: boundaries(case, es) for s, es in by_source.items() if self._folder.get(s) is None}
        self._longest = max((self.cuts[s] for s in sorted(self.cuts)), key=len, default=[])
        self.total = max([1, len(self._longest) + 1, *(n - self._lowest + 1 for n in numbers)])

    def of(self, event: Event) -> int:
        """Number of the attempt in which an event happened."""
        place = self.at(event.span.source, event.span.offset)
        return _by_time(event, self._longest, self.total) if place is None else place

    def at(self, source: SourceId, offset: int) -> int | None:
        """Number of the attempt at a place; None where the source itself shows no restart and others do."""
        folder = self._folder.get(source)
        if folder is not None:
            return folder - self._lowest + 1
        cuts = self.cuts.get(source, [])
        if len(cuts) + 1 == self.total:
            return 1 + sum(1 for cut in cuts if cut.span.offset <= offset)
        return None

    def number(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """The events with their attempt set."""
        return tuple(replace(e, attempt=self.of(e)) for e in events)


def boundaries(case: Case, events: Sequence[Event]) -> list[Event]:
    """Events of one source at which a new attempt begins, in order.

    A line with mark `attempt` begins one where the job had started before it; a line with mark `start` begins one
    where a process was reported dead or stopped since the last beginning. Start lines of several ranks are one start.
    """
    found: list[Event] = []
    failed = False
    started = False
    for event in events:
        spec = case.spec(event)
        marks = () if spec is None else spec.marks
        if Mark.ATTEMPT in marks:
            if started and failed:
                found.append(event)
                started = False
            failed = False
        elif Mark.START in marks:
            if failed and started:
                found.append(event)
            failed = False
            started = True
        elif any(m in _FAILED for m in marks):
            failed = True
    return found


def _job_of(path: str) -> int | None:
    """Job number in the name of a scheduler's output file; None where there is none."""
    found = _JOB.search(path.rsplit("/", 1)[-1].rsplit("!", 1)[-1])
    return int(found.group(1)) if found else None


def _folder_attempt(path: str) -> int | None:
    found = _FOLDER.search(path)
    return int(found.group(1)) if found else None


def _by_time(event: Event, cuts: Sequence[Event], total: int) -> int:
    """Attempt of an event whose own source shows no restart: by the clock, else the last."""
    n = 1
    for cut in cuts:
        order = first(cut, event)
        if order is None:
            return total
        if order:
            n += 1
    return min(n, total)
