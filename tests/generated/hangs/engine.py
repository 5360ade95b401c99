"""The event simulation: what every rank, watchdog, launcher and scheduler does and when, as records without wording.

A rank runs a program: a generator of the actions below. Collectives go into the rank's device queue, which works them off
in order; one is finished once all members have begun it with equal op and sizes. Nothing here knows how a line reads, or
which fault was put in beyond what the programs and `Faults` do.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Generator

    from .topology import Group, Shape


@dataclass(frozen=True)
class Compute:
    """The process is busy for some seconds."""

    seconds: float


@dataclass(frozen=True)
class Collective:
    """Put a collective of the group of this kind into the device queue; `peer` makes it point to point."""

    kind: str
    op: str
    numel_in: int
    numel_out: int
    peer: int | None = None


@dataclass(frozen=True)
class Sync:
    """Wait until the device queue is empty."""


@dataclass(frozen=True)
class Say:
    """Print something: a kind of line and its fields."""

    what: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stuck:
    """Never come back; the threads of the process live on unless the whole process stands still (`frozen`)."""

    frozen: bool = False
    watchdog: bool = False
    """Whether the watchdog thread is stuck as well, so that the heartbeat monitor will see it."""
    lock: bool = False
    """Whether it holds the interpreter's lock."""


@dataclass(frozen=True)
class Die:
    """The process ends by itself, with this exit code (negative: signal)."""

    code: int


Action = Compute | Collective | Sync | Say | Stuck | Die


@dataclass
class Work:
    """One collective as one rank sees it."""

    group: Group
    seq: int
    op: str
    sizes: tuple[int, int]
    key: tuple[Any, ...]
    enqueued: float
    ended: float | None = None

    @property
    def signature(self) -> tuple[str, int, int]:
        return (self.op, *self.sizes)


@dataclass
class Record:
    """Something happened that may leave lines: when, at whom (`rank`, `node`, or neither: the scheduler), what."""

    time: float
    what: str
    rank: int | None = None
    node: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Process:
    """The state of one rank."""

    rank: int
    program: Generator[Action, None, None]
    queue: deque[Work] = field(default_factory=deque)
    waiting: bool = False
    stuck: Stuck | None = None
    ended: float | None = None
    code: int | None = None
    signal_sent: bool = False
    detected: dict[str, float] = field(default_factory=dict)
    """Group (guid) -> when its watchdog saw a time-out."""
    enqueued: dict[str, int] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)
    point_to_point: int = 0
    open_works: dict[str, deque[Work]] = field(default_factory=dict)
    aborting: bool = False
    notified: bool = False

    @property
    def alive(self) -> bool:
        return self.ended is None


@dataclass
class Rules:
    """What differs between versions and set-ups, as far as it changes what happens."""

    timeout: float
    recorder: bool
    """Whether time-outs are told to the other ranks for dumps, which keeps a process alive for a minute more."""
    agents: bool
    """torchrun watches the ranks of each node; else the tasks of srun are the ranks."""
    tick: float
    """How often an agent looks after its workers."""
    kill_on_bad_exit: bool
    heartbeat: float = 600.0
    heartbeat_monitor: bool = True
    blocked: Callable[[Group], bool] = lambda _group: False
    """Whether the fabric moves nothing for this group now."""


