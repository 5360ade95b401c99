"""How long the program waits for each batch: by two clocks around the loader's iterator, or in samples where steps are short.

Between two batches the program fills the processor's caches with its own, so that two clocks cost some ten microseconds: nothing
to a step of 50 ms, too much to one of 5. There the clocks are put in for one look in ten, and what passed between is taken to be
like it; that the program stands in the loader is then seen by the looks themselves.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from firstfault.recorder import format as layout
from firstfault.recorder.ring import LIVE, Live

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT_NS = 10_000_000
"""Steps that are shorter are timed in samples."""
SAMPLED = 10
"""The clocks are in place for one stretch in so many."""
STRETCH_NS = 200_000_000
"""A stretch ends with the first look after this time."""


def clocked(original: Any) -> Any:
    """The function with a clock at either end; it raises what it raises."""

    @functools.wraps(original)
    def __next__(  # noqa: N807 - its name in the class
        self: Any,
        _original: Any = original,
        _live: Live = LIVE,
        _now: Callable[[], int] = time.monotonic_ns,
        _asked: int = layout.ASKED,
        _given: int = layout.GIVEN,
    ) -> Any:
        words = _live.words
        words[_asked] = since = _now()
        try:
            batch = _original(self)
        except BaseException:
            words[_given] = _now()
            raise
        words[_given] = now = _now()
        _live.waited += now - since
        return batch

    return __next__


class Timing:
    """Puts the clocks in and takes them out; called by looks alone, one at a time."""

    def __init__(self) -> None:
        self._base: Any = None
        self._plain: Any = None
        self._clocked: Any = None
        self._forget()

    def _forget(self) -> None:
        self._words = LIVE.words
        self._began = self._beats = self._waited = 0
        """When the stretch began, with how many steps done and how much waiting told by the clocks."""
        self._stretches = 0
        self._blind = 0
        """Ns without clocks that no sample stands for yet."""
        self._taken = 0
        """Ns of waiting that samples stood for, beside their own."""
        self._done = (0, 0)
        self._standing = self._told = 0
        """Since when looks found it in the loader, with nothing done between them; the same as the ring was told."""

    def take(self, base: Any) -> None:
        """Puts the clocks into a class of iterators."""
        self._base, self._plain = base, base.__next__
        self._clocked = base.__next__ = clocked(self._plain)

    @property
    def clocks(self) -> bool:
        """Whether each batch is timed now."""
        return self._base is None or self._base.__next__ is self._clocked

    def look(self, now: int, batches: int, *, in_data: bool) -> None:
        """What a look does: tells the time waited, and decides whether the next batches are timed.

        Args:
            now: monotonic ns.
            batches: given in all.
            in_data: whether the program stands in the loader.
        """
        if LIVE.words is not self._words:  # of another recorder, or in a child
            self._forget()
        words = self._words
        done, self._done = self._done, (LIVE.beats, batches)
        self._stand(words, now, moved=done != self._done, in_data=in_data)
        if not self._began:
            self._begin(now)
        elif now - self._began >= STRETCH_NS:
            self._end(now)
        words[layout.WAITED] = LIVE.waited + self._taken

    def _begin(self, now: int) -> None:
        self._began, self._beats, self._waited = now, self._done[0], LIVE.waited

    def _end(self, now: int) -> None:
        passed, steps = now - self._began, self._done[0] - self._beats
        if not self.clocks:
            self._blind += passed
        elif self._blind:
            self._taken += (LIVE.waited - self._waited) * self._blind // passed
            self._blind = 0
        self._stretches += 1
        short = steps * SHORT_NS > passed
        if self._base is not None:
            wanted = self._plain if short and self._stretches % SAMPLED else self._clocked
            if self._base.__next__ is not wanted:
                self._base.__next__ = wanted
        self._begin(now)

    def _stand(self, words: memoryview, now: int, *, moved: bool, in_data: bool) -> None:
        """Tells of a wait that no clock has seen begin, once two looks have found it; and its end, which none may see either."""
        if words[layout.ASKED] == self._told and self._told and (moved or not in_data):
            words[layout.GIVEN] = now
            self._told = 0
        if not in_data or (self.clocks and words[layout.ASKED] > words[layout.GIVEN]):
            self._standing = 0
        elif moved or not self._standing:
            self._standing = now
        elif not self._told and words[layout.ASKED] <= words[layout.GIVEN]:
            words[layout.ASKED] = self._told = self._standing


timing = Timing()
