"""Worker processes, each with a pipe of its own over which tasks go out and parts come back.

Loaded where several processes are used only: what it needs from the standard library costs a small input 10 ms.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import traceback
import warnings
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from firstfault.scan.executors import ScanError
from firstfault.scan.newlines import want_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.process import BaseProcess

    from firstfault.scan.executors import Parts, Work
    from firstfault.scan.tasks import Task

_REPORT_EVERY = 16 << 20


class Pool:
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
