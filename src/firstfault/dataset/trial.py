"""What a dry run tells, folded while it runs: counts, times, the slowest items, failures by kind; bounded whatever it tells."""

from __future__ import annotations

import heapq
import re
from typing import Any, NamedTuple

KEPT = 10
"""Slowest items, and names of each kind of failure, that are kept."""
KINDS = 50
"""Kinds of failure that are told apart."""
MOST_KEYS = 2_000_000
"""Items by which repetition is seen."""
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_DEAD = re.compile(r"DataLoader worker \(pid(?:\(s\))? (\d+(?:, ?\d+)*)\) (?:exited unexpectedly|is killed by signal)")
"""torch 2.13: `DataLoader worker (pid(s) 4711) exited unexpectedly`, `DataLoader worker (pid 4711) is killed by signal: Killed.`"""


def number_of(told: dict[str, Any]) -> int | None:
    """Number of the worker that tells; None for the process itself."""
    return None if told.get("w") is None else int(told["w"])


class Open(NamedTuple):
    """An item that has begun and not ended."""

    name: str
    pid: int
    worker: int | None
    since: float


class Stood:
    """Something that did not come in time."""

    def __init__(self, what: Open, after: float, stack: list[str], kernel: str) -> None:
        self.what, self.after, self.stack, self.kernel = what, after, stack, kernel
        self.ended: float | None = None
        """Seconds that it took in the end; None where it never came."""


class Failure:
    """Items that failed in one way."""

    def __init__(self, kind: str, text: str, frames: list[str], *, collate: bool) -> None:
        self.kind, self.text, self.frames, self.collate = kind, text, frames, collate
        self.count = 0
        self.names: list[str] = []
        self.dead = False
        """Whether a worker died; the names are then items that it had begun."""


