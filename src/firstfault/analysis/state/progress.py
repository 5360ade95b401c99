"""Progress of one source: did the job go on after a line?"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from firstfault.analysis.order import exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.evidence import GlobalRank, ProgressSample

STEPS_FOR_PACE = 4
"""Stamped steps from which on it is known how long a step takes."""
STEPS_THAT_ACQUIT = 2
"""A bar is redrawn once when it is closed, and one step may be in flight; two new steps prove that the job went on."""


class Track:
    """Progress samples of one source, in order of lines."""

    def __init__(self, samples: tuple[ProgressSample, ...]) -> None:
        self.samples = tuple(sorted(samples, key=lambda s: s.offset))
        self._offsets = [s.offset for s in self.samples]
        self._onward: dict[int, bool] = {}

    @property
    def last(self) -> ProgressSample:
        """The last sample."""
        return self.samples[-1]

    def went_on_after(self, offset: int) -> bool:
        """Whether at least two steps were made after a byte offset."""
        first = bisect_right(self._offsets, offset)
        known = self._onward.get(first)
        if known is None:
            known = self._onward[first] = self._went_on_from(first)
        return known

    def stepped_after(self, offset: int, rank: GlobalRank | None = None) -> bool:
        """Whether at least one step was made after a byte offset that was not made before it, where given by that rank."""
        at = bisect_right(self._offsets, offset)
        before = [s.step for s in self.samples[:at] if s.step is not None]
        reached = max(before, default=-1)
        later = (s for s in self.samples[at:] if rank is None or s.rank == rank)
        return any(s.step is not None and s.step > reached for s in later)

    def _went_on_from(self, first: int) -> bool:
        later = self.samples[first:]
        if not later:
            return False
        known = [s.step for s in later if s.step is not None]
        if not known:
            return len(later) > STEPS_THAT_ACQUIT
        before = [s.step for s in self.samples[:first] if s.step is not None]
        if not before:
            return len(set(known)) >= STEPS_THAT_ACQUIT
        reached = max(before)
        new = {s for s in known if s > reached}
        # A counter that starts again (a new epoch, another bar) is progress too, if it moves or is filled again.
        again = sum(1 for a, b in itertools.pairwise(_restarted(self.samples[:first], later)) if _moved(a, b))
        # One later line is not enough, however far it is: between two lines of a sparse log anything may have happened.
        return len(new) >= STEPS_THAT_ACQUIT or again >= STEPS_THAT_ACQUIT

    @cached_property
    def stepped_until(self) -> float | None:
        """The time at which the last step but one began: later than any time before it, two steps were seen.

        Returns:
            Seconds on the clock of the samples; None where no two steps have a time.
        """
        timed = sorted(((s.when.earliest, s.step) for s in self.samples if s.when.earliest is not None), key=_time)
        return next((at for at, step in reversed(timed) if step != timed[-1][1]), None)

    @cached_property
    def pace(self) -> tuple[float, float, float] | None:
        """Time of the last step, and the usual and the longest time between two steps that follow each other in the log.

        Returns:
            Seconds, the first on the clock of the samples; None where fewer than four steps carry a stamp.
        """
        timed = [
            s.when.earliest
            for s in self.samples
            if s.step is not None and s.when.earliest is not None and exact(s.when)
        ]
        if len(timed) < STEPS_FOR_PACE:
            return None
        gaps = sorted(b - a for a, b in itertools.pairwise(timed))
        return timed[-1], gaps[len(gaps) // 2], gaps[-1]

    def started_after(self, offset: int) -> bool:
        """Whether the first steps of all were made after a byte offset."""
        return bool(self.samples) and self._offsets[0] > offset

    def before(self, offset: int) -> ProgressSample | None:
        """The last sample before a byte offset."""
        at = bisect_left(self._offsets, offset)
        return self.samples[at - 1] if at else None

    @property
    def planned(self) -> int | None:
        """The planned number of steps that was stated last; None where none was."""
        return next((s.total for s in reversed(self.samples) if s.total is not None), None)

    @property
    def complete(self) -> bool:
        """Whether the last sample says that the planned number of steps was reached.

        A line of metrics behind a full bar states no total; it is taken for the bar's own where it is of its last step.
        """
        bar = next((s for s in reversed(self.samples) if s.total is not None), None)
        if bar is None or bar.total is None or bar.step is None or not bar.step >= bar.total > 1:
            return False
        return self.last is bar or self.last.step == bar.total


def _time(pair: tuple[float, int | None]) -> float:
    return pair[0]


def _restarted(before: Sequence[ProgressSample], later: Sequence[ProgressSample]) -> list[ProgressSample]:
    """The later samples without those that a rank is merely behind with: launchers copy the output of ranks in any order.

    Where lines are labelled, only what their rank had printed once before is a counter that starts again.
    """
    reached: dict[object, int] = {}
    for sample in before:
        speaker = _speaker(sample)
        if speaker is not None and sample.step is not None:
            reached[speaker] = max(sample.step, reached.get(speaker, -1))
    if not reached:
        return list(later)
    return [
        s for s in later if (speaker := _speaker(s)) is None or s.step is None or s.step <= reached.get(speaker, -1)
    ]


def _speaker(sample: ProgressSample) -> object:
    """The rank that the label of a line tells, as far as it does; None where it has no label."""
    if sample.rank is None and sample.local_rank is None:
        return None
    return (sample.rank, sample.local_rank, sample.host)


def _moved(a: ProgressSample, b: ProgressSample) -> bool:
    """Whether a counter went on between two samples: a higher step, or a whole epoch on another line."""
    if a.step is None or b.step is None:
        return False
    return b.step > a.step or (b.step == a.step == b.total and b.step > 1 and b.line != a.line)
