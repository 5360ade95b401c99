"""Runs tasks: in this process, or in several that share them out.

A worker that dies (killed for memory, say) costs no answer and no hang: its task is done again in this process.
The answer is the same however the work is shared out.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
import warnings
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from firstfault.scan.engines import make_engine
from firstfault.scan.newlines import want_numpy
from firstfault.scan.stretch import STOPPED, Stretch, scan_stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

    from firstfault.readers.store import Store
    from firstfault.scan.engines import Engine
    from firstfault.scan.plan import Plan
    from firstfault.scan.results import Part
    from firstfault.scan.tasks import Task

Parts = dict[Stretch, "Part"]
_REPORT_EVERY = 16 << 20


class ScanError(Exception):
    """A worker met an error that is a fault of this program; the message holds its traceback."""


class Work:
    """What every process needs: bytes, patterns, engine."""

    def __init__(self, store: Store, plan: Plan, engine: Engine, block_size: int) -> None:
        self.store = store
        self.plan = plan
        self.engine: Engine | None = engine
        self.engine_name = engine.name
        self.block_size = block_size

    def __getstate__(self) -> dict[str, Any]:
        # A compiled engine does not travel; a new process makes its own, from the cache as a rule.
        return {**self.__dict__, "engine": None}

    def scan(self, stretch: Stretch, progress: Callable[[int], None] | None) -> Part:
        """Scans one stretch in this process."""
        if self.engine is None:
            self.engine = make_engine(self.engine_name, self.plan)
        return scan_stretch(self.store, stretch, self.plan, self.engine, block_size=self.block_size, progress=progress)


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
    pool = _Pool(work, tasks, workers, progress)
    try:
        pool.run()
    except KeyboardInterrupt:
        return pool.parts, False
    finally:
        pool.close()
    again, whole = inline(work, [pool.tasks[i] for i in sorted(pool.lost)], progress)
    return {**pool.parts, **again}, whole


class _Pool:
    """Worker processes, each with a pipe of its own over which tasks go out and parts come back."""

    def __init__(self, work: Work, tasks: Sequence[Task], workers: int, progress: Callable[[int], None] | None) -> None:
        self.parts: Parts = {}
        self.lost: set[int] = set()
        self.tasks = tasks
        self._progress = progress
        self._next = iter(range(len(tasks)))
        self._busy: dict[Connection, tuple[BaseProcess, int]] = {}
        self._idle: list[tuple[BaseProcess, Connection]] = []
        self._start(work, min(workers, len(tasks)))

    def _start(self, work: Work, number: int) -> None:
        # A process with threads must not be forked; a new one costs some 0.3 s.
        method = "fork" if threading.active_count() == 1 and "fork" in _methods() else "spawn"
        context: Any = multiprocessing.get_context(method)
        for _ in range(number):
            mine, theirs = context.Pipe()
            worker = context.Process(
                target=_serve, args=(work, theirs, mine if method == "fork" else None), daemon=True
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's libraries are idle here
                worker.start()
            theirs.close()
            self._idle.append((worker, mine))

    def run(self) -> None:
        """Hands out tasks until all are done or lost."""
        for worker, pipe in self._idle:
            self._give(worker, pipe)
        while self._busy:
            for ready in wait(list(self._busy)):
                assert isinstance(ready, Connection)
                self._hear(ready)
        self.lost.update(self._next)

    def _give(self, worker: BaseProcess, pipe: Connection) -> None:
        task = next(self._next, None)
        if task is None:
            return
        self._busy[pipe] = (worker, task)
        try:
            pipe.send(self.tasks[task])
        except OSError:
            del self._busy[pipe]
            self.lost.add(task)

    def _hear(self, pipe: Connection) -> None:
        worker, task = self._busy[pipe]
        try:
            word, value = pipe.recv()
        except (EOFError, OSError):
            del self._busy[pipe]
            self.lost.add(task)
            for stretch in self.tasks[task]:
                self.parts.pop(stretch, None)
            return
        if word == "bytes":
            if self._progress is not None:
                self._progress(value)
        elif word == "part":
            self.parts[value[0]] = value[1]
        elif word == "error":
            raise ScanError(f"a worker failed:\n{value}")
        else:
            del self._busy[pipe]
            self._give(worker, pipe)

    def close(self) -> None:
        """Ends the workers, the idle and the busy ones."""
        for worker, pipe in self._idle:
            pipe.close()
            worker.terminate()
        for worker, _ in self._idle:
            worker.join(5)
            if worker.is_alive():
                worker.kill()
                worker.join()


def _methods() -> list[str]:
    return multiprocessing.get_all_start_methods()


def _serve(work: Work, pipe: Connection, other_end: Connection | None) -> None:
    """What a worker does: scan what it is given until its pipe is closed."""
    if other_end is not None:
        other_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    want_numpy()
    counted = 0

    def progress(number: int) -> None:
        nonlocal counted
        counted += number
        if counted >= _REPORT_EVERY:
            pipe.send(("bytes", counted))
            counted = 0

    try:
        while True:
            task: Task = pipe.recv()
            for stretch in task:
                pipe.send(("part", (stretch, work.scan(stretch, progress))))
            pipe.send(("bytes", counted))
            counted = 0
            pipe.send(("done", None))
    except (EOFError, OSError):
        return
    except Exception:  # noqa: BLE001 - whatever it is, the parent has to know
        pipe.send(("error", traceback.format_exc()))


def consecutive(stretches: Sequence[Stretch], parts: Parts) -> Iterator[Part]:
    """The parts of one source up to the first that is not there."""
    for stretch in stretches:
        part = parts.get(stretch)
        if part is None:
            return
        yield part
