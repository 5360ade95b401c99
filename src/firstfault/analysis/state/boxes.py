"""The last state of every rank by the black box: step, phase, call, loader, item, how long it has stood still, how it ended.

A pure fold over records: the same for any order of files. It says what was, not whose fault it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from firstfault.model.blackbox import BoxRecord
from firstfault.model.evidence import Event, GlobalRank

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STATES = frozenset({"heartbeat", "state", "death", "hang", "end"})
"""Kinds of records that hold the whole state of a process."""
BOX = "recorder.state"
"""Signature of events that cite such a record."""
SAME_S = 0.75
"""Seconds by which two readings of one moment may differ: clocks are read one after the other, and put right meanwhile."""


class WorkerBox(Struct, frozen=True, kw_only=True):
    """A worker of a rank's data loader at the end."""

    number: int
    state: BoxRecord

    @property
    def item(self) -> str | None:
        """The item that it was reading; None for none."""
        return _text(self.state.fields.get("item"), "what")


class LostWorker(Struct, frozen=True, kw_only=True):
    """A worker of its data loader that a rank itself tells to have ended badly."""

    number: int
    pid: int
    signal: str | None
    """The name of the signal that ended it; None where it exited by itself."""
    record: BoxRecord
    """In which the rank tells it: of an exception, or of its own end."""


class RankBox(Struct, frozen=True, kw_only=True):
    """A rank at the end."""

    rank: GlobalRank
    host: str | None
    state: BoxRecord
    """The latest record that holds its whole state."""
    death: BoxRecord | None = None
    hang: BoxRecord | None = None
    """The word of the monitor that it stands still, where it never moved again."""
    raised: BoxRecord | None = None
    """The exception that ended it, in its own words."""
    workers: tuple[WorkerBox, ...] = ()
    lost: tuple[LostWorker, ...] = ()
    stopped: bool = False
    """Whether all its threads were stopped by a signal or a debugger when it was looked at last."""
    handling: BoxRecord | None = None
    """The state in which it told that it deals with an exception, where it told so when it was asked last."""
    silent: bool = False
    """Whether it was asked by the monitor and its own thread did not answer, though its stacks came."""

    @property
    def call(self) -> str | None:
        """The call of torch.distributed that it is in; None where it is in none that is seen."""
        call = self.state.fields.get("call")
        return _text(call, "name") if isinstance(call, dict) and call.get("inside") is True else None

    @property
    def call_number(self) -> int | None:
        """How many calls of torch.distributed it has begun."""
        return _number(self.state.fields.get("call"), "number")

    @property
    def waiting(self) -> float | None:
        """Seconds for which it waits for a batch; None where it does not."""
        return _seconds(self.state.fields.get("loader"), "waiting_s")

    @property
    def stuck(self) -> bool:
        """Whether the monitor saw it stand still, and it never moved again."""
        return self.hang is not None

    @property
    def told(self) -> bool:
        """Whether it ended because it was told to stop, or killed from outside."""
        return self.death is not None and self.death.fields.get("signal") in {"SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"}


def rank_boxes(records: Iterable[BoxRecord]) -> dict[GlobalRank, RankBox]:
    """The last state of each rank: of a job that stood still, and then was ended, that before its end began."""
    records = sorted(records, key=_order)
    until = _end_of_hang(records)
    after = _folded(records, math.inf)
    if until < math.inf:
        # Who ends a job moves its ranks: what they were in while they stood still was written before.
        before = _folded(records, until)
        stuck = [box for box in before.values() if box.stuck]
        if stuck and not any(_went_on(box.state, after[box.rank].state, until) for box in stuck):
            return before
    return after


ENDING_S = 10.0
"""Seconds before the first end that was written in which what moves a rank may be what ends it."""


def _went_on(before: BoxRecord, after: BoxRecord, until: float) -> bool:
    """Whether a rank that stood still moved again by itself: it did a step, or gave a sign of life well before the end began."""
    again = after.last is not None and before.last is not None and after.last > before.last + SAME_S
    return before.step != after.step or (again and (after.last or 0.0) < until - ENDING_S)


def _end_of_hang(records: Sequence[BoxRecord]) -> float:
    """When the end of a job began of which a hang was told before; without end where none was, or a rank had ended before it."""
    ranks = [r for r in records if r.who.rank is not None and r.who.worker is None and r.when.latest is not None]
    hang = min((r.when.latest or 0.0 for r in ranks if r.kind == "hang"), default=math.inf)
    ends = [
        r.when.latest or 0.0
        for r in ranks
        if r.kind in {"death", "end"} or (r.kind == "exception" and r.fields.get("caught") is False)
    ]
    end = min(ends, default=math.inf)
    told = [
        r.when.latest or 0.0
        for r in records
        if r.kind == "note" and "did" in r.fields and (r.when.latest or 0.0) > hang
    ]
    return min([end, *told]) if hang < end else math.inf


