"""The layout of everything that the recorder writes: names, record kinds, and the ring of a process.

The one module of this room that other rooms may import. It writes nothing and must not raise on damaged bytes.
"""

from __future__ import annotations

import json
import math
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
LOST, SIGN = "lost", "pulse"
"""Kinds of records."""
AFTER_END = "after_end"
"""Field of a lost node's record: the ranks of the monitor that missed it had failed by then."""
KINDS = frozenset(
    {HEADER, NODE, BEAT, EXCEPTION, DEATH, HANG, TOLD, CHANGE, LOG, END, OOM, BUNDLE, STATE, NOTE, LOST, SIGN}
)

STACKS_OF = "firstfault stacks: "
"""How the line above stacks begins, which tells whose they are."""
HEARTBEAT_FILE, NODE_FILE, PULSE = "heartbeat.jsonl", "node.jsonl", "pulse.jsonl"
FAULTS, REQUESTS, LAUNCHES = "faults", "requests", "launches"
LINES, RING, ASK, ANSWER = ".jsonl", ".ring", ".ask", ".answer.json"
STATUS = ".status"
"""What `firstfault record` leaves of a process that it has started: how it ended, before anybody can no longer ask the kernel."""
STACKS, FATAL, SIGTERM, RECORDER, MEMORY = ".stacks.txt", ".fatal.txt", ".sigterm.txt", ".fr", ".memory.pickle"
"""Ends of the names of a process's files."""
DUMPS = (STACKS, FATAL, SIGTERM)

MAGIC = b"FFRING03"
VERSION = 3
SIZE = 4096
"""Bytes of a ring; never more."""
MAIN, WORKER = 0, 1
RUNNING, ENDED, RAISED = 0, 1, 2
"""How a process says that it ended; `RUNNING` where it says nothing."""

