"""What does the black box say: who stood still first and in what, who was slow, and what the named rank was doing.

An error of its own stays the first fault; the box then only says where the rank was. It never blames a rank that waits.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.agreement import STRONGER
from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.median import median
from firstfault.analysis.questions.box_words import (
    SHOWN,
    WAITED_S,
    advice,
    handling_text,
    held_by_loader,
    named_boxes,
    on_host,
    place_text,
    proof_of,
    standing,
    where,
    worker_text,
)
from firstfault.analysis.questions.lost_worker import killed_worker, torn_by_it
from firstfault.analysis.state.boxes import RankBox, event_of, rank_boxes, sides
from firstfault.analysis.wording import ranks_text
from firstfault.model.blackbox import item_of
from firstfault.model.evidence import GlobalRank
from firstfault.model.paces import CALLS, HELD_BY_LOADER, LOADER, WAITS, Slow, loader_share, sees_waits, slow_ranks
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.blackbox import BoxRecord

_PHASES = {
    "start_up": Phase.START_UP,
    "data": Phase.DATA,
    "forward": Phase.FORWARD,
    "backward": Phase.BACKWARD,
    "optimizer": Phase.OPTIMIZER,
    "checkpoint": Phase.CHECKPOINT,
    "evaluation": Phase.EVALUATION,
}
_OPEN = frozenset({"nothing", "stopped", "effects", "exits", "peers", "stacks", "reported"})
"""Questions that know only that the job went silent, was stopped, or where it stood."""
_OWN_ERROR = frozenset({"first_fault", "exit_hang", "nan_end", "good_end"})
_TOLD = frozenset({"SIGTERM", "SIGINT", "SIGHUP"})


def with_box(scene: Scene, said: Answer) -> Answer:
    """The answer of everything else, with what the black box adds; unchanged where there is none.

    Args:
        scene: the attempt that the box is of.
        said: the answer of logs, dumps and stacks.
    """
    if not scene.case.seen.box or said.failed is False:
        return said
    boxes = rank_boxes(scene.case.seen.box)
    if not boxes:
        return said
    killed = killed_worker(boxes)
    if killed is not None and said.question in _OWN_ERROR and torn_by_it(said, boxes):
        return replace(killed, proof=(*killed.proof, *said.proof[:2]))
    if said.question in _OWN_ERROR:
        return _described(_of_lost_node(said, scene.case.seen.box), boxes)
    if killed is not None and (said.category is Category.UNKNOWN or said.question == "stopped"):
        return replace(killed, proof=(*killed.proof, *said.proof[:2]))
    if said.category is Category.UNKNOWN and not said.culprits.ranks:
        left = _left_early(boxes, said)
        if left is not None:
            return replace(left, proof=(*left.proof, *said.proof[:2]), rivals=said.rivals)
    own = ask(boxes)
    if own is not None and own.classes.form is Form.SLOW and said.category is not Category.UNKNOWN:
        # Who was slow did not end the job: that is said, and nobody is blamed.
        return replace(said, summary=f"{said.summary} {own.summary}", proof=(*said.proof, *own.proof[:2]))
    if own is None:
        return _with_stand(said, boxes) if len(boxes) == 1 else _described(said, boxes)
    blamed, seen = set(said.culprits.ranks), set(own.culprits.ranks)
    if blamed and not seen:
        return _described(said, boxes)
    if blamed and blamed != seen:
        wait = {b.rank for b in sides(boxes).waiting if b.call is None}
        return _narrower(said, own) if seen and blamed - seen <= wait else _differ(said, own)
    if blamed:
        return _agree(said, own, boxes)
    if said.category is not Category.UNKNOWN and said.question not in _OPEN:
        return replace(said, proof=(*said.proof, *own.proof[:SHOWN]))
    return replace(own, proof=(*own.proof, *said.proof[:2]), rivals=said.rivals)


def died_first(scene: Scene, said: Answer) -> bool:
    """Whether the answer of the logs rests on a death that the black box saw before any other, in a job that did not hang.

    Then the others wait for the dead: what dumps and stacks show of them is what it led to.
    """
    if said.question != "exits":
        return False
    boxes = rank_boxes(scene.case.seen.box)
    deaths = [
        (b.death.when.earliest, b.rank, b.death) for b in boxes.values() if b.death is not None and b.death.when.known
    ]
    if not deaths:
        return False
    when, rank, death = min(deaths, key=lambda d: (d[0] or 0.0, d[1]))
    hangs = [b.hang.when.earliest or 0.0 for b in boxes.values() if b.hang is not None]
    if hangs and min(hangs) < (when or 0.0):
        return False
    return rank in said.first_failed.ranks and death.fields.get("signal") not in _TOLD


def ask(boxes: dict[GlobalRank, RankBox]) -> Answer | None:
    """The answer of the box alone; None where the ranks stood nowhere, or where it tells nobody apart."""
    stuck = [b for b in boxes.values() if b.stuck]
    if not stuck:
        return _slow(list(boxes.values()))
    hung = min(b.hang.when.earliest or 0.0 for b in stuck if b.hang is not None)
    if any(b.death is not None and not b.told and (b.death.when.earliest or 0.0) <= hung for b in boxes.values()):
        return None  # who died of its own did not stand still, and the others wait for it
    if len(boxes) == 1 and stuck[0].state.fields.get("world") == 1:
        return _alone(stuck[0])
    halted = [b for b in stuck if b.stopped]
    if halted and len(halted) < len(stuck):
        return _apart(boxes, halted, [b for b in stuck if not b.stopped])
    waiting, apart, counted = sides(boxes)
    if waiting and apart and not counted and len(apart) <= max(1, len(boxes) // 4):
        return _apart(boxes, apart, waiting)
    if len(waiting) == len(boxes) > 1 and all(b.call is not None for b in waiting):
        return _different(boxes, waiting)
    if counted or (apart and not waiting):
        return _by_phase(boxes, [*apart, *waiting]) or (
            _apart(boxes, apart, waiting, counted=True) if counted else None
        )
    return None


def _left_early(boxes: dict[GlobalRank, RankBox], said: Answer) -> Answer | None:
    """One rank or few ended with code 0 while the others went on, and lost it or waited for it: uneven data, as a rule."""
    early = [b for b in boxes.values() if b.state.kind == "end" and b.state.fields.get("exit_code") == 0]
    rest = [b for b in boxes.values() if b not in early]
    world = {b.state.fields.get("world") for b in boxes.values()}
    if not early or world != {len(boxes)} or len(early) > max(1, len(boxes) // 4):
        return None
    gone = max(b.state.when.latest or 0.0 for b in early)
    after = all(b.death is None or (b.death.when.latest or 0.0) > gone for b in rest)
    waited = said.question == "peers" or sum(b.call is not None for b in rest) * 2 > len(rest)
    ahead = all((b.state.step or 0) >= max(e.state.step or 0 for e in early) for b in rest)
    if not (after and waited and ahead):
        return None
    one, named = early[0], named_boxes(early, Strength.POSSIBLE)
    whose = f"{ranks_text([b.rank for b in early]).capitalize()}{on_host(one)} ended with code 0{where(one)}"
    return Answer(
        question="black_box",
        failed=True,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.POSSIBLE,
        summary=(
            f"{whose}, while {ranks_text([b.rank for b in rest])} went on and called it in collectives: the ranks did not have the "
            "same number of batches, or a condition of its own let it leave."
        ),
        trigger=event_of(one.state),
        proof=tuple(event_of(b.state) for b in early[:SHOWN]),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.DATA,
            form=Form.INTERRUPTED,
            layer=Layer.COLLECTIVE,
            phase=Phase.UNKNOWN,
            scope=Scope.RANK if len(early) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            f"Find out why {ranks_text([b.rank for b in early])} left: count the samples that each rank gets, and look for an exit of its own.",
        ),
        why="the black box saw it end with code 0 while the others were still at work",
    )


def _by_phase(boxes: dict[GlobalRank, RankBox], stuck: Sequence[RankBox]) -> Answer | None:
    """No call is seen (a framework issues them itself): a few ranks stand in data or a checkpoint, the rest further on.

    Where waits hold the thread that waits, the rest may stand in the backward pass or the optimizer, and a few anywhere else.
    """
    held = [b for b in stuck if b.state.phase in {"data", "checkpoint"}]
    wait = [b for b in stuck if b.state.phase in WAITS]
    # Of the one that is held up nothing may be seen: its interpreter's lock may be held since.
    if not held and all(sees_waits(b.state.fields) for b in wait):
        held = [b for b in stuck if b not in wait]
    rest = [b for b in stuck if b not in held]
    if not held or not rest or len(held) > max(1, len(boxes) // 4):
        return None
    if len(boxes) > 1 and not any(_first(held, b) for b in rest):
        return None
    return _apart(boxes, held, rest)


def _first(held: Sequence[RankBox], other: RankBox) -> bool:
    """Whether those held came to a stand no later than another, as far as their clocks tell."""
    mine = min((b.state.last for b in held if b.state.last is not None), default=None)
    return mine is not None and other.state.last is not None and mine <= other.state.last + WAITED_S


def _apart(
    boxes: dict[GlobalRank, RankBox], apart: Sequence[RankBox], waiting: Sequence[RankBox], *, counted: bool = False
) -> Answer:
    """A few ranks stand in something of their own while the rest wait in calls of torch.distributed, or have begun more of them."""
    one = apart[0]
    plain = held_by_loader(one) or one.state.phase == "checkpoint"
    strength = Strength.SUPPORTED if plain else Strength.POSSIBLE
    everybody = not counted and len(waiting) + len(apart) == len(boxes) and all(_shows_wait(one, b) for b in waiting)
    named = named_boxes(apart, Strength.ESTABLISHED if everybody else Strength.SUPPORTED)
    calls = Counter(b.call or b.state.phase or "?" for b in waiting).most_common(1)[0][0]
    s = "s" if len(waiting) == 1 else ""
    verb = f"wait{s}" if any(b.call is not None for b in waiting) or everybody else f"stand{s} still"
    fewer = (
        f" The others have begun call {waiting[0].call_number} of torch.distributed, it {one.call_number}."
        if counted
        else ""
    )
    text = f"{standing(one, many=apart)} {ranks_text([b.rank for b in waiting]).capitalize()} {verb} in {calls}.{fewer}"
    why = "the black box saw this rank stand still while the others wait for it"
    return _stands(apart, waiting, named, strength, text=text, why=why)


def _shows_wait(one: RankBox, other: RankBox) -> bool:
    """Whether another rank is seen to wait for one: it is in a call of torch.distributed, or a step ahead of it at most.

    A rank steps ahead has not waited at those steps: what it does further on may be its own.
    """
    mine, its = one.state.step, other.state.step
    return other.call is not None or mine is None or its is None or its - mine <= 1


def _alone(one: RankBox) -> Answer | None:
    """The one rank of a job stands in its loader or in a save; a stand in any other phase may be its own work."""
    if one.call is not None or not (held_by_loader(one) or one.state.phase in {"data", "checkpoint"}):
        return None
    at_one = item_of(one.state.fields) is not None or (one.waiting is not None and one.waiting >= WAITED_S)
    strength = Strength.SUPPORTED if at_one else Strength.POSSIBLE
    why = "the black box saw the only rank stand still until it ended"
    return _stands([one], [], named_boxes([one], Strength.SUPPORTED), strength, text=standing(one), why=why)


def _stands(
    apart: Sequence[RankBox], waiting: Sequence[RankBox], named: Named, strength: Strength, *, text: str, why: str
) -> Answer:
    """The answer about ranks that stand in something of their own."""
    one = apart[0]
    phase = _PHASES.get(one.state.phase or "", Phase.UNKNOWN)
    data = held_by_loader(one)
    return Answer(
        question="black_box",
        failed=True,
        category=Category.DATA_LOADING_STALL,
        strength=strength,
        summary=text,
        trigger=event_of(one.hang or one.state),
        proof=(*proof_of(apart), *(event_of(b.hang or b.state) for b in waiting[:2])),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.DATA if data else None,
            form=Form.HUNG,
            layer=Layer.CHECKPOINT if phase is Phase.CHECKPOINT else Layer.RUNTIME,
            phase=phase,
            scope=Scope.RANK if len(apart) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(advice(one),),
        why=why,
    )


def _different(boxes: dict[GlobalRank, RankBox], waiting: Sequence[RankBox]) -> Answer | None:
    """All are in calls of torch.distributed: in different ones, after the same number of calls."""
    del boxes
    numbers = {b.call_number for b in waiting}
    names = Counter(b.call for b in waiting)
    if len(names) < 2:
        return None
    most = names.most_common(1)[0][0]
    odd = [b for b in waiting if b.call != most]
    alone = len(odd) < len(waiting) - len(odd) and len(odd) <= max(1, len(waiting) // 4)
    sure = Strength.SUPPORTED if alone and len(numbers) == 1 else Strength.POSSIBLE
    named = named_boxes(odd, sure) if alone else Named()
    counted = f"in their call number {waiting[0].call_number}" if len(numbers) == 1 else "at the end"
    return Answer(
        question="black_box",
        failed=True,
        category=Category.COLLECTIVE_MISMATCH,
        strength=sure,
        summary=(
            f"The ranks stand in different calls of torch.distributed {counted}: {ranks_text([b.rank for b in odd])} in "
            f"{odd[0].call}{where(odd[0])}, {ranks_text([b.rank for b in waiting if b.call == most])} in {most}. Each side waits for a call that the "
            "other does not make."
        ),
        trigger=event_of(odd[0].hang or odd[0].state),
        proof=(*proof_of(odd), *[event_of(b.hang or b.state) for b in waiting if b not in odd][:2]),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.COMMUNICATION,
            form=Form.HUNG,
            layer=Layer.COLLECTIVE,
            phase=_PHASES.get(odd[0].state.phase or "", Phase.UNKNOWN),
            scope=Scope.RANK if len(odd) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=("Find the condition that sends ranks different ways there: it must not depend on a rank's own data.",),
        why="the black box saw the ranks in calls that cannot meet",
    )


def _slow(boxes: Sequence[RankBox]) -> Answer | None:
    """One rank or few hold up the others: those wait for it in calls or in the backward pass, or it waits for its loader.

    Told only where the job was stopped or merely ends: slowness is no failure by itself.
    """
    found = slow_ranks({b.rank: b.state.fields for b in boxes})
    if found is None:
        return None
    slow = [b for b in boxes if b.rank in found.ranks]
    one = slow[0]
    loader = min(loader_share(b.state.fields) or 0.0 for b in slow)
    usual = median([loader_share(b.state.fields) or 0.0 for b in boxes if b not in slow])
    data = found.by == LOADER or (loader > HELD_BY_LOADER and loader > 2 * usual)
    named = named_boxes(slow, Strength.POSSIBLE if found.by == LOADER else Strength.SUPPORTED)
    who = ranks_text([b.rank for b in slow])
    return Answer(
        question="black_box",
        failed=None,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=_slow_text(slow, found, loader if data else None),
        trigger=event_of(one.state),
        proof=proof_of(slow),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.DATA if data else Domain.COMPUTE,
            form=Form.SLOW,
            layer=Layer.RUNTIME,
            phase=Phase.DATA if data else Phase.UNKNOWN,
            scope=Scope.RANK if len(slow) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN if data else ActionKind.COLLECT_MORE,
        steps=(
            f"Time the reads of {who}'s samples alone on its host."
            if data
            else f"Compare clocks, temperature and other load of the host and card of {who} with those of another.",
        ),
        why="the black box shows who the others waited for",
    )


def _slow_text(slow: Sequence[RankBox], found: Slow, loader: float | None) -> str:
    """What was seen of ranks that hold up the others.

    Args:
        slow: those ranks.
        found: what tells it.
        loader: share of their time that they waited for their loader, where that is what holds them up.
    """
    one = slow[0]
    whose = f"{ranks_text([b.rank for b in slow]).capitalize()}{on_host(one)}"
    was, step, more, less = (
        "was" if len(slow) == 1 else "were",
        one.state.step,
        f"{found.share:.0%}",
        f"{found.others:.0%}",
    )
    if found.by == LOADER:
        return (
            f"{whose} {was} slower than the others up to step {step}: {more} of the time went into waiting for the data loader, of the others "
            f"{less} at most, at the same pace. The job was still making steps when it was ended."
        )
    what = "own work" if loader is None else f"waiting for the data loader ({loader:.0%})"
    if found.by == CALLS:
        return (
            f"{whose} {was} slower than the others up to step {step}: {more} of the time at most went into collectives, of the others {less} or more, "
            f"who waited there; the rest went into {what}. The job was still making steps when it was ended."
        )
    return (
        f"{whose} {was} slower than the others up to step {step}: {more} of the time went into {what} outside of backward pass, optimizer and "
        f"collectives, of the others {less} at most, who waited there. The job was still making steps when it was ended."
    )


def _with_stand(said: Answer, boxes: dict[GlobalRank, RankBox]) -> Answer:
    """The answer with where the only rank stood still, in what may be its own work: that it stood is told, and blames nobody."""
    (one,) = boxes.values()
    if not one.stuck or said.question not in _OPEN or said.culprits.ranks:
        return _described(said, boxes)
    return replace(said, summary=f"{said.summary} {standing(one)}", proof=(*said.proof, *proof_of([one])))


def _of_lost_node(said: Answer, records: Sequence[BoxRecord]) -> Answer:
    """The answer about a node that its neighbours missed, with the ranks that ran there, as they had told each other."""
    trigger = said.trigger
    told = next((r for r in records if trigger is not None and r.span == trigger.span and r.kind == "lost"), None)
    ranks = None if told is None else told.fields.get("ranks")
    if told is None or not isinstance(ranks, list) or said.first_failed.ranks:
        return said
    there = tuple(GlobalRank(r) for r in ranks if isinstance(r, int) and not isinstance(r, bool))
    if not there:
        return said
    hosts = () if told.who.host is None else (told.who.host,)
    first = Named(ranks=there, hosts=hosts, strength=Strength.POSSIBLE)
    ran = f"{ranks_text(there).capitalize()} ran there."
    return replace(said, summary=f"{said.summary} {ran}", first_failed=first)


def _described(said: Answer, boxes: dict[GlobalRank, RankBox]) -> Answer:
    """The answer with where the named ranks were when it happened, by the box."""
    named = [boxes[r] for r in said.culprits.ranks or said.first_failed.ranks if r in boxes]
    if not named or len(named) > SHOWN:
        return said
    one = named[0]
    place = place_text(one)
    if not place:
        return said
    classes = said.classes
    phase = _PHASES.get(one.state.phase or "", Phase.UNKNOWN)
    if phase is not Phase.UNKNOWN and all(b.state.phase == one.state.phase for b in named):
        classes = replace(classes, phase=phase)
    if classes.form is Form.FAILED_START and one.state.step is not None:
        # The log shows no step; the box counted them.
        classes = replace(classes, form=Form.INTERRUPTED)
    text = f"{said.summary} By its black box rank {one.rank} was {place}.{worker_text(one)}{handling_text(one)}"
    return replace(said, summary=text, classes=classes, proof=(*said.proof, *proof_of([one])[:2]))


def _agree(said: Answer, own: Answer, boxes: dict[GlobalRank, RankBox]) -> Answer:
    """Stacks or logs and the box name the same ranks."""
    category = own.category if said.category is Category.UNKNOWN else said.category
    strength = said.strength if said.category is not Category.UNKNOWN else own.strength
    if said.category is own.category:
        strength = max(said.strength, own.strength, key=lambda s: s.level)
    one = boxes[own.culprits.ranks[0]]
    level = STRONGER[max(said.culprits.strength, own.culprits.strength, key=lambda s: s.level)]
    named = replace(said.culprits, hosts=said.culprits.hosts or own.culprits.hosts, strength=level)
    phase = said.classes.phase if said.classes.phase is not Phase.UNKNOWN else own.classes.phase
    return replace(
        said,
        category=category,
        strength=strength,
        summary=f"{said.summary} The black box agrees: {standing(one)}",
        trigger=said.trigger or own.trigger,
        proof=(*own.proof[:SHOWN], *said.proof),
        culprits=named,
        first_failed=named,
        classes=replace(said.classes, phase=phase, domain=said.classes.domain or own.classes.domain),
    )


def _narrower(said: Answer, own: Answer) -> Answer:
    """Of the ranks that logs or stacks see outside of calls the box knows who waits all the same: it has begun the same calls."""
    waits = sorted(set(said.culprits.ranks) - set(own.culprits.ranks))
    text = f"{ranks_text(waits).capitalize()} {'wait' if len(waits) > 1 else 'waits'} for it too: as many calls were begun there as on the ranks seen in one."
    return replace(own, summary=f"{own.summary} {text}", proof=(*own.proof, *said.proof[:2]), rivals=said.rivals)


def _differ(said: Answer, own: Answer) -> Answer:
    """Two witnesses that name different ranks: neither is believed much."""
    weaker = replace(said.culprits, strength=said.culprits.strength.at_most(Strength.POSSIBLE))
    return replace(
        said,
        summary=f"{said.summary} The black box disagrees: {own.summary[:1].lower()}{own.summary[1:]}",
        strength=said.strength.at_most(Strength.POSSIBLE),
        culprits=weaker,
        proof=(*said.proof, *own.proof[:SHOWN]),
    )