class Engine:
    """One run of the job; `run` gives all records in the order of true time."""

    def __init__(
        self,
        shape: Shape,
        rules: Rules,
        rng: random.Random,
        programs: Callable[[int], Generator[Action, None, None]],
        first: dict[str, int],
    ) -> None:
        self.shape = shape
        self.rules = rules
        self.rng = rng
        self.records: list[Record] = []
        self.first = first
        self.processes = [Process(rank, programs(rank)) for rank in range(shape.world)]
        for process in self.processes:
            for kind, group in shape.by_rank[process.rank].items():
                process.enqueued[group.guid] = process.completed[group.guid] = first[kind] or -1
        self.meetings: dict[tuple[Any, ...], dict[int, Work]] = {}
        self.pairs: dict[tuple[Any, ...], int] = {}
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self.now = 0.0
        self._signalled: float | None = None
        self._cancelled = False
        self._failed_nodes: dict[int, float] = {}

    # The clock

    def at(self, time: float, call: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._heap, (time, next(self._order), call, arguments))

    def run(self) -> list[Record]:
        for process in self.processes:
            self.at(self.rng.uniform(0, 0.4), self._advance, process)
        self._drain()
        if any(process.alive for process in self.processes):
            self._watch()
            self._drain()
        self.records.sort(key=lambda record: record.time)
        return self.records

    def _drain(self) -> None:
        while self._heap:
            self.now, _, call, arguments = heapq.heappop(self._heap)
            call(*arguments)

    def note(
        self, what: str, rank: int | None = None, node: int | None = None, after: float = 0.0, **fields: Any
    ) -> None:
        if rank is not None:
            node = rank // self.shape.per_node
        self.records.append(Record(self.now + after, what, rank, node, fields))

    # Running programs

    def _advance(self, process: Process) -> None:
        if not process.alive or process.stuck is not None:
            return
        for action in process.program:
            if isinstance(action, Compute):
                self.at(self.now + action.seconds, self._advance, process)
                return
            if isinstance(action, Collective):
                self._enqueue(process, action)
            elif isinstance(action, Sync):
                if process.queue:
                    process.waiting = True
                    return
            elif isinstance(action, Say):
                self.note(action.what, process.rank, **action.fields)
            elif isinstance(action, Stuck):
                process.stuck = action
                return
            else:
                self._end(process, action.code)
                return
        self._end(process, 0)

    def _enqueue(self, process: Process, action: Collective) -> None:
        group = self.shape.by_rank[process.rank][action.kind]
        if action.peer is None:
            seq = max(process.enqueued[group.guid], 0) + 1
            process.enqueued[group.guid] = seq
            key: tuple[Any, ...] = (group.guid, seq)
        else:
            # Numbered by the process over all its peers, but matched pair by pair.
            process.point_to_point += 1
            seq = self.first["p2p"] + process.point_to_point
            pair = (group.guid, *sorted((process.rank, action.peer)))
            side = (process.rank, *pair)
            count = self.pairs.get(side, 0)
            self.pairs[side] = count + 1
            key = (*pair, count)
            process.enqueued[group.guid] = seq
        work = Work(group, seq, action.op, (action.numel_in, action.numel_out), key, self.now)
        process.queue.append(work)
        process.open_works.setdefault(group.guid, deque()).append(work)
        if len(process.queue) == 1:
            self._begin(process)

    def _begin(self, process: Process) -> None:
        work = process.queue[0]
        meeting = self.meetings.setdefault(work.key, {})
        meeting[process.rank] = work
        wanted = work.group.size if len(work.key) == 2 else 2
        if len(meeting) < wanted or self.rules.blocked(work.group):
            return
        if len(work.key) == 2 and len({entry.signature for entry in meeting.values()}) > 1:
            return
        self.at(self.now + self.rng.uniform(0.002, 0.02), self._finish, work.key)

    def _finish(self, key: tuple[Any, ...]) -> None:
        meeting = self.meetings.pop(key)
        for rank, work in meeting.items():
            process = self.processes[rank]
            work.ended = self.now
            process.completed[work.group.guid] = work.seq
            process.queue.popleft()
            process.open_works[work.group.guid].popleft()
            if not process.alive:
                continue
            if process.queue:
                self._begin(process)
            elif process.waiting:
                process.waiting = False
                self.at(self.now + self.rng.uniform(0.001, 0.03), self._advance, process)

    def _end(self, process: Process, code: int) -> None:
        if not process.alive:
            return
        process.ended = self.now
        process.code = code
        self.note("end", process.rank, code=code)
        if process.rank == 0 and not self.rules.agents:
            self._lose_store()
        if code != 0:
            self._look_after(process)

    def _lose_store(self) -> None:
        """The store goes with rank 0; the monitors of the others notice that they cannot ask it any more."""
        for other in self.processes:
            if other.alive and (other.stuck is None or not other.stuck.frozen):
                self.at(self.now + self.rng.uniform(0.2, 1.2), self._miss_store, other)

    def _miss_store(self, process: Process) -> None:
        if process.alive:
            self.note("store_gone", process.rank)

    # Watchdogs, once nothing moves any more

    def _watch(self) -> None:
        for process in self.processes:
            if not process.alive or (process.stuck is not None and process.stuck.frozen):
                continue
            if process.stuck is not None and process.stuck.watchdog:
                if self.rules.heartbeat_monitor:
                    self.at(self.now + self.rules.heartbeat, self._no_heartbeat, process)
                continue
            for works in process.open_works.values():
                if works:
                    due = works[0].enqueued + self.rules.timeout + self.rng.uniform(0.01, 0.12)
                    self.at(max(due, self.now), self._time_out, process, works[0])

    def _time_out(self, process: Process, work: Work) -> None:
        if not process.alive or (process.aborting and not self.rules.recorder):
            return
        guid = work.group.guid
        first = not process.detected
        process.detected[guid] = self.now
        self.note(
            "timeout",
            process.rank,
            work=work,
            ran=int((self.now - work.enqueued) * 1000),
            enqueued=process.enqueued[guid],
            completed=process.completed[guid],
            first=first,
            timeout=int(self.rules.timeout * 1000),
        )
        if not first:
            return
        if self.rules.recorder:
            self._signal(process, work)
            linger = self.rng.uniform(60.2, 62.5)
        else:
            linger = self.rng.uniform(0.0005, 0.004)
        process.aborting = True
        self.at(self.now + linger, self._abort, process, work, int((self.now - work.enqueued) * 1000))

    def _signal(self, process: Process, work: Work) -> None:
        self.note("signal", process.rank, after=0.0002, group=work.group)
        self.note("dump_own", process.rank, after=self.rng.uniform(0.1, 0.9), **self._default_numbers(process))
        if self._signalled is not None:
            return
        self._signalled = self.now
        for other in self.processes:
            if other is not process and other.alive and (other.stuck is None or not other.stuck.frozen):
                self.at(self.now + self.rng.uniform(0.1, 1.4), self._hear, other, process.rank)

    def _hear(self, process: Process, source: int) -> None:
        if process.alive and not process.detected and not process.notified:
            process.notified = True
            self.note("dump_heard", process.rank, source=source, **self._default_numbers(process))
            if process.stuck is not None:
                self.at(self.now + self.rng.uniform(66, 69), self._give_up, process)

    def _default_numbers(self, process: Process) -> dict[str, int]:
        guid = self.shape.by_kind["default"][0].guid
        return {"enqueued": process.enqueued[guid], "completed": process.completed[guid]}

    def _give_up(self, process: Process) -> None:
        if process.alive:
            if process.stuck is not None and process.stuck.lock:
                self.note("gil", process.rank)
            self.note("terminating", process.rank, after=0.001)
            self._end(process, -6)

    def _abort(self, process: Process, work: Work, ran: int) -> None:
        if not process.alive:
            return
        timeout = int(self.rules.timeout * 1000)
        self.note("abort", process.rank, work=work, ran=ran, timeout=timeout, enqueued=process.enqueued[work.group.guid],
                  completed=process.completed[work.group.guid])  # fmt: skip
        self.at(self.now + self.rng.uniform(0.4, 1.8), self._end, process, -6)

    def _no_heartbeat(self, process: Process) -> None:
        if process.alive:
            open_works = sum(map(len, process.open_works.values()))
            self.note("heartbeat", process.rank, seconds=int(self.rules.heartbeat), works=open_works)
            self.at(self.now + self.rng.uniform(1, 3), self._heart_stops, process)

    def _heart_stops(self, process: Process) -> None:
        if process.alive:
            self.note("heartbeat_fatal", process.rank, seconds=int(self.rules.heartbeat))
            self._end(process, -6)

    # Launchers and the scheduler

    def _look_after(self, process: Process) -> None:
        node = process.rank // self.shape.per_node
        if self.rules.agents:
            if node not in self._failed_nodes:
                self._failed_nodes[node] = self.now
                self.at(self.now + self.rng.uniform(0.05, self.rules.tick), self._clear_node, node, process)
        elif self.rules.kill_on_bad_exit and not self._cancelled:
            self._cancelled = True
            self.at(self.now + self.rng.uniform(0.2, 1.0), self._cancel, node)

    def _clear_node(self, node: int, first: Process) -> None:
        start = node * self.shape.per_node
        workers = self.processes[start : start + self.shape.per_node]
        if any(worker.stuck is not None and worker.stuck.frozen for worker in workers):
            return
        by_themselves = [worker for worker in workers if not worker.alive and worker.code != 0]
        survivors = [worker for worker in workers if worker.alive]
        for worker in survivors:
            self.note("agent_signal", node=node, of=worker.rank)
            worker.ended, worker.code, worker.signal_sent = self.now, -15, True
        self.note("agent_failed", node=node, after=0.4, of=first.rank, code=first.code)
        failures = sorted(by_themselves, key=lambda worker: worker.ended or 0.0)
        self.note("banner", node=node, after=0.5, failures=[(w.rank, w.code, w.ended) for w in failures])
        self.note("task_exit", after=1.0, node=node, code=1)
        if self.rules.kill_on_bad_exit and not self._cancelled:
            self._cancelled = True
            self.at(self.now + self.rng.uniform(2.0, 5.0), self._cancel, node)

    def _cancel(self, node: int) -> None:
        self.note("cancelled", node=node)
        for process in self.processes:
            if process.alive:
                process.ended, process.code, process.signal_sent = self.now, -15, True
