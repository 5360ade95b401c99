"""Hands independent tasks to the workers of a Dask cluster and takes their results as they come; knows nothing of the work.

What a cluster cannot do costs no answer: a task that failed, or whose worker died too often, is given back to who asked.
Loaded only where somebody asked for a cluster.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.scan.executors import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from firstfault.model.until import Until

WAIT = 60.0
"""Seconds within which a scheduler has to answer and a first worker to be there."""
AHEAD = 3
"""Tasks given to each thread of a worker at a time: one that runs, and some so that it need not wait."""
ALONE = 30.0
"""Seconds without any worker after which nobody is waited for."""
_LOOK = 0.5
"""Seconds between two looks at the clock, and at an interrupt from the keyboard."""


class ClusterError(Exception):
    """There is no cluster to work on; the message says why."""


class Task(NamedTuple):
    """A function of a module, by name known to workers too, with what it is given."""

    function: Callable[..., bytes]
    given: tuple[Any, ...]


class Outcome(NamedTuple):
    """What became of a task."""

    number: int
    """Of the task, from 0."""
    result: bytes | None
    """None where the cluster could not do it."""
    why: str = ""


class Cluster:
    """A connection to a cluster, or a cluster of this machine's own that ends with it; a context manager."""

    def __init__(self, address: str = "") -> None:
        """`address`: of a scheduler, such as `tcp://10.0.0.4:8786`, or the path of its scheduler file; empty for workers on this machine.

        Raises:
            ClusterError: Dask is not installed, nobody answers there, or no worker comes.
        """
        try:
            import distributed
            from dask.config import set as settings
        except ImportError as error:
            raise ClusterError(f"Dask is not installed here ({error})") from error
        for name in ("distributed", "distributed.worker", "distributed.scheduler", "distributed.nanny"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # whoever runs the cluster has its logs
        dask: Any = distributed  # it has no types of its own
        self._own: Any = None
        self._place = ""
        self._client: Any = None
        self._last_threads = 0
        try:
            if not address:
                self._place = tempfile.mkdtemp(prefix="firstfault-")
                with settings({"temporary-directory": self._place}):
                    self._own = dask.LocalCluster(
                        n_workers=processors(),
                        threads_per_worker=1,
                        dashboard_address=None,
                        host="127.0.0.1",
                        silence_logs=logging.CRITICAL,
                    )
                self._client = dask.Client(self._own, set_as_default=False, timeout=WAIT)
            elif Path(address).is_file():
                self._client = dask.Client(scheduler_file=address, set_as_default=False, timeout=WAIT)
            else:
                self._client = dask.Client(address, set_as_default=False, timeout=WAIT)
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # TimeoutError is an OSError
            self._end()
            raise ClusterError(f"no scheduler answers there ({_short(error)})") from error
        self._until_there()

    def _until_there(self) -> None:
        end = time.monotonic() + WAIT
        while not self.threads:
            if time.monotonic() > end:
                self.close()
                raise ClusterError(f"its scheduler has no worker, and none came in {WAIT:.0f} s")
            time.sleep(0.1)

    @property
    def threads(self) -> int:
        """Threads of all workers together, at this moment."""
        try:
            self._last_threads = sum(self._client.nthreads().values())
        except (OSError, ValueError, TypeError, RuntimeError):
            self._last_threads = 0
        return self._last_threads

    def send(self, value: Any) -> Any:
        """What stands for a value among what tasks are given: it goes to each worker once."""
        return self._client.scatter([value], hash=False)[0]

    def outcomes(self, tasks: Iterator[Task], until: Until) -> Iterator[Outcome]:
        """What became of each task, as it comes; when the moment has come, or nobody is left to work, the rest is given back."""
        numbered = enumerate(tasks)
        flying: dict[Any, int] = {}
        done: Queue[Any] = Queue()
        alone: float | None = None
        try:
            self._give(numbered, flying, done)
            while flying:
                if until.over():
                    yield from self._back(flying, numbered, "the time was over")
                    return
                try:
                    future = done.get(timeout=_LOOK)
                except Empty:
                    alone = None if self.threads else alone or time.monotonic()
                    if alone is not None and time.monotonic() > alone + ALONE:
                        yield from self._back(flying, numbered, "no worker is left")
                        return
                    continue
                number = flying.pop(future)
                yield _outcome(number, future)
                future.release()
                self._give(numbered, flying, done)
        finally:
            if flying:
                self._cancel(flying)

    def _give(self, numbered: Iterator[tuple[int, Task]], flying: dict[Any, int], done: Queue[Any]) -> None:
        most = AHEAD * max(1, self._last_threads)
        while len(flying) < most:
            known = next(numbered, None)
            if known is None:
                return
            number, task = known
            future = self._client.submit(task.function, *task.given, pure=False)
            flying[future] = number
            future.add_done_callback(done.put)

    def _back(self, flying: dict[Any, int], numbered: Iterator[tuple[int, Task]], why: str) -> Iterator[Outcome]:
        left = sorted(flying.values())
        self._cancel(flying)
        for number in left:
            yield Outcome(number, None, why)
        for number, _ in numbered:
            yield Outcome(number, None, why)

    def _cancel(self, flying: dict[Any, int]) -> None:
        futures = list(flying)
        flying.clear()
        with suppress(OSError, RuntimeError, ValueError):  # whoever does not answer any more does nothing more either
            self._client.cancel(futures, force=True)

    def close(self) -> None:
        """Ends the connection, and the workers that were started for it."""
        with suppress(OSError, RuntimeError, ValueError):  # whoever does not answer any more need not be told
            self._client.close(timeout=5)
        self._end()

    def _end(self) -> None:
        if self._own is not None:
            self._own.close(timeout=5)
            self._own = None
        if self._place:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _outcome(number: int, future: Any) -> Outcome:
    if future.status == "finished":
        try:
            result = future.result(timeout=WAIT)
        except Exception as error:  # noqa: BLE001 - whatever it is, the task is done again by who asked
            return Outcome(number, None, _short(error))
        return Outcome(number, result)
    try:
        return Outcome(number, None, _short(future.exception(timeout=WAIT)))
    except Exception as failed:  # noqa: BLE001 - cancelled or lost
        return Outcome(number, None, _short(failed))


def _short(error: object) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}"[:200] if text else type(error).__name__
