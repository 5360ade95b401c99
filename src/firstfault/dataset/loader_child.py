"""Makes a loader and takes some batches from it as one rank would, and tells each item: run as a program of its own.

The code that is tried runs here, never in the program that asks: it may hang, crash, print or use up memory. What it does is told
through a named pipe, one JSON record a line, also by workers that are forked or spawned. Standard library only beside what it imports.
"""

import contextlib
import copy
import ctypes
import faulthandler
import hashlib
import importlib
import inspect
import json
import os
import signal
import sys
import time
import traceback
import warnings
from typing import Any

ASKED: dict[str, Any] = {}
"""What is to be done; see `firstfault.dataset.dry_run`."""
TOLD = "FIRSTFAULT_CHECK_DATA"
LINE = 4000
"""Bytes of one record: what a pipe takes whole also from several writers."""
FAILURES = 50
"""Failed batches without a good one between them, after which it is given up."""
SIMULATED_S = 20.0
LOOKED = 1 << 20
"""Bytes of one item by which it is compared with others."""
_KEYS = ("__key__", "id", "key", "uid", "utt_id", "name", "path", "file", "audio_path", "image_path")
_LISTS = ("samples", "imgs", "files", "paths", "items", "entries", "data")
_WORLDS = (("rank", "num_replicas"), ("rank", "world_size"), ("data_parallel_rank", "data_parallel_size"))
_pipe = -1
_worker: int | None = None


def tell(kind: str, **fields: Any) -> None:
    """Sends a record; one that cannot be sent is lost, for nobody listens any more."""
    raw = json.dumps({"k": kind, "pid": os.getpid(), "w": _worker, **fields}, default=str)
    for name in ("frames", "text", "n"):
        if len(raw) >= LINE and name in fields:
            fields[name] = fields[name][:3] if isinstance(fields[name], list) else str(fields[name])[:300]
            raw = json.dumps({"k": kind, "pid": os.getpid(), "w": _worker, **fields}, default=str)
    with contextlib.suppress(OSError):
        os.write(_pipe, raw.encode("ascii", "replace")[:LINE] + b"\n")


def listen() -> None:
    """Opens the pipe, and lets a signal write where all threads stand."""
    global _pipe  # noqa: PLW0603 - one a process
    ASKED.update(json.loads(os.environ[TOLD]))
    _pipe = os.open(ASKED["pipe"], os.O_WRONLY)
    stacks = open(ASKED["stacks"], "a")  # noqa: SIM115 - open until the end
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
    tell("process")


