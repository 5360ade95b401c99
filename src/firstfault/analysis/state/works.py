"""What single lines say of collectives: works that ran out of time, states of a process group, dump signals.

Reads events only. A line is kept with the rank and the group that it states; nothing is guessed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.order import comparable, exact, first
from firstfault.analysis.state.exits import integer
from firstfault.analysis.suspects import went_on
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.recorder import DEFAULT_DESC, DEFAULT_NAME
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene

DUMP = lazy(r"[Rr]eceived a (?:dump signal|global timeout)|Observed flight recorder dump signal")
TOLD = lazy(r"from {1,2}rank -?\d|from another rank|another rank via")
"""A dump that somebody else asked for."""
_SHAPE = lazy(r"TensorShape=(\[[\d, ]*\])")
_WORK = lazy(r"\bWork\w{0,8}\(")
"""A work as ProcessGroupNCCL prints it; gloo names no work, and the late rank may print the same line as the others."""
_IN_GROUP = lazy(r"\[PG [^\]\n]{0,120}? ?Rank (\d+)\]")
"""The rank inside the group that the line names; a `[Rank n]` further on may be that of another group (from torch 2.2)."""
_HAS_ID = lazy(r"PG ID \d")
ABSENT = 1 << 62
"""Numbers above are (size_t)-1 or memory that was never set."""
P2P = frozenset({"SEND", "RECV", "RECVANYSOURCE", "COALESCED"})
"""Point-to-point works and bundles of them: they count by themselves, and ranks do not advance together."""


class Work(Struct, frozen=True, kw_only=True, gc=False):
    """One collective that did not finish in time, as one rank reports it."""

    event: Event
    rank: GlobalRank | None
    group_rank: int | None
    group: str | None
    """Name (GUID) of the process group; None where the line does not say."""
    desc: str | None
    op: str | None
    seq: int | None
    numel_in: int | None
    numel_out: int | None
    shape: str | None
    timeout_ms: int | None
    ran_ms: int | None

    @property
    def p2p(self) -> bool:
        """Whether it is a point-to-point work (or a bundle of them)."""
        return self.op in P2P


class State(Struct, frozen=True, kw_only=True, gc=False):
    """Counters of one rank in one group."""

    event: Event
    rank: GlobalRank | None
    group_rank: int | None
    group: str | None
    desc: str | None
    seq: int | None
    """Sequence number of the work that failed; None in a dump signal."""
    enqueued: int | None
    completed: int | None
    dump: bool
    """From a dump signal: the numbers are those of the default group, whichever group is stuck."""


class Signal(Struct, frozen=True, gc=False):
    """A rank says that it dumps on somebody else's account."""

    event: Event
    rank: GlobalRank | None


class Spoken(Struct, frozen=True, kw_only=True):
    """All that the lines of one attempt say of collectives."""

    works: tuple[Work, ...]
    states: tuple[State, ...]
    signals: tuple[Signal, ...]
    other: tuple[Event, ...]
    """Lines of a hang that state neither a work nor counters (store waits, heartbeat, gloo)."""
    own_signal: tuple[Signal, ...] = ()
    """Ranks that dump on their own account: their watchdog fired, whatever group it was."""


def number(fields: dict[str, str], name: str) -> int | None:
    """A field as a number; None where it is missing or was never set by the program."""
    text = fields.get(name)
    if text is None:
        return None
    parsed = integer(text)
    return parsed if parsed is not None and -1 <= parsed < ABSENT else None


def _group(event: Event) -> tuple[str | None, str | None]:
    """Name and description of the process group that a line states.

    `PG ID` counts inside one process and is never taken for the name; the short form of torch 2.3 and 2.4 (`[PG 0
    Rank 5]`) states the name.
    """
    fields = event.fields
    desc = fields.get("group_desc")
    name = fields.get("group_guid")
    if name is None and fields.get("group_id") is not None and not _HAS_ID.search(event.text):
        name = fields["group_id"]
    if name is None and desc == DEFAULT_DESC:
        name = DEFAULT_NAME
    return name, desc


MOST_RANKS = 1 << 17
"""No job has a rank of this number: a line that states one is damaged, and all below it are not to be thought of."""


def spoken(scene: Scene) -> Spoken:
    """Reads every line about a hang or a group's state of one attempt."""
    works: list[Work] = []
    states: list[State] = []
    signals: list[Signal] = []
    own: list[Signal] = []
    other: list[Event] = []
    for event in scene.case.of(scene.case.signatures_with(Mark.HANG, Mark.STATE) | {TERMINATED}):
        if _over(scene, event):
            continue
        rank = scene.roster.rank(event)
        if max(rank or 0, number(event.fields, "group_rank") or 0) >= MOST_RANKS:
            continue
        if DUMP.search(event.text):
            if TOLD.search(event.text):
                signals.append(Signal(event, rank))
            else:
                own.append(Signal(event, rank))
            if event.fields.get("last_enqueued") is not None:
                states.append(_state(event, rank, dump=True))
        elif event.fields.get("last_enqueued") is not None:
            states.append(_state(event, rank, dump=False))
        elif (
            "op" in event.fields and ("seq" in event.fields or _WORK.search(event.text)) and "ranks" not in event.fields
        ):
            works.append(_work(event, rank))
        elif event.signature != TERMINATED:
            other.append(event)
    return Spoken(
        works=tuple(works), states=tuple(states), signals=tuple(signals), own_signal=tuple(own), other=tuple(other)
    )


