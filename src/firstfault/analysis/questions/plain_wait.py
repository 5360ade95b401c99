"""Who held a job up where waits name no group and no number (gloo, a store, plain barriers)? Rows of the table about hangs.

Uses where the ranks' own tracebacks end, and who of the ranks that are there says nothing. It claims little: whoever is
silent is named at `possible`, and without a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Classes, Named, hung
from firstfault.analysis.hang_answers import stall, undecided
from firstfault.analysis.hang_words import collective, waited, waiting_there
from firstfault.analysis.order import sort_key
from firstfault.analysis.state.calls import BARRIERS, Call, by_op, last_calls
from firstfault.analysis.state.exits import TOLD
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import Picture, few
from firstfault.analysis.state.scopes import scope_of
from firstfault.analysis.wording import ranks_text, who_text
from firstfault.model.findings import Rival
from firstfault.model.words import ActionKind, Category, Domain, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event, GlobalRank


def apart_applies(seen: Picture) -> bool:
    """Whether every rank left the traceback of a wait, and they end in calls that cannot meet each other."""
    if seen.state.groups or seen.state.unplaced:
        return False
    calls = last_calls(seen.scene)
    kinds = by_op(calls)
    waiting = [op for op, found in kinds.items() if any(c.timed_out for c in found)]
    return len(kinds) >= 2 and len(waiting) >= 1 and _everybody(seen.scene, calls)


def _everybody(scene: Scene, calls: tuple[Call, ...]) -> bool:
    """Whether these are the calls of all ranks: of the stated number of them, or of all that were seen."""
    world = scene.complete.expected
    ranks = {c.rank for c in calls if c.rank is not None}
    if world is not None:
        return len(calls) == world
    return len(ranks) == len(calls) >= 2 and ranks >= present(scene)


def present(scene: Scene) -> set[GlobalRank]:
    """Ranks that are there: a line speaks of them, or a file is theirs."""
    files = {place.rank for place in scene.case.seen.place.values() if place.rank is not None}
    listed = {e.rank for e in scene.exits if e.rank is not None}
    return {*scene.complete.seen, *files, *listed}


def apart(seen: Picture) -> Answer:
    """Ranks stand in calls that cannot meet: they took different ways through the code."""
    scene = seen.scene
    calls = last_calls(scene)
    kinds = by_op(calls)
    odd = _odd(kinds)
    ranks = tuple(sorted(c.rank for c in odd if c.rank is not None))
    if len(ranks) < len(odd):
        ranks = ()
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values())))
    alone = len(kinds) == 2 and len(odd) < len(calls) - len(odd)
    sure = Strength.SUPPORTED if scene.complete.expected is not None and alone else Strength.POSSIBLE
    named = Named(ranks=ranks, hosts=hosts, strength=sure if alone else Strength.POSSIBLE) if ranks else Named()
    shown = "; ".join(_said(found) for found in list(kinds.values())[:4])
    lines = tuple(c.event for found in list(kinds.values())[:3] for c in found[:1])
    first = min(odd or calls, key=lambda c: (c.event.span.source, c.event.span.offset)).event
    blame = ""
    if ranks:
        why = "by majority" if alone else "who stands in a barrier has left the part in which the others still are"
        blame = f" The odd one out is{who_text(ranks, hosts).removeprefix(' on')}: {why}."
    return hung(
        "mismatch",
        category=Category.COLLECTIVE_MISMATCH,
        strength=sure,
        summary=f"The ranks waited in different calls, by their own tracebacks: {shown}{waited(scene)}. None of these can "
        f"meet the others, so the ranks took different ways through the code.{blame}",
        proof=(first, *(e for e in lines if e is not first)),
        culprits=named,
        classes=Classes(
            domain=Domain.COMMUNICATION,
            layer=Layer.COLLECTIVE,
            phase=Phase.UNKNOWN,
            scope=scope_of(scene, ranks, scene.complete.expected) or Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            (
                "Compare the frames of these tracebacks: find the branch that only some ranks take, or the loop that some leave earlier "
                "(uneven numbers of batches, a check for rank 0), and let all decide alike."
            ),
            "Run a short job with TORCH_DISTRIBUTED_DEBUG=DETAIL: it stops at the first difference.",
        ),
        collect=("stacks of all ranks at the time of the hang (`py-spy dump`)",),
        rivals=(_slow(kinds), _network()),
    )


def _odd(kinds: dict[str, tuple[Call, ...]]) -> tuple[Call, ...]:
    """The smaller side of two; of two equally large ones those in a barrier; nobody where there are more."""
    if len(kinds) != 2:
        return ()
    small, large = kinds.values()
    if len(small) < len(large):
        return small
    barrier = small[0].name in BARRIERS and large[0].name not in BARRIERS
    return small if barrier and len(small) == 1 else ()


def _said(calls: tuple[Call, ...]) -> str:
    ranks = [int(c.rank) for c in calls if c.rank is not None]
    who = ranks_text(ranks) if len(ranks) == len(calls) else f"{len(calls)} process{'es' if len(calls) > 1 else ''}"
    frame = calls[0].caller
    place = "" if frame is None else f" ({frame.file.rsplit('/', 1)[-1]}:{frame.line})"
    return f"{who} in {calls[0].name}{place}"


def _slow(kinds: dict[str, tuple[Call, ...]]) -> Rival:
    return Rival(
        category=Category.DATA_LOADING_STALL,
        strength=Strength.UNKNOWN,
        supports=("a rank that is merely late makes the others wait too",),
        against=("every rank was inside a call to the others: " + ", ".join(c[0].name for c in kinds.values()),),
        settled_by=("stacks of all ranks during the wait",),
    )


def _network() -> Rival:
    return Rival(
        category=Category.NETWORK,
        strength=Strength.UNKNOWN,
        supports=("ranks timed out in a collective",),
        against=("the ranks stand in different calls, which no network can bring together",),
        settled_by=("the same code with equal calls on all ranks",),
    )


def unbatched(seen: Picture) -> tuple[Event, ...]:
    """The warnings about the order of sends and receives, where all that waits is one and nobody is stated to be outside."""
    stuck = seen.state.stuck
    if not stuck or not all(g.p2p for g in stuck) or seen.where.outside:
        return ()
    return tuple(sorted(seen.scene.marked(Mark.P2P_ORDER), key=sort_key))


def pairs(seen: Picture) -> Answer:
    """Only sends and receives wait, and a line says why their orders may not fit."""
    lines = unbatched(seen)
    spec = seen.scene.case.spec(lines[0])
    why = "" if spec is None else f" {spec.meaning}"
    answer = undecided(
        seen,
        f"The job hung: {waiting_there(seen)} waited in {collective(seen.nearest)}{waited(seen.scene)}; all that waits is a send or a "
        f"receive.{why} No rank is at fault for that.",
        trigger=lines[0],
        scope=Scope.GROUP,
        proof=(*lines[:1], *(() if seen.scene.hang is None else seen.scene.hang.events[:2])),
        steps=(
            "Batch these calls (batch_isend_irecv), or give the pairs one order; set up communicators at the start.",
            "Give a pipeline schedule at least as many micro-batches as stages.",
        ),
    )
    return replace(
        answer, category=Category.COLLECTIVE_MISMATCH, strength=Strength.POSSIBLE, action=ActionKind.FIX_AND_RERUN
    )


def quiet_ranks(seen: Picture) -> tuple[GlobalRank, ...]:
    """Few ranks that are there, neither wait nor failed, while all others that are there wait; empty where it is not so."""
    scene = seen.scene
    if scene.hang is None or seen.state.groups or seen.state.unplaced:
        return ()
    waiting = {*scene.hang.waiters, *(c.rank for c in last_calls(scene) if c.rank is not None)}
    there = present(scene)
    world = scene.complete.expected
    if world is not None and there != set(range(world)):
        return ()
    rest = tuple(sorted(there - waiting))
    failed = {e.rank for e in scene.exits if e.signal not in TOLD}
    failed |= {r for s in scene.suspects for r in s.everyone}
    # Who says that a peer is gone was inside a collective with it, and is not quiet.
    failed |= {
        r
        for e in scene.marked(Mark.PEER_LOST)
        if id(e) not in scene.got_over and (r := scene.roster.rank(e)) is not None
    }
    if not waiting <= there or set(rest) & failed or not few(len(rest), len(there)):
        return ()
    # One that waits for one other is no more than half a proof: the other's file must be there, and it says so little.
    return rest if len(waiting) >= 2 or world == 2 else ()


def quiet(seen: Picture) -> Answer:
    """Few of the ranks say nothing of a wait; all others wait in calls that name no number."""
    ranks = quiet_ranks(seen)
    return stall(seen, ranks, Strength.POSSIBLE, (), "is not among those that waited in")