def failure(error: BaseException) -> dict[str, Any]:
    """Class, text and innermost frames of an exception, the cause of a worker's inside it."""
    frames = [f"{f.filename}:{f.lineno} in {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    own = [f for f in frames if not f.startswith(__file__)]
    return {"type": type(error).__name__, "text": str(error)[:1500], "frames": own[-6:]}


def name_of(index: Any, dataset: Any = None) -> str:
    """What an item is called: its index, with the path that the dataset has for it."""
    ids = getattr(index, "ids", None)
    if ids is not None:
        with contextlib.suppress(Exception):
            return ", ".join(str(i) for i, _ in zip(ids, range(4), strict=False))
    if isinstance(index, (list, tuple)):
        return ", ".join(str(i)[:80] for i in index[:4]) + (", …" if len(index) > 4 else "")
    if not isinstance(index, (int, str)):
        return str(index)[:200]
    for name in _LISTS:
        with contextlib.suppress(Exception):
            told = path_in(getattr(dataset, name)[index])
            if told:
                return f"{index} ({told[:300]})"
    return str(index)


def path_in(entry: Any) -> str:
    """The path or key in an entry of a dataset's list; empty for none."""
    if isinstance(entry, (tuple, list)) and entry:
        entry = entry[0]
    if isinstance(entry, dict):
        entry = next((entry[k] for k in _KEYS if k in entry), "")
    return str(entry) if isinstance(entry, (str, os.PathLike)) else ""


def key_of(sample: Any) -> str:
    """The key that an item states for itself; empty for none."""
    if isinstance(sample, dict):
        for name in _KEYS:
            if isinstance(sample.get(name), (str, int)):
                return str(sample[name])[:200]
    return ""


def digest(value: Any) -> str:
    """A digest of an item's content; empty where nothing of it can be compared."""
    held, left = hashlib.blake2b(digest_size=8), LOOKED
    todo, seen = [value], 0
    while todo and left > 0 and seen < 4096:
        one = todo.pop()
        seen += 1
        if isinstance(one, dict):
            todo += [v for k, v in one.items() if not str(k).startswith("__")]
            continue
        if isinstance(one, (list, tuple)):
            todo += list(one)
            continue
        raw = plain(one)
        if raw is None:
            return ""
        held.update(type(one).__name__.encode() + raw[:left] + b"\0")
        left -= len(raw)
    return held.hexdigest()


def plain(one: Any) -> bytes | None:
    """The bytes of one value; None where it has none that can be compared."""
    if one is None or isinstance(one, (str, int, float)):
        return repr(one).encode("utf-8", "replace")
    if isinstance(one, (bytes, bytearray)):
        return bytes(one[:LOOKED])
    with contextlib.suppress(Exception):
        array = one.detach().cpu().numpy() if hasattr(one, "detach") else one
        return f"{array.shape}{array.dtype}".encode() + bytes(array.reshape(-1)[:LOOKED].tobytes())
    return None


def size_of(batch: Any) -> int:
    """Bytes of the tensors and arrays of a batch."""
    total, todo = 0, [batch]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo += list(one.values())
        elif isinstance(one, (list, tuple)):
            todo += list(one)[:4096]
        else:
            size = getattr(one, "nbytes", 0)
            total += size if isinstance(size, int) else 0
    return total


def told_item(index: Any, dataset: Any, get: Any) -> Any:
    """One item, told when it begins and how it ended."""
    name = name_of(index, dataset)
    tell("b", n=name)
    begin = time.monotonic()
    try:
        sample = get()
    except StopIteration:
        tell("n")
        raise
    except BaseException as error:
        tell("x", n=name, s=round(time.monotonic() - begin, 6), **failure(error))
        raise
    spent = time.monotonic() - begin
    held = len(index) if hasattr(index, "__len__") and not isinstance(index, str) else 1
    tell("e", n=name, s=round(spent, 6), key=key_of(sample), h=digest(sample), c=held)
    return sample


def of_map(self: Any, index: Any) -> Any:
    """`fetch` of a dataset with indexes: each item by itself, so that one bad item hides no other."""
    dataset = self.dataset
    if not self.auto_collation:
        return self.collate_fn(told_item(index, dataset, lambda: dataset[index]))
    if getattr(dataset, "__getitems__", None):
        samples = told_item(list(index), dataset, lambda: dataset.__getitems__(index))
    else:
        samples, first = [], None
        for one in index:
            try:
                samples.append(told_item(one, dataset, lambda one=one: dataset[one]))
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
    return collated(self, samples, list(index))


def collated(self: Any, samples: list[Any], index: list[Any]) -> Any:
    """The batch of some items; a failure is one of these items together."""
    try:
        return self.collate_fn(samples)
    except Exception as error:
        tell("x", n=f"batch of {name_of(index)}", s=0, collate=True, **failure(error))
        raise


def of_stream(self: Any, index: Any) -> Any:
    """`fetch` of a dataset that is only iterated."""
    if self.ended:
        raise StopIteration
    self.told = getattr(self, "told", 0)
    if not self.auto_collation:
        data = told_item(f"item {self.told}", None, lambda: next(self.dataset_iter))
        self.told += 1
        return self.collate_fn(data)
    samples: list[Any] = []
    for _ in index:
        try:
            samples.append(told_item(f"item {self.told}", None, lambda: next(self.dataset_iter)))
        except StopIteration:
            self.ended = True
            break
        self.told += 1
    if not samples or (self.drop_last and len(samples) < len(index)):
        raise StopIteration
    return collated(self, samples, [f"{self.told - len(samples)}..{self.told - 1}"])


def watch_items() -> None:
    """Puts our `fetch` in the place of torch's, which workers inherit."""
    fetch = importlib.import_module("torch.utils.data._utils.fetch")
    fetch._MapDatasetFetcher.fetch = of_map  # noqa: SLF001 - torch offers no public place
    fetch._IterableDatasetFetcher.fetch = of_stream  # noqa: SLF001


class Begin:
    """What a worker does first: it tells of itself, then runs the function that the loader has for that."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __call__(self, number: int) -> None:
        """Runs in the worker."""
        global _worker  # noqa: PLW0603 - one a process
        if _pipe < 0:  # spawned: it has inherited nothing
            listen()
            watch_items()
        _worker = number
        tell("worker")
        if self.original is not None:
            self.original(number)


def pretend() -> None:
    """Makes torch believe in a job of the asked size, whose other ranks answer at once."""
    try:
        dist: Any = importlib.import_module("torch.distributed")
        if not dist.is_available() or dist.is_initialized():
            return
        fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
        dist.init_process_group("fake", rank=ASKED["rank"], world_size=ASKED["world"], store=fake.FakeStore())
        dist.init_process_group = lambda *_, **__: None
        tell("pretends")
    except Exception as error:
        tell("no_group", text=f"{type(error).__name__}: {error}")


def made() -> Any:
    """What the import path names; a function or class is called, with `rank` and `world_size` where it takes them."""
    module_name, _, path = ASKED["target"].partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            tell("absent", text=str(error))
            sys.stdout.flush()
            os._exit(4)
        raise
    for part in path.split("."):
        if not hasattr(found, part):
            tell("absent", text=f"{module_name} has no {part}")
            os._exit(4)
        found = getattr(found, part)
    if inspect.isclass(found) or inspect.isroutine(found) or inspect.isfunction(found):
        given = {"rank": ASKED["rank"], "world_size": ASKED["world"]}
        takes: set[str] = set()
        with contextlib.suppress(TypeError, ValueError):
            takes.update(inspect.signature(found).parameters)
        found = found(**{name: value for name, value in given.items() if name in takes})
    return found


def sampler_of(loader: Any) -> tuple[Any, Any, Any]:
    """What gives the indexes of batches, the part of it that knows of ranks, and its names for rank and size."""
    batches = getattr(loader, "batch_sampler", None) or getattr(loader, "sampler", None)
    for one in (batches, getattr(batches, "sampler", None), getattr(loader, "sampler", None)):
        for names in _WORLDS:
            if one is not None and all(isinstance(getattr(one, n, None), int) for n in names):
                return batches, one, names
    return batches, None, None


def simulate(loader: Any) -> None:
    """Counts what each rank would be given by the sampler, without loading anything."""
    batches, knows, names = sampler_of(loader)
    if knows is None:
        tell("plain_sampler", type=type(getattr(loader, "sampler", None)).__name__)
        return
    size = getattr(knows, names[1])
    tell("sampler", type=type(knows).__name__, size=size)
    end = time.monotonic() + SIMULATED_S
    seen: set[int | str] = set()
    for rank in range(min(size, 4096)):
        part = copy.copy(knows)
        setattr(part, names[0], rank)
        whole = part if batches is knows else copy.copy(batches)
        if whole is not part:
            whole.sampler = part
        own: set[int | str] = set()
        count = items = 0
        for index in whole:
            several = index if isinstance(index, (list, tuple)) else [index]
            count, items = count + 1, items + (len(index) if hasattr(index, "__len__") else 1)
            own.update(i for i in several if isinstance(i, (int, str)))
            if count % 64 == 0 and (time.monotonic() > end or len(own) > 2_000_000):
                return
        tell("sim", rank=rank, batches=count, items=items, shared=len(own & seen))
        seen |= own
        if time.monotonic() > end:
            return


def simulate_apart(loader: Any) -> None:
    """Counts in a copy of this process: samplers share what they hold with their copies, and a rank must begin untouched."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
            simulate(loader)
        except BaseException as error:
            tell("no_sim", **failure(error))
        os._exit(0)
    end = time.monotonic() + SIMULATED_S + 5
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            tell("no_sim", type="TimeoutError", text="the sampler gave no indexes in time", frames=[])
            return
        time.sleep(0.005)


def take(batches: Any) -> None:
    """Takes batches up to the limit, past those that fail."""
    count = failed = 0
    while count < ASKED["batches"]:
        begin = time.monotonic()
        try:
            batch = next(batches)
        except StopIteration:
            tell("end", how="ended")
            return
        except Exception as error:
            tell("error", s=round(time.monotonic() - begin, 6), **failure(error))
            failed += 1
            if failed >= FAILURES:
                tell("end", how="gave_up")
                return
            continue
        failed = 0
        tell("batch", i=count, s=round(time.monotonic() - begin, 6), bytes=size_of(batch))
        count += 1
    tell("end", how="batches")


def told_loader(loader: Any) -> Any:
    """An iterator over a loader of torch, which tells its items."""
    dataset = loader.dataset
    sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    items = length = None
    with contextlib.suppress(Exception):
        items = len(dataset) if sized else None
    with contextlib.suppress(Exception):
        length = len(loader)
    tell(
        "made", type=type(loader).__name__, dataset=type(dataset).__name__, sampler=type(loader.sampler).__name__, workers=loader.num_workers,
        prefetch=loader.prefetch_factor, timeout=loader.timeout, items=items, length=length, batch_size=loader.batch_size,
        stream=bool(getattr(loader, "_dataset_kind", 0)),
    )  # fmt: skip
    if ASKED["simulate"] and not getattr(loader, "_dataset_kind", 0):
        try:
            simulate_apart(loader)
        except Exception as error:
            tell("no_sim", **failure(error))
    loader.worker_init_fn = Begin(loader.worker_init_fn)
    return iter(loader)


def told_plain(source: Any) -> Any:
    """An iterator over a dataset or anything else that can be iterated, each item a batch of one."""
    rank, world = ASKED["rank"], ASKED["world"]
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        size = len(source)
        tell("made", type=type(source).__name__, dataset=type(source).__name__, workers=0, items=size, length=len(range(rank, size, world)), stream=False)  # fmt: skip
        return map(lambda i: told_item(i, source, lambda: source[i]), range(rank, size, world))
    tell("made", type=type(source).__name__, dataset=type(source).__name__, workers=0, items=None, stream=True)
    stream = iter(source)

    def items() -> Any:
        for number in range(1 << 62):
            try:
                sample = told_item(f"item {number}", None, lambda: next(stream))
            except StopIteration:
                return
            yield sample

    return items()


def main() -> None:
    """Tries the target."""
    listen()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: who asks is gone, so nobody listens
    where = "import"
    try:
        if importlib.util.find_spec("torch") is not None:
            importlib.import_module("torch")
            pretend()
            watch_items()
        where = "make"
        source = made()
        where = "iterate"
        loader = hasattr(source, "dataset") and hasattr(source, "num_workers") and hasattr(source, "worker_init_fn")
        batches = told_loader(source) if loader else told_plain(source)
        take(batches)
    except BaseException as error:
        tell("fail", where=where, **failure(error))


if __name__ == "__main__":
    import importlib.util

    # The folder of a program comes first in the path: what lies beside this one must hide nothing of the run's.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    sys.path.insert(0, os.getcwd())
    main()
    os._exit(0)  # workers and threads of what was tried may hang at its end
