"""Answers about a hang: one that names ranks which stayed away, and one that leaves the reason open.

Says who, why, how sure and what to do next; which of them applies is decided in `firstfault.analysis.questions.hang`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.hang_words import (
    accounted,
    collective,
    first_collective,
    lead_text,
    other_clocks,
    overrun,
    sync_point,
    waited,
    waiting_there,
)
from firstfault.analysis.state.fabric import Pattern, transport_lines
from firstfault.analysis.state.groups import positions
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.scopes import ASK, scope_of
from firstfault.analysis.state.standing import first_line
from firstfault.analysis.state.window import Doing, Seen
from firstfault.analysis.wording import ranks_text, who_text
from firstfault.model.findings import Rival
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.picture import Picture
    from firstfault.model.evidence import Event, GlobalRank

COLLECT = (
    "the flight-recorder dumps of all ranks (`/tmp/nccl_trace_rank_*` or `~/.cache/torch/comm_lib_trace_rank_*`)",
    "stacks of all ranks at the time of the hang (`py-spy dump`)",
    "kernel logs of all hosts from ten minutes before the stuck collective began",
)
UNEXPLAINED = " Why is not in these logs."
"""Sentence on a rank that stayed away for a reason that no line tells."""
RECORD = "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (newer name: TORCH_FR_BUFFER_SIZE) and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for the next run."


def stall(seen: Picture, ranks: Sequence[GlobalRank], strength: Strength, lines: Iterable[Event], verb: str) -> Answer:
    """An answer that names ranks that stayed away; the reason is claimed only as far as their lines show it.

    Args:
        seen: the hang.
        ranks: the late ranks.
        strength: of who it was.
        lines: lines that show them absent.
        verb: how that is said, before the collective.
    """
    late = tuple(sorted(ranks))
    stated = tuple(lines)
    work = seen.seen(late)
    hosts = tuple(sorted(set(hosts_of(seen.scene, late).values())))
    category, sure = _reason(seen, work, bool(stated) and seen.named_event is None, strength)
    start = first_collective(seen.nearest)
    trigger = _trigger(seen, work, stated)
    busy = work[0] if work else None
    doing = f" It was last seen {busy.doing}." if busy is not None else ""
    why = "" if category is not Category.UNKNOWN else UNEXPLAINED
    named = Named(ranks=late, hosts=hosts, strength=strength)
    scope = scope_of(seen.scene, late, seen.state.world) or Scope.GROUP
    return Answer(
        question="hang",
        failed=True,
        category=category,
        strength=sure,
        summary=join(
            f"{_capital(who_text(late, hosts))} {_verb(verb, len(late))} {collective(seen.nearest)}, in which "
            f"{waiting_there(seen)} waited{waited(seen.scene)}.{doing}{why}",
            f"{accounted(seen).capitalize()}." if seen.state.groups else None,
            *remarks(seen),
        ),
        trigger=trigger,
        proof=_proof(seen, trigger, stated, work),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.DATA if category is Category.DATA_LOADING_STALL else None,
            form=Form.HUNG,
            layer=Layer.RUNTIME,
            phase=Phase.START_UP if start and busy is None else _phase(category, busy),
            scope=scope,
        ),
        action=ActionKind.FIX_AND_RERUN if category is Category.DATA_LOADING_STALL else ActionKind.COLLECT_MORE,
        steps=_steps(late, busy, scope),
        collect=(
            f"the complete log of {ranks_text(late)} and {_its(late)} stack at the time (`py-spy dump`)",
            *COLLECT,
        ),
        rivals=(_network_rival(late, seen_away=bool(stated or work)), *_gpu_rival(late, stated=bool(stated))),
    )


def _reason(seen: Picture, work: tuple[Seen, ...], stated: bool, who: Strength) -> tuple[Category, Strength]:
    """Why ranks stayed away.

    A rank whose counters show nothing in flight was on the CPU side, between two steps as a rule: a stall by the
    meaning of that category. A rank that is merely silent may as well be dead or frozen: the reason stays unknown
    unless it was seen at work.
    """
    if work:
        slow = work[0].doing in {Doing.PREPARING, Doing.READING}
        sure = Strength.SUPPORTED if slow and who.level >= Strength.POSSIBLE.level else Strength.POSSIBLE
        return Category.DATA_LOADING_STALL, sure
    if stated:
        moved = bool(seen.scene.case.tracks) or not first_collective(seen.nearest)
        sure = Strength.SUPPORTED if moved else Strength.POSSIBLE
        return Category.DATA_LOADING_STALL, sure.at_most(who)
    return Category.UNKNOWN, Strength.UNKNOWN


def _trigger(seen: Picture, work: tuple[Seen, ...], stated: tuple[Event, ...]) -> Event | None:
    """The late rank's last line before the wait, else the line that shows it absent, else the first of those who wait."""
    if work:
        return work[0].events[-1]
    if stated:
        return stated[0]
    return None if seen.nearest is None else first_line(seen.nearest)