_HEAD = struct.Struct("<8sHHIqqiiiiiIiIq64s")
HEAD_AT, LIVE_AT, SAID_AT, SEEN_AT, CALL_AT, LOADER_AT, ITEM_AT, HISTORY_AT = 0, 256, 320, 384, 448, 576, 608, 1024
SIGNAL_AT, ENDED_AT = 52, 56
OFFSET, ASKED, GIVEN, WAITED, BATCHES = range(LIVE_AT // 8, LIVE_AT // 8 + 5)
"""Places, in words of 8 bytes, of what is written by one store each: what is to be added to the number of steps for the program's
own; when a batch was asked for and when one was given; ns waited for batches in all; their number. Times are monotonic, in ns."""
LIVE = struct.Struct("=5q")
SAID = struct.Struct("=qq32s")
"""The phase that the program says: since when (monotonic ns), how often it said one, and its name."""
SEEN = struct.Struct("=qqq32s")
"""What was seen of the main thread: when it was looked at last, when anything had changed, since when it was in the phase; its name."""
CALL = struct.Struct("=qqqq64s")
"""The call of torch.distributed that was seen: since when, its number (-1: unknown), ns seen in calls in all, whether in it; its name."""
LOADER = struct.Struct("=ii")
"""Batches that lay ready (-1: unknown), workers; as they were seen."""
ITEM = struct.Struct("=qq368s")
"""Since when (monotonic ns; 0: no item), number of the batch, the item."""
ENTRY = struct.Struct("=qq")
"""Number of steps done, and when the last of them was: all that a step writes, into the entry after that of the step before."""
ENTRIES = 128
"""Steps with their times that are kept."""
HISTORY = HISTORY_AT // 8
LAST_ENTRY = HISTORY + 2 * (ENTRIES - 1)
"""Places of the first and the last entry, in words of 8 bytes."""
PLACES = ("call", "data", "forward", "backward", "optimizer", "checkpoint", "evaluation", "other")
"""Where looks find a program once it makes steps: in a call of torch.distributed, else in a phase."""
SPENT = HISTORY + 2 * ENTRIES
"""Place, in words of 8 bytes, of ns that were seen in each of `PLACES` lately."""
LOOKS, BLOCKING = SPENT + len(PLACES), SPENT + len(PLACES) + 1
"""Places of the number of looks that told so, and of whether its groups wait where a look sees it: one of the three that follow."""
UNASKED, WAITS_SEEN, WAITS_ELSEWHERE = 0, 1, 2
"""Groups of which nobody knows; of gloo and the like, whose collectives hold the thread that calls; of devices, which hold it anywhere."""
_SPENT = struct.Struct(f"={len(PLACES) + 2}q")
START_UP = "start_up"
"""The phase in which a program is from the moment on that it looks for its group, until its first batch or step."""
OLD_LOOK_NS = 5_000_000_000
"""An older look tells nothing of where the process is now: it is looked at every second, unless its interpreter is held."""
U32 = struct.Struct("<I")
I32 = struct.Struct("<i")


SLOWER = 20.0
"""Usual steps that must pass without a sign of life for a standstill, where they are long."""


def still_after(hang_s: float, start_s: float, steps: int, pace_s: float | None) -> float:
    """Seconds without a sign of life from which on a process stands still; without end where nobody wants to be told.

    Args:
        hang_s: as the recorder was told; 0: never.
        start_s: the same before the first step, in which a program compiles, loads and waits for others.
        steps: that it has done.
        pace_s: its usual time of a step.
    """
    if hang_s <= 0:
        return math.inf
    return max(hang_s if steps else max(start_s, hang_s), SLOWER * (pace_s or 0.0))


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
    """What a ring says. What was seen of the main thread counts only where nothing is known to have happened since."""

    head: Head
    step: int | None
    beats: int
    """Steps that were done."""
    mono: int
    """When the last one was, in monotonic ns."""
    phase: str
    phase_since: int
    sure: str
    """The phase without what was only seen by a look."""
    sure_since: int
    call: str
    call_since: int
    call_number: int | None
    """How many calls of torch.distributed it had begun, in all groups; None where torch does not tell."""
    in_call: bool
    called: int
    """ns in which it was seen in calls of torch.distributed in all."""
    waiting_since: int
    """Since when it waits for a batch; 0 where it does not."""
    given: int
    """When it was given the last one."""
    waited: int
    batches: int
    depth: int | None
    workers: int
    item: str
    item_since: int
    batch: int
    seen: int
    """When its main thread was looked at last; 0: never."""
    changed: int
    """When a look had found it at another place than the one before."""
    history: tuple[tuple[int, int], ...]
    """Numbers of steps done with monotonic times in ns, oldest first."""
    spent: tuple[int, ...]
    """ns that were seen in each of `PLACES` lately."""
    looks: int
    """Looks that told so."""
    blocking: int
    """`UNASKED`, `WAITS_SEEN` or `WAITS_ELSEWHERE`."""

    @property
    def last(self) -> int:
        """Monotonic time in ns of the last sign of life."""
        return max(self.mono, self.sure_since, self.given, self.changed, self.item_since)

    def at(self, now: int) -> Ring:
        """What it says at a moment: without phase and call where the last look at the process, by its own thread, is too old.

        Where an exception ended the program, that it was met is the last look: what it does since is no phase.

        Args:
            now: monotonic ns.
        """
        if now - self.seen < OLD_LOOK_NS or self.head.ended == RAISED:
            return self
        return self._replace(in_call=False, phase=self.sure, phase_since=self.sure_since)


def pack_head(head: Head) -> bytes:
    """The first bytes of a ring."""
    return _HEAD.pack(
        MAGIC,
        VERSION,
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
    if version != VERSION:
        return None
    head = Head(kind, pid, started, rank, local, world, attempt, worker, signal, ended, parent, wall, _text(host))
    offset, asked, given, waited, batches = LIVE.unpack_from(raw, LIVE_AT)
    said_since, _, said = SAID.unpack_from(raw, SAID_AT)
    seen, changed, seen_since, seen_phase = SEEN.unpack_from(raw, SEEN_AT)
    call_since, number, called, inside, call = CALL.unpack_from(raw, CALL_AT)
    depth, workers = LOADER.unpack_from(raw, LOADER_AT)
    item_since, batch, item = ITEM.unpack_from(raw, ITEM_AT)
    entries = [ENTRY.unpack_from(raw, HISTORY_AT + n * ENTRY.size) for n in range(ENTRIES)]
    *times, looks, blocking = _SPENT.unpack_from(raw, SPENT * 8)
    spent = tuple(times)
    # Of an entry that is just being written the time may still be that of a step long ago.
    beats, mono = max(n for n, _ in entries), max(t for _, t in entries)
    sure, sure_since = sure_phase(_text(said), said_since, mono, asked, given)
    looked = seen >= max(mono, asked, given, said_since) and seen > 0
    return Ring(
        head=head,
        step=beats + offset if beats else None,
        beats=beats,
        mono=mono,
        phase=_text(seen_phase) if looked else sure,
        phase_since=seen_since if looked else sure_since,
        sure=sure,
        sure_since=sure_since,
        call=_text(call),
        call_since=call_since,
        call_number=None if number < 0 else number,
        in_call=inside == 1 and looked,
        called=called,
        waiting_since=asked if asked > given else 0,
        given=given,
        waited=waited,
        batches=batches,
        depth=None if depth < 0 else depth,
        workers=workers,
        item=_text(item),
        item_since=item_since,
        batch=batch,
        seen=seen,
        changed=changed,
        history=tuple(sorted((e for e in entries if e[1]), key=lambda e: e[1])),
        spent=spent,
        looks=looks,
        blocking=blocking,
    )


def sure_phase(said: str, said_since: int, stepped: int, asked: int, given: int) -> tuple[str, int]:
    """The phase, and since when, by what program and hooks have written themselves.

    Args:
        said: the phase that was said last; empty: none.
        said_since: when (all times in monotonic ns, 0: never).
        stepped: when the last step was done.
        asked: when the last batch was asked for.
        given: when the last one was given.
    """
    if asked > max(given, said_since):
        return "data", asked
    passed = max(stepped, given)
    if said and not (said == START_UP and passed > said_since):
        return said, said_since
    return ("forward", passed) if passed else ("", 0)


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


def original(message: str) -> str:
    """What a worker of a loader raised, by the message with which torch raises it again in its rank; empty where it is none.

    Args:
        message: that it was caught, then the traceback of the worker, whose last line begins anew at the margin.
    """
    lines = message.split("\n")
    if not lines[0].startswith("Caught ") or " in DataLoader worker process " not in lines[0]:
        return ""
    inside = [n for n, line in enumerate(lines) if line.startswith(" ")]
    return next((line for line in lines[inside[-1] + 1 :] if line.strip()), "") if inside else ""


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
