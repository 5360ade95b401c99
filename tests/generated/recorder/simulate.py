"""A small machine room: ranks that issue collectives and messages, devices that run them, a fault, and what is recorded.

Knows nothing of the analysis. Each rank runs a program of works in order; its device runs them in order too; a collective
ends when it is at the head of the device of every member, a message when both sides are there. When nothing moves any
more, the recorder of each rank is dumped in the form of a version of PyTorch.
"""

from __future__ import annotations

import json
import pickle
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MS = 1_000_000
START = 1_795_962_000_000_000_000


@dataclass(frozen=True)
class Work:
    """One work as its program has it."""

    group: str
    op: str
    size: tuple[int, ...] = (1024,)
    out: tuple[int, ...] | None = None
    dtype: str = "BFloat16"
    peer: int | None = None
    """Global rank of the other side of a message."""
    where: str = "train_step"
    parts: int = 0
    """More than one: a coalesced call of so many parts."""


@dataclass
class Group:
    """A process group."""

    name: str
    desc: str
    members: tuple[int, ...]


@dataclass
class Entry:
    """A work as its rank has issued it."""

    work: Work
    record: int
    seq: int
    p2p_seq: int
    created: int
    started: int | None = None
    done: int | None = None


@dataclass
class Rank:
    """A process with its device."""

    number: int
    program: list[Work]
    issued: list[Entry] = field(default_factory=list)
    queue: deque[Entry] = field(default_factory=deque)
    seq: dict[str, int] = field(default_factory=dict)
    p2p: dict[str, int] = field(default_factory=dict)
    clock: int = 0
    """Nanoseconds by which its clock is off."""
    stops_at: int | None = None
    """Its program never issues the work of this index."""
    blind_from: int | None = None
    """From this index on it sees no work of its device end."""
    halts_at: int | None = None
    """Its device never runs the work of this index, nor those behind it."""
    sleeps: dict[int, int] = field(default_factory=dict)
    """Index of a work -> nanoseconds that the program takes before it."""
    now: int = 0


@dataclass
class Room:
    """All ranks of one job."""

    groups: dict[str, Group]
    ranks: list[Rank]
    ahead: int = 6
    """Works that a program issues before it waits for the oldest."""
    stuck: Callable[[Work, int], bool] = lambda _work, _seq: False
    """Collectives that never end although all members are there."""
    timeout: int = 600_000 * MS
    timed: bool = True
    """Whether begins are recorded."""

    def run(self) -> None:
        """Lets everything move until nothing does."""
        moved = True
        while moved:
            moved = False
            for rank in self.ranks:
                while self._issue(rank):
                    moved = True
            while self._finish():
                moved = True

    def _issue(self, rank: Rank) -> bool:
        index = len(rank.issued)
        if index >= len(rank.program) or index == rank.stops_at or len(rank.queue) >= self.ahead:
            return False
        work = rank.program[index]
        rank.now += rank.sleeps.get(index, 0) + 2 * MS
        if work.peer is None:
            rank.seq[work.group] = rank.seq.get(work.group, 0) + 1
        else:
            rank.p2p[work.group] = rank.p2p.get(work.group, 0) + 1
        entry = Entry(
            work, index, rank.seq.get(work.group, 0), rank.p2p.get(work.group, 0), START + rank.now + rank.clock
        )
        rank.issued.append(entry)
        rank.queue.append(entry)
        return True

    def _finish(self) -> bool:
        moved = False
        heads = {
            r.number: r.queue[0]
            for r in self.ranks
            if r.queue and (r.halts_at is None or r.queue[0].record < r.halts_at)
        }
        looked: set[tuple[str, int, int | None]] = set()
        for number, head in heads.items():
            key = (head.work.group, head.seq if head.work.peer is None else number, head.work.peer)
            if key in looked or not self.ranks[number].queue or self.ranks[number].queue[0] is not head:
                continue
            looked.add(key)
            members = self._sides(number, head)
            together = {m: heads[m] for m in members if m in heads}
            if len(together) == len(members) and self._fit(number, head, together):
                moved = self._end(head, together) or moved
        return moved

    def _sides(self, number: int, head: Entry) -> tuple[int, ...]:
        """Ranks that take part in a work."""
        return self.groups[head.work.group].members if head.work.peer is None else (number, head.work.peer)

    def _fit(self, number: int, head: Entry, together: dict[int, Entry]) -> bool:
        """Whether the other sides are at the same work."""
        work = head.work
        if work.peer is not None:
            other = together[work.peer].work
            wanted = "recv" if work.op == "send" else "send"
            return (other.op, other.peer, other.group) == (wanted, number, work.group)
        same = (None, work.group, head.seq, work.op, work.size, work.dtype)
        return all(
            (e.work.peer, e.work.group, e.seq, e.work.op, e.work.size, e.work.dtype) == same for e in together.values()
        )

    def _end(self, head: Entry, together: dict[int, Entry]) -> bool:
        """Ends a work on all its ranks, unless somebody has given up or it is stuck."""
        begun = [e.created - self.ranks[n].clock for n, e in together.items()]
        end = max(begun) + MS
        if end - min(begun) > self.timeout:
            return False
        for number, entry in together.items():
            member = self.ranks[number]
            entry.started = end - MS + member.clock
            if self.stuck(head.work, head.seq):
                continue
            member.queue.popleft()
            member.now = max(member.now, end - START)
            if member.blind_from is None or entry.record < member.blind_from:
                entry.done = end + member.clock
        return not self.stuck(head.work, head.seq)


