"""How the black box's last state of a rank is told: where it stands, at what, and what proves it; blames nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Named
from firstfault.analysis.state.boxes import RankBox, event_of, handled, on_of, seconds_of
from firstfault.analysis.wording import clipped, duration, ranks_text
from firstfault.model.blackbox import item_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.evidence import Event
    from firstfault.model.words import Strength

SHOWN = 4
"""Ranks of which lines are shown."""
_HANDLED = 160
"""Characters of an exception that are shown."""
WAITED_S = 1.0
"""Seconds for which a rank must wait for a batch to be held up by its loader."""


def standing(one: RankBox, many: Sequence[RankBox] = ()) -> str:
    """Where a rank stands since when, as a sentence, with the others that do too."""
    others = f" So do {ranks_text([b.rank for b in many[1:]])}." if len(many) > 1 else ""
    since = one.state.fields.get("last")
    clock = f" since {str(since)[11:19]}" if isinstance(since, str) else ""
    return f"Rank {one.rank}{on_host(one)} stands still{clock}, {place_text(one)}.{worker_text(one)}{_mute(one)}{handling_text(one)}{others}"


def _mute(one: RankBox) -> str:
    if one.stopped:
        return " All its threads are stopped (state T): by SIGSTOP or a debugger, and it goes on when somebody sends SIGCONT."
    if not one.silent:
        return ""
    return " It did not answer when it was asked, so no other thread of it could run Python: native code holds the interpreter's lock."


def handling_text(one: RankBox) -> str:
    """A sentence on the exception that a rank which stands still deals with; empty where it tells of none.

    Cleaning up that waits for others holds such a one back, so that no log has it; a program may as well have caught it.
    """
    told = None if one.handling is None else handled(one.handling)
    if told is None:
        return ""
    what = clipped(told[0], _HANDLED)
    place = f" in {told[1]}" if told[1] else ""
    return f" It stands there while an exception is handled, which logs show only afterwards, if at all: {what}{place}."


def place_text(one: RankBox) -> str:
    """Phase, call, step, loader and item of a rank, as part of a sentence."""
    state = one.state
    parts = []
    if state.phase is not None:
        parts.append(f"in phase {state.phase}")
    if one.call is not None:
        parts.append(f"in {one.call}")
    if state.step is not None:
        parts.append(f"after step {state.step}")
    waiting = one.waiting
    if waiting is not None and waiting >= WAITED_S:
        depth = (state.fields.get("loader") or {}).get("depth")
        lie = f" ({depth} batches lie ready)" if isinstance(depth, int) else ""
        parts.append(f"waiting {duration(round(waiting * 1000))} for a batch of its data loader{lie}")
    item = item_of(state.fields)
    if item is not None:
        parts.append(f"at {item}")
    called = on_of(state)
    if called is not None and called[1] is not None:
        parts.append(f"in the system call {called[0]} on {called[1]}")
    return ", ".join(parts)


def worker_text(one: RankBox) -> str:
    """A sentence on the worker of its loader that was killed, or is at one item for the longest time; empty where none is."""
    ended = [
        (worker.number, signal, worker.item)
        for worker in one.workers
        if worker.state.kind == "death"
        and isinstance(signal := worker.state.fields.get("signal"), str)
        and signal != "SIGTERM"
    ]
    # The monitor may have come too late to see how one ended; its rank tells it all the same.
    ended += [(lost.number, lost.signal, None) for lost in one.lost if lost.signal is not None]
    for number, signal, item in ended:
        at = "" if item is None else f" while it was at {item}"
        return f" Worker {number} of its loader was ended by {signal}{at}."
    if one.waiting is None:
        return ""
    busy = [
        (w, s) for w in one.workers if w.item and (s := seconds_of(w.state.fields.get("item"), "for_s")) is not None
    ]
    if not busy:
        return ""
    worker, seconds = max(busy, key=lambda ws: (ws[1], -ws[0].number))
    called = on_of(worker.state)
    inside = "" if called is None else f", in the system call {called[0]}" + (f" on {called[1]}" if called[1] else "")
    return f" Worker {worker.number} of its loader has been at {worker.item} for {duration(round(seconds * 1000))}{inside}."


def held_by_loader(one: RankBox) -> bool:
    """Whether a rank waits for its loader."""
    return one.state.phase == "data" or (one.waiting is not None and one.waiting >= WAITED_S)


def where(one: RankBox) -> str:
    """After which step a rank stands, as part of a sentence."""
    return f" after step {one.state.step}" if one.state.step is not None else ""


def on_host(one: RankBox) -> str:
    """On which host a rank ran, in brackets."""
    return f" ({one.host})" if one.host is not None else ""


def named_boxes(boxes: Sequence[RankBox], strength: Strength) -> Named:
    """Ranks with their hosts."""
    return Named(
        ranks=tuple(b.rank for b in boxes),
        hosts=tuple(sorted({b.host for b in boxes if b.host is not None})),
        strength=strength,
    )


def proof_of(boxes: Sequence[RankBox]) -> tuple[Event, ...]:
    """The records that show where ranks stand."""
    found = []
    for one in boxes[:SHOWN]:
        found.append(event_of(one.hang or one.death or one.state))
        if one.handling is not None:
            found.append(event_of(one.handling))
        busy = [w for w in one.workers if w.item]
        if one.waiting is not None and busy:
            slowest = max(busy, key=lambda w: seconds_of(w.state.fields.get("item"), "for_s") or 0.0)
            found.append(event_of(slowest.state))
    return tuple(found)


def advice(one: RankBox) -> str:
    """What to do first about a rank that stands still."""
    if held_by_loader(one):
        return f"Read what rank {one.rank}'s loader stands at by hand on its host: does it return?"
    if one.state.phase == "checkpoint":
        return f"Look at the file system to which rank {one.rank} saves, from its host: does a write return?"
    return f"Find out from its stack what rank {one.rank} waits for."
