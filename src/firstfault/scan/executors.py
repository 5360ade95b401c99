"""Runs tasks: in this process, or in several that share them out.

A worker that dies (killed for memory, say) costs no answer and no hang: its task is done again in this process.
The answer is the same however the work is shared out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from firstfault.model.until import NEVER, OVER, STOPPED
from firstfault.scan.engines import make_engine
from firstfault.scan.shapes import Shapes
from firstfault.scan.stretch import Stretch, scan_stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from firstfault.model.until import Until
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.store import Store
    from firstfault.scan.engines import Engine
    from firstfault.scan.plan import Plan
    from firstfault.scan.results import Part
    from firstfault.scan.tasks import Task

Parts = dict[Stretch, "Part"]


class ScanError(Exception):
    """A worker met an error that is a fault of this program; the message holds its traceback."""


class Work:
    """What every process needs: bytes, patterns, engine."""

    def __init__(self, store: Store, plan: Plan, engine: Engine, block_size: int, until: Until = NEVER) -> None:
        self.store = store
        self.plan = plan
        self.engine: Engine | None = engine
        self.engine_name = engine.name
        self.block_size = block_size
        self.until = until
        self.shapes = Shapes()

    def __getstate__(self) -> dict[str, Any]:
        # A compiled engine does not travel; a new process makes its own, from the cache as a rule.
        return {**self.__dict__, "engine": None, "shapes": Shapes()}

    def scan(
        self, stretch: Stretch, progress: Callable[[int], None] | None, profile: SourceProfile | None = None
    ) -> Part:
        """Scans one stretch in this process; the profile is that of its source, where it is known."""
        if self.engine is None:
            self.engine = make_engine(self.engine_name, self.plan)
        return scan_stretch(
            self.store,
            stretch,
            self.plan,
            self.engine,
            profile=profile,
            shapes=self.shapes,
            block_size=self.block_size,
            progress=progress,
            until=self.until,
        )


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def inline(work: Work, tasks: Sequence[Task], progress: Callable[[int], None] | None) -> tuple[Parts, bool]:
    """Runs tasks one after the other in this process.

    Returns:
        What was found in each stretch, and whether all were scanned (not so after an interrupt from the keyboard).
    """
    parts: Parts = {}
    for task in tasks:
        for stretch in task:
            part = work.scan(stretch, progress)
            parts[stretch] = part
            if part.damage == STOPPED:
                return parts, False
    return parts, True


def processes(
    work: Work, tasks: Sequence[Task], workers: int, progress: Callable[[int], None] | None
) -> tuple[Parts, bool]:
    """Runs tasks in several processes; the rest as `inline`.

    Raises:
        ScanError: a worker met a fault of this program.
    """
    from firstfault.scan.pool import Pool

    pool = Pool(work, tasks, workers, progress)
    try:
        pool.run()
    except KeyboardInterrupt:
        return pool.parts, False
    finally:
        pool.close()
    again, whole = inline(work, [pool.tasks[i] for i in sorted(pool.lost)], progress)
    return {**pool.parts, **again}, whole


def consecutive(stretches: Sequence[Stretch], parts: Parts) -> Iterator[Part]:
    """The parts of one source up to the first that is not there, or that there was no time to read to its end."""
    for stretch in stretches:
        part = parts.get(stretch)
        if part is None:
            return
        yield part
        if part.damage == OVER:
            return