@dataclass(frozen=True)
class Form:
    """How a dump is written."""

    version: str = "2.10"
    backend: str = "nccl"
    ring: int = 2000
    active_only: bool = False
    as_json: bool = False
    frames: bool = True
    config: bool = True
    counters: bool = True


def dump(room: Room, rank: Rank, form: Form) -> dict[str, Any]:
    """What a recorder holds at the end."""
    mine = [g for g in room.groups.values() if rank.number in g.members]
    number = {g.name: i for i, g in enumerate(mine)}
    rows = [_row(room, rank, e, form, number) for e in rank.issued]
    rows = [part for row in rows for part in row][-form.ring :]
    if form.active_only:
        rows = [row for row in rows if row["state"] != "completed"]
    top: dict[str, Any] = {"version": form.version}
    if tuple(map(int, form.version.split("."))) >= (2, 10):
        top["comm_lib_version"] = "2.28.9"
    elif form.version >= "2.3":
        top["nccl_version"] = "2.21.5"
    if form.config:
        top["pg_config"] = {g.name: {"name": g.name, "desc": g.desc, "ranks": str(list(g.members))} for g in mine}
    else:
        top["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
    if form.counters:
        top["pg_status"] = {str(number[g.name]): _status(rank, g.name) for g in mine}
    top["entries"] = rows
    return top


def _status(rank: Rank, group: str) -> dict[str, int]:
    own = [e for e in rank.issued if e.work.group == group]
    seq = [e.seq if e.work.peer is None else e.p2p_seq for e in own]
    done = [n for n, e in zip(seq, own, strict=True) if e.done is not None]
    return {
        "last_enqueued_collective": seq[-1] if seq else -1,
        "last_started_collective": -1,
        "last_completed_collective": done[-1] if done else -1,
    }


def _row(room: Room, rank: Rank, e: Entry, form: Form, number: dict[str, int]) -> list[dict[str, Any]]:
    w, group = e.work, room.groups[e.work.group]
    keeps = form.backend != "gloo"
    done = e.done if keeps else None
    started = e.started if keeps and room.timed else None
    if w.peer is None:
        name = f"{form.backend}:{w.op}"
    else:
        here, there = group.members.index(rank.number), group.members.index(w.peer)
        name = f"{form.backend}:{w.op} {here}{'->' if w.op == 'send' else '<-'}{there}"
    base: dict[str, Any] = {
        "record_id": e.record,
        "pg_id": number[group.name],
        "process_group": [group.name, group.desc] if form.as_json else (group.name, group.desc),
        "collective_seq_id": e.seq,
        "p2p_seq_id": e.p2p_seq,
        "op_id": e.record + 1,
        "profiling_name": name,
        "time_created_ns": e.created,
        "input_sizes": [list(w.size)],
        "input_dtypes": [w.dtype],
        "output_sizes": [list(w.out or w.size)],
        "output_dtypes": [w.dtype],
        "state": "completed" if done is not None else "started" if started is not None else "scheduled",
        "time_discovered_started_ns": started if started is not None else 0 if form.as_json else None,
        "time_discovered_completed_ns": done if done is not None else 0 if form.as_json else None,
        "retired": e.done is not None,
        "timeout_ms": room.timeout // MS,
        "is_p2p": w.peer is not None,
    }
    if form.frames and not form.as_json:
        base["frames"] = [
            {
                "name": w.op,
                "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
                "line": 2800,
            },
            {"name": w.where, "filename": "/home/user/train/pretrain.py", "line": 40 + len(w.where)},
            {"name": "main", "filename": "/home/user/train/pretrain.py", "line": 210},
        ]
    if tuple(map(int, form.version.split("."))) >= (2, 10):
        base |= {"thread_name": "python3", "thread_id": "140184367373184"}
    if w.parts < 2:
        return [base]
    # The parts of a coalesced call are never seen to end; the entry that closes it is.
    part = base | {"state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
    closing = base | {"profiling_name": f"{form.backend}:coalesced", "input_sizes": [], "output_sizes": []}
    return [*([part] * w.parts), closing]


def write(
    room: Room, folder: Path, form: Form, *, without: tuple[int, ...] = (), name: str = "nccl_trace_rank_{}"
) -> None:
    """Writes the dump of each rank but those that left none."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in room.ranks:
        if rank.number in without:
            continue
        top = dump(room, rank, form)
        if form.as_json:
            strings = {k: {n: str(v) for n, v in row.items()} for k, row in top.get("pg_status", {}).items()}
            top["pg_status"] = strings
            if not top["entries"]:
                del top["entries"]
            raw = json.dumps(top, sort_keys=True).encode()
        else:
            raw = pickle.dumps(top, 2)
        (folder / name.format(rank.number)).write_bytes(raw)


def mesh(tensor: int, pipeline: int, data: int) -> dict[str, Group]:
    """Groups of a job with tensor, pipeline and data parallelism; rank = (data * pipeline + stage) * tensor + column."""
    world = tensor * pipeline * data
    grid = [[[(d * pipeline + p) * tensor + t for t in range(tensor)] for p in range(pipeline)] for d in range(data)]
    groups = {"0": Group("0", "default_pg", tuple(range(world)))}
    rows = [
        *(("tp", tuple(grid[d][p])) for d in range(data) for p in range(pipeline)),
        *(("pp", tuple(grid[d][p][t] for p in range(pipeline))) for d in range(data) for t in range(tensor)),
        *(("dp", tuple(grid[d][p][t] for d in range(data))) for p in range(pipeline) for t in range(tensor)),
    ]
    for kind, members in rows:
        if len(members) > 1:
            groups[str(len(groups))] = Group(str(len(groups)), f"{kind.upper()}_GROUP", members)
    return groups


def training(groups: dict[str, Group], world: int, steps: int) -> list[Rank]:
    """Programs of a training: forward through the stages, backward, gradients, and a norm over all ranks, each step."""
    by_kind: dict[tuple[str, int], Group] = {}
    for group in groups.values():
        for member in group.members:
            by_kind[group.desc, member] = group
    ranks = []
    for number in range(world):
        program: list[Work] = []
        tp, pp, dp = (by_kind.get((f"{kind}_GROUP", number)) for kind in ("TP", "PP", "DP"))
        for _ in range(steps):
            program += _step(number, tp, pp, dp)
        ranks.append(Rank(number, program, clock=random.Random(number).randrange(-50, 50) * MS))
    return ranks


def _step(number: int, tp: Group | None, pp: Group | None, dp: Group | None) -> list[Work]:
    works = []
    place = pp.members.index(number) if pp is not None else 0
    before = pp.members[place - 1] if pp is not None and place > 0 else None
    after = pp.members[place + 1] if pp is not None and place + 1 < len(pp.members) else None
    if pp is not None and before is not None:
        works.append(Work(pp.name, "recv", (64, 32), peer=before, where="forward_step"))
    if tp is not None:
        works += [
            Work(tp.name, "_all_gather_base", (64, 32), (64 * len(tp.members), 32), where="forward"),
            Work(tp.name, "all_reduce", (64, 32), where="forward"),
        ]
    if pp is not None and after is not None:
        works += [
            Work(pp.name, "send", (64, 32), peer=after, where="forward_step"),
            Work(pp.name, "recv", (64, 32), peer=after, where="backward_step"),
        ]
    if tp is not None:
        works.append(Work(tp.name, "all_reduce", (64, 32), where="backward"))
    if pp is not None and before is not None:
        works.append(Work(pp.name, "send", (64, 32), peer=before, where="backward_step"))
    if dp is not None:
        works.append(Work(dp.name, "all_reduce", (4096,), where="reduce_gradients"))
        works.append(Work(dp.name, "_all_gather_base", (512,), (512 * len(dp.members),), where="gather", parts=2))
    works.append(Work("0", "all_reduce", (1,), dtype="Float", where="clip_grad_norm"))
    return works
