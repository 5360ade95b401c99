"""DataLoader: how long a rank waits for each batch, how many lie ready, and which item each worker is reading.

A worker, forked or spawned, gets a ring of its own; that its function is ours is found again in a spawned process by its name.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from firstfault.recorder import api, looking
from firstfault.recorder.clean import plain_item
from firstfault.recorder.hooks import workers as workers_of
from firstfault.recorder.hooks.timing import timing
from firstfault.recorder.identity import identify

if TYPE_CHECKING:
    from firstfault.recorder.core import Recorder

_iterators: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""Each loader that is iterated -> batches of it that are counted."""
_batches = 0
_original: Any = None
_owner: tuple[Any, int] | None = None
"""Identity and process id of the rank, as a forked worker finds them."""
_MOST_SHAPES = 4096


def apply(module: Any) -> None:
    """Wraps the iterator of `torch.utils.data.DataLoader`, and the function that its workers run."""
    global _original  # noqa: PLW0603 - the one function of torch
    base = module._BaseDataLoaderIter  # noqa: SLF001 - torch offers no public place
    looking.know(base.__next__, "data")
    timing.take(base)
    base.__init__ = _init(base.__init__)
    looking.asked.loaders_seen = _seen
    looking.asked.workers_lost = _lost
    worker = sys.modules["torch.utils.data._utils.worker"]
    _original = worker._worker_loop  # noqa: SLF001
    worker._worker_loop = worker_loop  # type: ignore[attr-defined]  # noqa: SLF001


def _init(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - its name in the class
        global _owner  # noqa: PLW0603 - one rank a process
        recorder = api.current()
        if recorder is not None:
            _owner = (recorder.who, recorder.pid)
            _iterators[self] = 0
        original(self, *args, **kwargs)

    return __init__


def _seen(now: int, in_data: bool) -> tuple[int, int, int]:
    """Batches given in all, those that lie ready in the loader that has workers, and these.

    Args:
        now: of the look, in monotonic ns.
        in_data: whether it found the program in the loader.
    """
    global _batches  # noqa: PLW0603 - of a process
    depth, workers = -1, 0
    for iterator, counted in list(_iterators.items()):
        given = getattr(iterator, "_num_yielded", 0)
        # A loader that is iterated anew, with workers that stay, counts from nought again.
        _batches += given - counted if given >= counted else given
        _iterators[iterator] = given
        held = getattr(iterator, "_workers", ())
        if held:
            depth, workers = _depth(iterator), workers + len(held)
    timing.look(now, _batches, in_data=in_data)
    return _batches, depth, workers


def _depth(iterator: Any) -> int:
    """Batches that lie ready; -1 where it has no workers or does not tell."""
    queue = getattr(iterator, "_data_queue", None)
    try:
        return -1 if queue is None else int(queue.qsize())
    except (OSError, NotImplementedError, ValueError):
        return -1


def _lost() -> list[dict[str, Any]]:
    """Workers of loaders that are still there which ended badly."""
    return workers_of.lost(getattr(iterator, "_workers", ()) for iterator in list(_iterators))


def describe_loaders() -> list[dict[str, Any]]:
    """Every loader that was iterated and still is: its workers with their process ids, and how many batches lie ready."""
    found = []
    for iterator in list(_iterators):
        workers = getattr(iterator, "_workers", ())
        found.append(
            {
                "depth": _depth(iterator),
                "asked_for": getattr(iterator, "_tasks_outstanding", None),
                "workers": workers_of.described(workers),
            }
        )
    return found


def worker_loop(*args: Any, **kwargs: Any) -> Any:
    """What a worker runs: torch's loop, with queues that note what passes."""
    original = _original
    if original is None:
        from torch.utils.data._utils import worker

        original = worker._worker_loop  # noqa: SLF001 - in a spawned process ours was not put in its place
    try:
        given = list(args)
        # dataset_kind, dataset, index_queue, …, worker_id at 10: as all versions since torch 1.7 pass them
        number = int(given[10])
        recorder = _start_in_worker(number)
        if recorder is not None:
            given[2] = _Indices(given[2])
            _watch_opens(recorder)
    except Exception:  # noqa: BLE001 - another torch: its worker runs without us
        given = list(args)
    return original(*given, **kwargs)


def _start_in_worker(number: int) -> Recorder | None:
    if _owner is None and os.environ.get(api.OWNER) is None:
        return None  # its rank does not record
    if _owner is not None and _owner[1] == os.getppid():
        return api.restart(_owner[0], (number, _owner[1]))
    return api.restart(identify(), (number, os.getppid()))


class _Indices:
    """The queue from which a worker takes what to read."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """Takes the next batch to read; an empty queue is no sign of anything."""
        recorder = api.current()
        if recorder is not None:
            recorder.ring.item("", -1)
        task = self._queue.get(*args, **kwargs)
        if recorder is None or not isinstance(task, tuple) or len(task) != 2:
            return task
        number, wanted = task
        if not isinstance(number, int):
            return task
        recorder.ring.step(number)
        recorder.ring.phase("data")
        if type(wanted) is list:
            wanted = _Noted(wanted)
            wanted.number = number
        api.item(f"index {_short(wanted)}", number)
        return (number, wanted)


class _Noted(list[Any]):
    """The indices of a batch; going through them notes each when its turn comes."""

    number = -1

    def __iter__(self) -> Any:
        for index in super().__iter__():
            api.item(f"index {_short(index)}", self.number)
            yield index


def _short(index: Any) -> str:
    text = (
        str(index)
        if isinstance(index, (int, str, tuple))
        else repr(list(index[:4]) if isinstance(index, list) else index)
    )
    return text[:120]


def _watch_opens(recorder: Recorder) -> None:
    """Notes each file that the worker opens through Python, as the item that it reads; not again for a path of the same shape."""
    if recorder.settings.items != "path":
        return
    known: dict[str, None] = {}
    recorder.cleaner.text("")  # it loads its rules, which opens files, before anybody listens to that
    main = get_ident()
    translate = str.maketrans("0123456789", "##########")

    def hook(event: str, args: Any) -> None:
        if event != "open":
            return
        try:
            path = args[0]
            # Other threads send what was read to the rank, through files of their own.
            if (
                get_ident() != main
                or api.current() is not recorder
                or not isinstance(path, str)
                or path.startswith(("/proc/", "/dev/", "/sys/"))
            ):
                return
            shape = path.translate(translate)
            # Digits alone are no secret: a shape that was found harmless is so with any number.
            if shape not in known:
                path = recorder.cleaner.text(plain_item(path))
                if path == args[0] and len(known) < _MOST_SHAPES:
                    known[shape] = None
            recorder.ring.item(path, recorder.ring.step_number)
        except Exception:  # noqa: BLE001 - an open file is never the worse for us
            return

    sys.addaudithook(hook)
