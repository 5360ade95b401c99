"""Was a worker of one rank's data loader killed: by what the monitor of the node saw, and by what the rank itself tells.

Either may be missing: the monitor may come too late to be told how a process ended, and a rank may be ended with its worker. It
blames nobody where several ranks lost workers, or where another rank had ended before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.answer import Answer, Classes
from firstfault.analysis.questions.box_words import named_boxes, on_host, place_text, worker_text
from firstfault.analysis.state.boxes import RankBox, event_of
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.model.blackbox import BoxRecord
    from firstfault.model.evidence import GlobalRank

_KILLS = {
    "SIGKILL": Category.INFRASTRUCTURE,
    "SIGBUS": Category.INFRASTRUCTURE,
    "SIGSEGV": Category.SOFTWARE,
    "SIGABRT": Category.SOFTWARE,
}
BEFORE_S = 0.5
"""Seconds by which a worker's end must come before that of every rank, to have come by itself, where its rank does not tell of it."""
_CHANNEL = ("multiprocessing/connection.py", "multiprocessing/resource_sharer.py", "multiprocessing/queues.py")
"""Files of Python in which a rank reads from its workers."""


class _Killed(NamedTuple):
    at: float
    box: RankBox
    number: int
    signal: str
    record: BoxRecord
    told: bool
    """Whether its rank tells of it."""


def killed_worker(boxes: dict[GlobalRank, RankBox]) -> Answer | None:
    """A worker of one rank's loader was ended by a signal that nobody of the job sends, before any rank ended."""
    found = [killed for box in boxes.values() for killed in _of(box)]
    if len({killed.box.rank for killed in found}) != 1:
        return None
    first = min(found, key=lambda killed: (killed.at, killed.number))
    one = first.box
    if not _came_first(first, boxes):
        return None
    named = named_boxes([one], Strength.POSSIBLE)
    return Answer(
        question="black_box",
        failed=True,
        category=_KILLS[first.signal],
        strength=Strength.POSSIBLE,
        summary=f"Rank {one.rank}{on_host(one)} lost a worker of its data loader, {place_text(one)}.{worker_text(one)}",
        trigger=event_of(first.record),
        proof=(event_of(first.record), event_of(one.death or one.state)),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.DATA, form=Form.INTERRUPTED, layer=Layer.RUNTIME, phase=Phase.DATA, scope=Scope.RANK
        ),
        action=ActionKind.COLLECT_MORE,
        steps=("Ask the kernel log of that host who killed it: memory of the container or of the node, as a rule.",),
        collect=("the kernel log of that host around that time (`dmesg -T | grep -i -E 'oom|killed process'`)",),
        why="the black box saw it end before anything else",
    )


def torn_by_it(said: Answer, boxes: dict[GlobalRank, RankBox]) -> bool:
    """Whether the error that was blamed is of a rank that lost its worker, raised where it read from it: what a broken channel gives."""
    ranks = said.culprits.ranks or said.first_failed.ranks
    box = boxes.get(ranks[0]) if len(ranks) == 1 else None
    if box is None or box.raised is None or not _of(box):
        return False
    frames = box.raised.fields.get("traceback")
    last = frames[-1] if isinstance(frames, list) and frames else None
    file = last.get("file") if isinstance(last, dict) else None
    return isinstance(file, str) and file.replace("\\", "/").endswith(_CHANNEL)


def _of(box: RankBox) -> list[_Killed]:
    """Killed workers of a rank, by both witnesses; where both saw one, when the monitor did."""
    own = {lost.pid: lost for lost in box.lost}
    found, seen = [], set()
    for worker in box.workers:
        state = worker.state
        signal, at, pid = state.fields.get("signal"), state.when.earliest, state.who.pid
        if state.kind == "death" and signal in _KILLS and at is not None:
            seen.add(pid)
            found.append(_Killed(at, box, worker.number, str(signal), state, pid in own))
    for lost in box.lost:
        at = lost.record.when.earliest
        if lost.pid not in seen and lost.signal in _KILLS and at is not None:
            found.append(_Killed(at, box, lost.number, lost.signal, lost.record, told=True))
    return found


def _came_first(killed: _Killed, boxes: dict[GlobalRank, RankBox]) -> bool:
    """Whether no rank had ended, or met an error, when the worker was killed."""
    if not killed.told:
        ends = [b.death.when.earliest for b in boxes.values() if b.death is not None]
        return all(end is None or killed.at <= end - BEFORE_S for end in ends)  # else it went with the ranks
    others = [
        record.when.earliest
        for box in boxes.values()
        if box.rank != killed.box.rank
        for record in (box.raised, box.death)
        if record is not None
    ]
    return all(end is None or killed.at <= end + BEFORE_S for end in others)