def _folded(records: Sequence[BoxRecord], until: float) -> dict[GlobalRank, RankBox]:
    """The last state of each rank that was written before a moment; a later one where there is none."""
    last: dict[GlobalRank, BoxRecord] = {}
    deaths: dict[GlobalRank, BoxRecord] = {}
    hangs: dict[GlobalRank, BoxRecord] = {}
    workers: dict[GlobalRank, dict[int, BoxRecord]] = {}
    asked: dict[GlobalRank, dict[object, list[bool]]] = {}
    stopped: set[GlobalRank] = set()
    handling: dict[GlobalRank, BoxRecord] = {}
    raised: dict[GlobalRank, BoxRecord] = {}
    lost: dict[GlobalRank, dict[int, LostWorker]] = {}
    for record in records:
        rank = record.who.rank
        if rank is not None and record.kind == "exception" and record.who.worker is None:
            last.setdefault(rank, record)  # where no monitor saw it end, its own last word holds step and phase
            if record.fields.get("caught") is False:
                raised.setdefault(rank, record)
        if rank is not None:
            for one in _lost(record):
                lost.setdefault(rank, {}).setdefault(one.pid, one)
        if rank is None or record.kind not in STATES or "run" in record.fields:
            continue
        counts = (record.when.latest or 0.0) < until
        if record.who.worker is not None:
            # Of several loaders the workers' numbers are the same: the latest counts.
            of_rank = workers.setdefault(rank, {})
            if counts or record.who.worker not in of_rank:
                of_rank[record.who.worker] = record
            continue
        if counts or rank not in last:
            last[rank] = record
        if record.kind == "death":
            deaths[rank] = record
        elif record.kind == "hang":
            hangs[rank] = record
        elif record.kind == "state":
            (stopped.add if _is_stopped(record) else stopped.discard)(rank)
            if handled(record) is not None:
                handling[rank] = record
            elif isinstance(record.fields.get("answer"), dict):
                handling.pop(rank, None)
            asked.setdefault(rank, {}).setdefault(record.fields.get("bundle"), []).append(
                record.fields.get("silent") is True
            )
    return {
        rank: RankBox(
            rank=rank,
            host=state.who.host,
            state=state,
            death=deaths.get(rank),
            hang=hang if (hang := hangs.get(rank)) is not None and _never_moved(hang, state) else None,
            raised=raised.get(rank),
            workers=tuple(
                WorkerBox(number=n, state=r)
                for n, r in sorted(workers.get(rank, {}).items())
                if r.who.pid in lost.get(rank, {}) or _with_it(r, state)
            ),
            lost=tuple(lost.get(rank, {}).values()),
            stopped=rank in stopped,
            handling=handling.get(rank),
            # Once may be a busy machine, or a process on its way out.
            silent=any(len(told) > 1 and all(told) for told in asked.get(rank, {}).values()),
        )
        for rank, state in sorted(last.items())
    }


class Sides(NamedTuple):
    """Ranks that stand still, by what they wait for."""

    waiting: list[RankBox]
    """In a call of torch.distributed, or wherever one waits for one that it has begun as well."""
    apart: list[RankBox]
    """In something of their own."""
    counted: bool = False
    """Whether the numbers of their calls alone tell the sides apart: nobody is seen in a call."""


_ODD = 4
"""Of so many ranks one may be apart."""


def sides(boxes: dict[GlobalRank, RankBox]) -> Sides:
    """Who of those that stand still waits for the others, and who stands apart.

    `Work.wait`, and a wait for the device, are no call that a look sees: such a rank has begun as many calls as those that are
    seen to wait, where the one that holds them up has begun fewer. Groups count together, so that numbers tell only where all
    that are seen to wait agree, and only of a rank beside one that is behind.
    """
    stuck = [b for b in boxes.values() if b.stuck]
    waiting = [b for b in stuck if b.call is not None]
    apart = [b for b in stuck if b.call is None]
    if not waiting:
        return _by_count(boxes, apart)
    numbers = {b.call_number for b in waiting}
    begun = next(iter(numbers))
    if len(numbers) > 1 or begun is None or not any((b.call_number or begun) < begun for b in boxes.values()):
        return Sides(waiting, apart)
    too = [b for b in apart if b.call_number == begun and b.waiting is None and b.state.phase not in _OWN]
    return Sides([b for b in stuck if b in waiting or b in too], [b for b in apart if b not in too])


_OWN = frozenset({"data", "checkpoint"})
"""Phases in which nobody waits for another rank."""


