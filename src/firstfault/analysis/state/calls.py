"""In which call each rank's own traceback of a wait ends, where its lines name no group and no number (gloo, the store).

Only says where ranks stood; whether that was wrong is decided in `firstfault.analysis.questions.plain_wait`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import sort_key
from firstfault.analysis.state.elsewhere import CALLS
from firstfault.model.evidence import Event, Frame, GlobalRank
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.scene import Scene

SET_UP = {"new_group": "NEW_GROUP", "init_process_group": "NEW_GROUP", "new_subgroups": "NEW_GROUP"}
"""Functions of torch.distributed in which all members meet to make a group."""
BARRIERS = frozenset({"barrier", "monitored_barrier"})
"""Calls in which ranks only meet: who stands there has nothing more to do in the part before it."""


class Call(Struct, frozen=True, kw_only=True):
    """Where one traceback of a wait ends."""

    rank: GlobalRank | None
    """None where its lines do not tell whose it is."""
    name: str
    """The function that was called, as torch.distributed names it."""
    op: str
    """The kind of collective: functions of one kind can meet each other. A barrier is a kind of its own."""
    event: Event
    caller: Frame | None
    """Frame that called it."""
    timed_out: bool
    """Whether it ended by a time-out of its own, and not by the end of a peer."""


def last_calls(scene: Scene) -> tuple[Call, ...]:
    """The calls in which tracebacks of waits end: the first one of each rank, and every one without a rank, by place."""
    named: dict[GlobalRank, Call] = {}
    nameless: list[Call] = []
    for event in sorted(scene.events, key=lambda e: (e.span.source, e.span.offset)):
        if event.exception is None or event.exception.ignored:
            continue
        hung = scene.case.has(event, Mark.HANG)
        if not hung and not scene.case.has(event, Mark.PEER_LOST):
            continue
        name, caller = _called(event.exception.frames)
        if name is None:
            continue
        rank = scene.roster.rank(event)
        call = Call(rank=rank, name=name, op=_op(name), caller=caller, event=event, timed_out=hung)
        if rank is None:
            nameless.append(call)
        else:
            named.setdefault(rank, call)
    return (*(named[r] for r in sorted(named)), *nameless)


def by_op(calls: Iterable[Call]) -> dict[str, tuple[Call, ...]]:
    """Calls by kind, the smallest kind first; of equally large ones a barrier first, then by name."""
    kinds: dict[str, list[Call]] = {}
    for call in calls:
        kinds.setdefault(call.op, []).append(call)
    ordered = sorted(kinds.items(), key=lambda kv: (len(kv[1]), kv[1][0].name not in BARRIERS, kv[0]))
    return {op: tuple(sorted(found, key=lambda c: sort_key(c.event))) for op, found in ordered}


def _op(name: str) -> str:
    if name in BARRIERS:
        return "BARRIER"
    return CALLS.get(name) or SET_UP[name]


def _called(frames: tuple[Frame, ...]) -> tuple[str | None, Frame | None]:
    """The outermost call of torch.distributed in which a stack ends, and who called it; None where it ends outside."""
    name = None
    for frame in reversed(frames):
        if "torch/distributed/" not in frame.file.replace("\\", "/"):
            return name, frame if name is not None else None
        if frame.function in CALLS or frame.function in SET_UP:
            name = frame.function
    return name, None