def _proof(
    seen: Picture, trigger: Event | None, stated: tuple[Event, ...], work: tuple[Seen, ...]
) -> tuple[Event, ...]:
    waits = [] if seen.nearest is None else [e for c in seen.nearest.pending for e in c.events[-1:]]
    lines = [*([trigger] if trigger is not None else []), *stated[:2], *(s.events[-1] for s in work[:2]), *waits[:2]]
    return tuple(_once(lines))


def _once(events: Iterable[Event]) -> Iterable[Event]:
    done: set[tuple[int, int]] = set()
    for event in events:
        key = (int(event.span.source), event.span.offset)
        if key not in done:
            done.add(key)
            yield event


def _phase(category: Category, busy: Seen | None) -> Phase:
    if busy is not None:
        match busy.doing:
            case Doing.CHECKPOINT:
                return Phase.CHECKPOINT
            case Doing.EVALUATION:
                return Phase.EVALUATION
            case Doing.PREPARING | Doing.READING:
                return Phase.DATA
    return Phase.DATA if category is Category.DATA_LOADING_STALL else Phase.UNKNOWN


def _steps(late: Sequence[GlobalRank], busy: Seen | None, scope: Scope) -> tuple[str, ...]:
    who = ranks_text(late)
    first: tuple[str, ...] = ()
    if busy is not None and busy.doing is Doing.PREPARING:
        first = (
            "Prepare the data before the process group is created (or in a job of its own), or give the first barrier a longer timeout.",
        )
    elif busy is not None and busy.doing is Doing.READING:
        first = (
            "Give reads of the data store a timeout and few retries, so that a slow read fails in seconds instead of holding the job up.",
        )
    elif busy is not None and busy.doing is Doing.CHECKPOINT:
        first = ("Look at the speed of the checkpoint's file system, or write the checkpoint asynchronously.",)
    return (
        *first,
        f"Look at what {who} did while the others waited: data shard, last sample, storage mounts of the host.",
        ASK[scope],
        f"Take stacks (`py-spy dump`) of {who} the next time before the job is ended.",
        RECORD,
    )


def _network_rival(late: Sequence[GlobalRank], *, seen_away: bool) -> Rival:
    """What speaks against the network: ranks that are seen elsewhere, or only not seen among those that waited."""
    who = ranks_text(late)
    outside = (
        f"{who} {_are(late)} not inside the collective: the others wait for {_them(late)}, whatever the network does"
        if seen_away
        else f"nothing shows {who} inside the collective, in which the others wait"
    )
    return Rival(
        category=Category.NETWORK,
        strength=Strength.UNKNOWN,
        supports=("ranks timed out in a collective",),
        against=(
            outside,
            "no line of a transport or of hardware is there",
        ),
        settled_by=("a transport error, or a flight-recorder dump in which all ranks have started the collective",),
    )


def _gpu_rival(late: Sequence[GlobalRank], *, stated: bool) -> tuple[Rival, ...]:
    if stated:
        return ()
    return (
        Rival(
            category=Category.GPU_CUDA,
            strength=Strength.UNKNOWN,
            supports=(f"nothing is heard of {ranks_text(late)}, as of a process that hangs in the driver",),
            against=(f"no line speaks of {_its(late)} GPU",),
            settled_by=(f"the kernel log of {_its(late)} host (Xid), and a native stack of the process",),
        ),
    )