def _by_count(boxes: dict[GlobalRank, RankBox], stuck: list[RankBox]) -> Sides:
    """All stand outside of calls, as they do on devices: nearly all have begun as many, and the rest less than a step's fewer."""
    known = [n for b in stuck if (n := b.call_number) is not None]
    steps = {b.state.step for b in stuck}
    if len(known) < len(boxes) or len(known) <= _ODD - 1 or not known:
        return Sides([], stuck)
    begun = max(known)
    behind = [b for b in stuck if (b.call_number or 0) < begun]
    most = [b for b in stuck if b.call_number == begun]
    done = [s for s in steps if s]
    # Ranks of groups of their own are behind by more with each step.
    near = bool(done) and all((begun - (b.call_number or 0)) * max(done) <= begun for b in behind)
    if not behind or not near or len(behind) > max(1, len(boxes) // _ODD):
        return Sides([], stuck)
    return Sides(most, behind, counted=True)


def _is_stopped(record: BoxRecord) -> bool:
    """Whether all threads of a process were stopped: `T` by a signal, `t` by a debugger."""
    threads = record.fields.get("threads")
    states = {t.get("state") for t in threads if isinstance(t, dict)} if isinstance(threads, list) else set()
    return bool(states) and states <= {"T", "t"}


def _order(record: BoxRecord) -> tuple[float, int, int]:
    return (record.when.latest or 0.0, record.span.source, record.span.offset)


def _never_moved(hang: BoxRecord, state: BoxRecord) -> bool:
    if hang.last is None or state.last is None:
        return False
    return abs(hang.last - state.last) <= SAME_S and hang.step == state.step and hang.phase == state.phase


def _with_it(worker: BoxRecord, state: BoxRecord) -> bool:
    """Whether a worker's last record is of the time of its rank's last state, not of a loader that ended long before."""
    if worker.kind == "end" or worker.when.latest is None or state.last is None:
        return False
    if worker.when.latest >= state.last:
        return True
    # The rank gives a last sign of life when it meets the death of its worker; a step it no longer does.
    ago = _seconds(state.fields, "step_s_ago")
    return worker.kind == "death" and ago is not None and worker.when.latest >= (state.when.latest or math.inf) - ago


def _lost(record: BoxRecord) -> list[LostWorker]:
    """What a rank tells of workers that it has lost."""
    told = record.fields.get("lost_workers")
    found = []
    for one in told if isinstance(told, list) and record.who.worker is None else []:
        number, pid = _number(one, "worker"), _number(one, "pid")
        if number is not None and pid is not None:
            found.append(LostWorker(number=number, pid=pid, signal=_text(one, "signal"), record=record))
    return found


def stood_first(boxes: dict[GlobalRank, RankBox]) -> BoxRecord | None:
    """The monitor's word on the rank that has stood still for longest; None where none does, or where no time is told."""
    told = [b.hang for b in boxes.values() if b.hang is not None and b.hang.last is not None]
    return min(told, key=lambda r: (r.last or 0.0, *_order(r)), default=None)


def event_of(record: BoxRecord) -> Event:
    """A record as evidence."""
    return Event(signature=BOX, span=record.span, text=record.text, who=record.who, when=record.when)


def on_of(record: BoxRecord) -> tuple[str, str | None] | None:
    """The system call that the main thread of a process was in, and the file it was about; None where nobody looked."""
    threads = record.fields.get("threads")
    if not isinstance(threads, list):
        return None
    for thread in threads:
        if (
            isinstance(thread, dict)
            and thread.get("thread") == record.who.pid
            and isinstance(thread.get("syscall"), str)
        ):
            on = thread.get("on")
            return thread["syscall"], on if isinstance(on, str) else None
    return None


def handled(record: BoxRecord) -> tuple[str, str] | None:
    """The exception that a process deals with, by its class and first line, and where it was raised; None where it tells of none."""
    answer = record.fields.get("answer")
    told = answer.get("handling") if isinstance(answer, dict) else None
    kind, message = _text(told, "type"), _text(told, "message") or ""
    if kind is None or not isinstance(told, dict):
        return None
    frames = told.get("traceback")
    last = frames[-1] if isinstance(frames, list) and frames else None
    file, function, line = _text(last, "file"), _text(last, "function"), _number(last, "line")
    place = "" if file is None or line is None else f"{function} ({file.rpartition('/')[2]}:{line})"
    head = message.strip().split("\n", 1)[0]
    return (f"{kind}: {head}" if head else kind), place


def _text(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def _number(value: Any, name: str) -> int | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _seconds(value: Any, name: str) -> float | None:
    found = value.get(name) if isinstance(value, dict) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


seconds_of = _seconds
