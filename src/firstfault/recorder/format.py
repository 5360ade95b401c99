"""The layout of everything that the recorder writes: names, record kinds, and the ring of a process.

The one module of this room that other rooms may import. It writes nothing and must not raise on damaged bytes.
"""

from __future__ import annotations

import json
import re
import struct
from datetime import datetime, timezone
from typing import Any, NamedTuple

KEY = "firstfault"
SCHEMA = "record/1"
START = f'{{"{KEY}":"{SCHEMA}"'
"""The first characters of every line."""

HEADER, NODE, BEAT, EXCEPTION, DEATH, HANG, TOLD = "header", "node", "heartbeat", "exception", "death", "hang", "told"
CHANGE, LOG, END, OOM, BUNDLE, STATE, NOTE = "change", "log", "end", "oom", "bundle", "state", "note"
"""Kinds of records."""
KINDS = frozenset({HEADER, NODE, BEAT, EXCEPTION, DEATH, HANG, TOLD, CHANGE, LOG, END, OOM, BUNDLE, STATE, NOTE})

HEARTBEAT_FILE, NODE_FILE, FAULTS, REQUESTS = "heartbeat.jsonl", "node.jsonl", "faults", "requests"
LINES, RING, ASK, ANSWER = ".jsonl", ".ring", ".ask", ".answer.json"
STACKS, FATAL, SIGTERM, RECORDER, MEMORY = ".stacks.txt", ".fatal.txt", ".sigterm.txt", ".fr", ".memory.pickle"
"""Ends of the names of a process's files."""
DUMPS = (STACKS, FATAL, SIGTERM)

MAGIC = b"FFRING01"
SIZE = 4096
"""Bytes of a ring; never more."""
MAIN, WORKER = 0, 1
RUNNING, ENDED, RAISED = 0, 1, 2
"""How a process says that it ended; `RUNNING` where it says nothing."""

_HEAD = struct.Struct("<8sHHIqqiiiiiIiIq64s")
HEAD_AT, STEP_AT, PHASE_AT, CALL_AT, LOADER_AT, ITEM_AT, HISTORY_AT = 0, 256, 320, 384, 512, 576, 1024
SIGNAL_AT, ENDED_AT = 52, 56
STEP = struct.Struct("<qQqq")
"""Step (-1: none yet), number of beats, wall clock and monotonic clock in ns."""
PHASE = struct.Struct("<qq32s")
"""Since when (monotonic ns), how often, and its name."""
CALL = struct.Struct("<qqqi4x64s")
"""Begin of the last call of torch.distributed (monotonic ns), its number, ns in calls in all, whether it is still in it, its name."""
CALLED = struct.Struct("<qi")
"""The ns in calls in all, and whether it is still in one, at `CALLED_AT`."""
CALLED_AT = CALL_AT + 16
LOADER = struct.Struct("<qqqii")
"""Begin of the wait for a batch (monotonic ns; 0: not waiting), ns waited in all, batches, queue depth (-1: unknown), workers."""
ITEM = struct.Struct("<qq368s")
"""Since when (monotonic ns; 0: no item), number of the batch, the item."""
ENTRY = struct.Struct("<qq")
ENTRIES = 128
"""Steps with their monotonic times that are kept."""
U32 = struct.Struct("<I")
I32 = struct.Struct("<i")


class Head(NamedTuple):
    """Whose a ring is."""

    kind: int
    pid: int
    started: int
    """Start time of the process in clock ticks since boot, which tells a process id used again."""
    rank: int
    """-1: none."""
    local_rank: int
    world: int
    attempt: int
    worker: int
    signal: int
    """The signal that makes it dump its stacks; 0: none."""
    ended: int
    parent: int
    wall: int
    """When the ring was made, in ns."""
    host: str


class Ring(NamedTuple):
    """What a ring says."""

    head: Head
    step: int | None
    beats: int
    wall: int
    mono: int
    phase: str
    phase_since: int
    call: str
    call_since: int
    call_number: int
    in_call: bool
    called: int
    """ns in calls of torch.distributed in all, the last one not counted where it is still in it."""
    waiting_since: int
    waited: int
    batches: int
    depth: int | None
    workers: int
    item: str
    item_since: int
    batch: int
    history: tuple[tuple[int, int], ...]
    """Steps with monotonic times in ns, oldest first."""

    @property
    def last(self) -> int:
        """Monotonic time in ns of the last sign of life."""
        return max(self.mono, self.phase_since, self.call_since, self.waiting_since, self.item_since)