def _over(scene: Scene, event: Event) -> bool:
    """Whether a line speaks of a wait that was over: the job went on, or its ranks began another wait later."""
    if scene.hang is None:
        return False
    if went_on(scene.case, event):
        return True
    ended = scene.hang.recovered
    if not ended:
        return False
    last, start = ended[-1], scene.hang.began
    if exact(event.when) and start is not None and comparable(event.when, scene.hang.first.when):
        return (event.when.latest or 0.0) < start
    return event.span.source == last.span.source and event.span.offset <= last.span.offset


TERMINATED = "nccl.watchdog_terminated"
"""Signature of the watchdog's last words: they may repeat the work behind the full name of its group."""


def _work(event: Event, rank: GlobalRank | None) -> Work:
    group, desc = _group(event)
    shape = _SHAPE.search(event.text)
    return Work(
        event=event,
        rank=rank,
        group_rank=_group_rank(event, group),
        group=group,
        desc=desc,
        op=event.fields.get("op"),
        seq=number(event.fields, "seq"),
        numel_in=number(event.fields, "numel_in"),
        numel_out=number(event.fields, "numel_out"),
        shape=None if shape is None else shape.group(1),
        timeout_ms=number(event.fields, "timeout_ms"),
        ran_ms=number(event.fields, "ran_ms"),
    )


def _group_rank(event: Event, group: str | None) -> int | None:
    """Rank inside the group: beside the name of the group where that is stated, else the `[Rank n]` of the line."""
    beside = None if group is None else _IN_GROUP.search(event.text)
    return number(event.fields, "group_rank") if beside is None else int(beside.group(1))


def _state(event: Event, rank: GlobalRank | None, *, dump: bool) -> State:
    group, desc = _group(event)
    enqueued, completed = number(event.fields, "last_enqueued"), number(event.fields, "last_completed")
    if enqueued is not None and completed is not None and completed > enqueued:
        completed = None  # torch 2.3 prints a counter that was never set
    return State(
        event=event,
        rank=rank,
        group_rank=number(event.fields, "group_rank"),
        group=DEFAULT_NAME if group is None and dump else group,
        desc=desc,
        seq=number(event.fields, "seq"),
        enqueued=enqueued,
        completed=completed,
        dump=dump,
    )


def assign_groups(works: Sequence[Work], states: Sequence[State]) -> list[Work]:
    """Gives works that do not name their group the group of the state line that follows them.

    The watchdog prints the work first and the state of its group right after it, with the same number; a rank that is
    stuck in several groups prints several such pairs, in the order of their threads.
    """
    named = {(w.rank, w.seq, w.op): w.group for w in works if w.group is not None and w.rank is not None}
    waiting: dict[tuple[GlobalRank | None, int | None], list[State]] = {}
    for state in states:
        if not state.dump and state.rank is not None:
            waiting.setdefault((state.rank, state.seq), []).append(state)
    found: list[Work] = []
    for work in works:
        if work.group is not None or work.rank is None:
            found.append(work)
            continue
        follower = _next(work, waiting.get((work.rank, work.seq), []))
        if follower is not None:
            found.append(_in_group(work, follower.group, follower.desc, follower.group_rank))
        elif (work.rank, work.seq, work.op) in named:
            found.append(_in_group(work, named[(work.rank, work.seq, work.op)], work.desc, None))
        else:
            found.append(work)
    return found


def _next(work: Work, states: list[State]) -> State | None:
    """The state that belongs to a work: the nearest one behind it in its source; taken out of the list where several are left."""
    if not states:
        return None
    span = work.event.span
    behind = [s for s in states if s.event.span.source == span.source and s.event.span.offset > span.offset]
    chosen = min(behind or states, key=lambda s: (s.event.span.source, s.event.span.offset))
    if len({s.group for s in states}) > 1:
        states.remove(chosen)
    return chosen


def _in_group(work: Work, group: str | None, desc: str | None, group_rank: int | None) -> Work:
    return replace(work, group=group, desc=desc, group_rank=work.group_rank if group_rank is None else group_rank)


def earliest(events: Iterable[Event]) -> Event | None:
    """The earliest of some events, by time where it can be told, else by place."""
    chosen: Event | None = None
    for event in events:
        if chosen is None or first(event, chosen) is True:
            chosen = event
    return chosen