class Worker:
    """A process that loads items."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.items = self.failed = 0
        self.busy = 0.0
        self.state = ""


class Trial:
    """One rank."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.end = ""
        self.code: int | None = None
        self.seconds = self.tried = 0.0
        """Of all, and since the loader was made."""
        self.said = ""
        self.made: dict[str, Any] = {}
        self.failure: dict[str, Any] = {}
        """Of the import, of making the loader, or of iterating it."""
        self.absent = ""
        self.pretends: bool | None = None
        self.processes: set[int] = set()
        self.workers: dict[int, Worker] = {}
        self.open: dict[int, Open] = {}
        self.stood: list[Stood] = []
        self.place: list[str] = []
        """Where it stood at the limit of time, where no batch had come."""
        self.failures: dict[str, Failure] = {}
        self.errors: dict[str, Failure] = {}
        """Of whole batches, as the loop that trains would get them."""
        self.times: list[float] = []
        self.items = self.failed = 0
        self.batch_bytes = 0
        self.slow: list[tuple[float, str, int]] = []
        self.keys: dict[str, str] = {}
        """Key or content -> the first item that had it."""
        self.again: dict[str, list[str]] = {"key": [], "content": []}
        self.repeated = {"key": 0, "content": 0}
        self.sampler: dict[str, Any] = {}
        self.simulated: dict[int, tuple[int, int]] = {}
        self.shared: dict[int, int] = {}
        self.memory_mb: int | None = None
        self.shm_mb: int | None = None

    def take(self, told: dict[str, Any], now: float) -> None:
        """Takes one record.

        Args:
            told: the record; fields of a wrong kind raise TypeError, ValueError, KeyError or AttributeError.
            now: seconds of the clock that never goes back.
        """
        pid, number, kind = int(told["pid"]), told.get("w"), str(told["k"])
        worker = None if number is None else self.workers.setdefault(int(number), Worker(pid))
        match kind:
            case "process" | "worker":
                self.processes.add(pid)
                if worker is not None:
                    worker.pid = pid
            case "b":
                self.open[pid] = Open(str(told["n"])[:400], pid, number, now)
            case "n":
                self.open.pop(pid, None)
            case "e" | "x":
                self._item(told, pid, worker)
            case "batch":
                self.times.append(float(told["s"]))
                for stood in self.stood:
                    if not stood.what.name and stood.ended is None:
                        stood.ended = now - stood.what.since
                self.batch_bytes = max(self.batch_bytes, int(told["bytes"]))
            case "error":
                self._error(told)
            case "end":
                self.end = str(told["how"]) if told["how"] in {"ended", "batches", "gave_up"} else "failed"
            case "sim":
                self.simulated[int(told["rank"])] = (int(told["batches"]), int(told["items"]))
                self.shared[int(told["rank"])] = int(told["shared"])
            case _:
                self._said(kind, told)

    def _said(self, kind: str, told: dict[str, Any]) -> None:
        match kind:
            case "made":
                self.made = told
            case "fail":
                self.failure = told
            case "absent":
                self.absent = str(told["text"])[:400]
            case "pretends" | "no_group":
                self.pretends = kind == "pretends"
            case "sampler" | "plain_sampler":
                self.sampler = told
            case _:
                pass

    def _item(self, told: dict[str, Any], pid: int, worker: Worker | None) -> None:
        name, seconds = str(told["n"])[:400], float(told["s"])
        began = self.open.pop(pid, None)
        for stood in self.stood:
            if began is not None and stood.what == began:
                stood.ended = seconds
        if worker is not None:
            worker.busy += seconds
        if told["k"] == "x":
            if not told.get("collate"):
                self.failed += 1
                if worker is not None:
                    worker.failed += 1
            self._fold(self.failures, told, name)
            return
        count = max(1, int(told.get("c", 1)))
        self.items += count
        if worker is not None:
            worker.items += count
        held = (seconds, name, -1 if told.get("w") is None else int(told["w"]))
        if len(self.slow) < KEPT:
            heapq.heappush(self.slow, held)
        else:
            heapq.heappushpop(self.slow, held)
        stream = bool(self.made.get("stream"))
        self._repeats(
            str(told.get("key", "")),
            str(told.get("h", "")),
            name if not stream or number_of(told) is None else f"worker {number_of(told)} {name}",
            stream=stream,
        )

    def _error(self, told: dict[str, Any]) -> None:
        """Takes what the training loop would get. Where a worker died, the batch that was waited for is any; the item that it had begun is told."""
        dead = _DEAD.search(str(told.get("text", ""))[:1500])
        if dead is None:
            self._fold(self.errors, told, f"batch {len(self.times)}")
            return
        begun = [self.open.pop(int(pid), None) for pid in dead[1].split(",")]
        one = self._fold(self.errors, told, *(b.name for b in begun if b is not None))
        one.dead = True

    def _repeats(self, key: str, content: str, name: str, *, stream: bool) -> None:
        """Notes an item whose key, or else whose content, was there before; an index that a sampler gives twice is one item."""
        what, mark = ("key", f"k{key}") if key else ("content", f"h{content}")
        if len(mark) == 1 or len(self.keys) > MOST_KEYS:
            return
        first = self.keys.setdefault(mark, name)
        if first is not name and (stream or first != name):
            self.repeated[what] += 1
            if len(self.again[what]) < KEPT:
                self.again[what].append(f"{first} = {name}" if what == "content" else f"{key}: {first}, {name}")

    @staticmethod
    def _fold(held: dict[str, Failure], told: dict[str, Any], *names: str) -> Failure:
        frames = [str(f)[:300] for f in told.get("frames", [])][-6:]
        text, kind = str(told.get("text", ""))[:1500], str(told.get("type", ""))[:100]
        # Items that fail alike differ in a number or a path, not in where the code was.
        mark = f"{kind} {frames[-1] if frames else _NUMBERS.sub('#', text)[:200]}"
        if mark not in held and len(held) >= KINDS:
            mark = next(reversed(held))
        one = held.setdefault(mark, Failure(kind, text, frames, collate=bool(told.get("collate"))))
        one.count += 1
        one.names += names[: KEPT - len(one.names)]
        return one