def pack_head(head: Head) -> bytes:
    """The first bytes of a ring."""
    return _HEAD.pack(
        MAGIC,
        1,
        head.kind,
        SIZE,
        head.pid,
        head.started,
        head.rank,
        head.local_rank,
        head.world,
        head.attempt,
        head.worker,
        head.signal,
        head.ended,
        max(head.parent, 0),
        head.wall,
        cut(head.host, 64),
    )


def read_ring(raw: bytes) -> Ring | None:
    """What a ring says; None where it is none of this version."""
    if len(raw) < SIZE or not raw.startswith(MAGIC):
        return None
    fields = _HEAD.unpack_from(raw, HEAD_AT)
    version, kind, _, pid, started, rank, local, world, attempt, worker, signal, ended, parent, wall, host = fields[1:]
    if version != 1:
        return None
    head = Head(kind, pid, started, rank, local, world, attempt, worker, signal, ended, parent, wall, _text(host))
    step, beats, last_wall, mono = STEP.unpack_from(raw, STEP_AT)
    phase_since, _, phase = PHASE.unpack_from(raw, PHASE_AT)
    call_since, number, called, inside, call = CALL.unpack_from(raw, CALL_AT)
    waiting, waited, batches, depth, workers = LOADER.unpack_from(raw, LOADER_AT)
    item_since, batch, item = ITEM.unpack_from(raw, ITEM_AT)
    entries = [ENTRY.unpack_from(raw, HISTORY_AT + n * ENTRY.size) for n in range(ENTRIES)]
    return Ring(
        head=head,
        step=None if step < 0 else step,
        beats=beats,
        wall=last_wall,
        mono=mono,
        phase=_text(phase),
        phase_since=phase_since,
        call=_text(call),
        call_since=call_since,
        call_number=number,
        in_call=inside == 1,
        called=called,
        waiting_since=waiting,
        waited=waited,
        batches=batches,
        depth=None if depth < 0 else depth,
        workers=workers,
        item=_text(item),
        item_since=item_since,
        batch=batch,
        history=tuple(sorted((e for e in entries if e[1]), key=lambda e: e[1])),
    )


def cut(text: str, size: int) -> bytes:
    """A text as bytes that fit a field; of one too long the end is kept, which tells more of a path."""
    raw = text.encode("utf-8", "backslashreplace")
    return raw if len(raw) < size else b"~" + raw[-(size - 2) :]


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def line(kind: str, fields: dict[str, Any]) -> bytes:
    """A record as one line with its end; what JSON does not know is written as text."""
    record = {KEY: SCHEMA, "kind": kind, **fields}
    return (
        json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "backslashreplace")
        + b"\n"
    )


def stamp(seconds: float) -> str:
    """A time with its offset, as every record carries it."""
    return datetime.fromtimestamp(seconds, timezone.utc).astimezone().isoformat(timespec="microseconds")


_NAME = re.compile(
    r"(?:rank-(?P<rank>\d{5,7})|process)\.(?P<attempt>\d{1,6})\.(?P<pid>\d{1,10})(?:\.worker-(?P<worker>\d{1,5})\.(?P<own>\d{1,10}))?"
)


class Name(NamedTuple):
    """Whose a file is, by its name."""

    rank: int | None
    attempt: int
    pid: int
    """The rank's process, also for a worker of its loader."""
    worker: int | None
    own: int
    """The process itself."""


def name_of(rank: int | None, attempt: int, pid: int, worker: int | None = None, own: int | None = None) -> str:
    """The stem of the names of a process's files."""
    stem = f"{'process' if rank is None else f'rank-{rank:05d}'}.{attempt}.{pid}"
    return stem if worker is None else f"{stem}.worker-{worker}.{own}"


def read_name(name: str) -> Name | None:
    """Whose a file is; None where its name is none of the recorder's."""
    found = _NAME.match(name)
    if found is None:
        return None
    rank, worker, pid = found["rank"], found["worker"], int(found["pid"])
    return Name(
        None if rank is None else int(rank),
        int(found["attempt"]),
        pid,
        None if worker is None else int(worker),
        pid if found["own"] is None else int(found["own"]),
    )
