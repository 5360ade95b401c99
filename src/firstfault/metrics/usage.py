"""Memory that climbs or jumps, and the share of a step that is spent waiting for data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.course import Course
from firstfault.metrics.kinds import (
    DATA_SHARE,
    DATA_TIMES,
    FEWEST,
    JUMP_SHARE,
    LEAK_BLOCKS,
    LEAK_SHARE,
    SHIFT_ROWS,
    Kind,
    Point,
)
from firstfault.metrics.robust import climb, shifts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Series = NDArray[np.float64]


class Usage(Course):
    """Abnormal use of memory and time by one rank."""

    def points(self) -> Iterator[Point]:
        """All of them."""
        yield from self.memory()
        yield from self.data()

    def memory(self) -> Iterator[Point]:
        """Memory that only climbs, or that jumps for good."""
        for name in ("memory", "memory_reserved"):
            rows, used = self.rows(name, warm=True)
            if len(rows) < 2 * FEWEST:
                continue
            leak = next(filter(None, (self._leak(*one, name) for one in self._starts(rows, used))), None)
            if leak is not None:
                yield leak
                return
            for shift in shifts(used, fewest=SHIFT_ROWS):
                grown = shift.after - shift.before
                if grown > max(JUMP_SHARE * shift.before, 3 * shift.spread) and self.age[rows[shift.at]] > FEWEST:
                    yield self.point(
                        Kind.MEMORY_JUMP,
                        name,
                        int(rows[shift.at]),
                        shift.after,
                        shift.before,
                        len(used) - shift.at,
                        lasts=True,
                    )
                    return

    def _starts(self, rows: NDArray[np.int64], used: Series) -> Iterator[tuple[NDArray[np.int64], Series]]:
        """Rows and values of each start of the run: a restart frees all memory."""
        attempt = self.steps.attempt[rows]
        for one in np.unique(attempt):
            yield rows[attempt == one], used[attempt == one]

    def _leak(self, rows: NDArray[np.int64], used: Series, name: str) -> Point | None:
        if len(rows) < 3 * LEAK_BLOCKS:
            return None
        begin = climb(used, LEAK_BLOCKS)
        rest = used[begin:]
        if len(rest) < 2 * LEAK_BLOCKS:
            return None
        blocks = np.array([np.median(b) for b in np.array_split(rest, LEAK_BLOCKS)])
        rises = int((np.diff(blocks) > 0).sum())
        largest = float(np.diff(blocks).max())
        grown = float(blocks[-1] - blocks[0])
        if rises < LEAK_BLOCKS - 2 or grown < LEAK_SHARE * blocks[0] or largest > 0.4 * grown:
            return None
        return self.point(
            Kind.LEAK,
            name,
            int(rows[begin]),
            float(used[-1]),
            float(np.median(used[: max(begin, 1)])),
            len(rest),
            lasts=True,
        )

    def data(self) -> Iterator[Point]:
        """A growing share of the step that is spent waiting for data."""
        rows, waited = self.rows("data_time", warm=True)
        seconds = self.steps.values("step_time")
        if len(rows) < FEWEST or seconds is None:
            return
        good = np.isfinite(seconds[rows]) & (seconds[rows] > 0)
        rows, share = rows[good], waited[good] / seconds[rows[good]]
        for shift in shifts(share, fewest=SHIFT_ROWS):
            if shift.after > DATA_SHARE and shift.after > DATA_TIMES * shift.before:
                yield self.point(
                    Kind.DATA_SHARE, "data_time", int(rows[shift.at]), shift.after, shift.before, len(share) - shift.at,
                    lasts=bool(np.median(share[-SHIFT_ROWS:]) > DATA_SHARE),
                )  # fmt: skip
                return