def undecided(
    seen: Picture,
    summary: str,
    *,
    trigger: Event | None,
    scope: Scope,
    proof: tuple[Event, ...] = (),
    culprits: Named | None = None,
    steps: tuple[str, ...] = (),
    collect: tuple[str, ...] = COLLECT,
) -> Answer:
    """An answer without a reason, with whom it may name."""
    named = culprits if culprits is not None else Named()
    start = first_collective(seen.nearest)
    return Answer(
        question="hang",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=join(summary, *remarks(seen)),
        trigger=trigger,
        proof=proof,
        culprits=named,
        first_failed=named if named.ranks else Named(),
        classes=Classes(
            domain=Domain.COMMUNICATION,
            form=Form.HUNG,
            layer=Layer.COLLECTIVE,
            phase=Phase.START_UP if start else Phase.UNKNOWN,
            scope=scope,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=(*steps, RECORD),
        collect=collect,
    )


def stuck(seen: Picture, summary: str, scope: Scope, shared: Pattern | None = None) -> Answer:
    """An answer that says that a collective itself is stuck: every member of it is inside.

    Args:
        seen: the hang; its nearest group is the stuck one.
        summary: who is inside.
        scope: how much of the job it is in.
        shared: the machine or rail that the stuck groups have in common, where they have one.
    """
    opening = first_collective(seen.nearest)
    told = transport_lines(seen.scene)
    strength = Strength.SUPPORTED if told or shared is not None else Strength.POSSIBLE
    start = (
        "It is the first collective of its group: look at the set-up of network and GPUs first." if opening else None
    )
    entry = None if seen.nearest is None else first_line(seen.nearest)
    lines = () if seen.nearest is None else tuple(e for c in seen.nearest.pending for e in c.events[:1])[:3]
    where = "A line of the transport or of hardware stands before the time-outs." if told else "No line says where."
    hosts = () if shared is None else shared.hosts
    return Answer(
        question="hang",
        failed=True,
        category=Category.NETWORK,
        strength=strength,
        summary=join(summary, where, start, *remarks(seen)),
        trigger=told[0] if told else (entry if opening or shared is not None else None),
        proof=(*told[:2], *lines),
        culprits=Named(hosts=hosts, strength=Strength.POSSIBLE) if hosts else Named(),
        classes=Classes(
            domain=Domain.COMMUNICATION,
            form=Form.HUNG,
            layer=Layer.NETWORK if told else Layer.COLLECTIVE,
            phase=Phase.START_UP if opening else Phase.UNKNOWN,
            scope=scope,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Read the kernel logs and fabric counters of all hosts for the minutes before the collective began.",
            "Run nccl-tests on the same hosts; halve the set to find a bad link.",
            ASK[scope],
            RECORD,
        ),
        collect=COLLECT,
        rivals=(_gpu_inside(),),
    )


def _gpu_inside() -> Rival:
    return Rival(
        category=Category.GPU_CUDA,
        strength=Strength.UNKNOWN,
        supports=("a GPU that hangs inside the collective's kernel looks the same in these counters",),
        against=("no line speaks of a GPU",),
        settled_by=("kernel logs of all hosts (Xid), and which rank's kernel did not start",),
    )


def remarks(seen: Picture) -> tuple[str | None, ...]:
    """Remarks that explain what would else mislead: a lead of the root, the sync point, a late watchdog."""
    cells = () if seen.nearest is None else next(iter(positions(seen.nearest).values()), ())
    work = next((c.work for c in cells if c.work is not None), None)
    point = sync_point(seen.scene, work)
    return (
        lead_text(seen),
        None if point is None else f"{point[0].upper()}{point[1:]}.",
        overrun(seen),
        other_clocks(seen),
    )


def join(*parts: str | None) -> str:
    """Sentences that are there, joined."""
    return " ".join(p for p in parts if p)


def from_hang(scene: Scene) -> str:
    """The collective of a hang as the first line has it."""
    hang = scene.hang
    if hang is None:
        return "a collective"
    return f"{hang.op} {hang.seq}" if hang.op and hang.seq else (hang.op or "a collective")


def _capital(text: str) -> str:
    text = text.removeprefix(" on ")
    return text[:1].upper() + text[1:]


def _verb(verb: str, number: int) -> str:
    """The verb for one or for several ranks."""
    if number > 1:
        verb = verb.replace("is not", "are not")
    return verb if "in" in verb.split() or verb.endswith("entered") else f"{verb} to"


def _are(ranks: Sequence[GlobalRank]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _its(ranks: Sequence[GlobalRank]) -> str:
    return "its" if len(ranks) == 1 else "their"


def _them(ranks: Sequence[GlobalRank]) -> str:
    return "it" if len(ranks) == 1 else "them"
