"""Who held the job up, where ranks waited too long? A table of rows; the first that applies answers.

The rows and their exceptions are described in `docs/explanation/hang-decision-table.md`. Who and why are judged apart:
a rank can be certain to have stayed away while its reason is unknown. A time-out alone is never a network fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.hang_words import (
    accounted,
    collective,
    first_collective,
    lead_text,
    overrun,
    sync_point,
    waited,
)
from firstfault.analysis.order import sort_key
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import Picture, few, narrowed, picture
from firstfault.analysis.state.standing import absent_cells, first_line, fits_every_hole, together
from firstfault.analysis.state.window import Doing, Seen
from firstfault.analysis.wording import hosts_text, ranks_text, who_text
from firstfault.model.findings import Rival
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event, GlobalRank

COLLECT = (
    "the flight-recorder dumps of all ranks (/tmp/nccl_trace_rank_* or ~/.cache/torch/comm_lib_trace_rank_*)",
    "stacks of all ranks at the time of the hang (py-spy dump)",
    "kernel logs of all hosts from ten minutes before the stuck collective began",
)
RECORD = "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (TORCH_FR_BUFFER_SIZE from torch 2.10) and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for the next run."


class Row(Struct, frozen=True):
    """One row of the decision table."""

    name: str
    applies: Callable[[Picture], bool]
    answer: Callable[[Picture], Answer]


def ask(scene: Scene) -> Answer | None:
    """The answer where ranks waited too long and nothing else is known; else None."""
    if scene.hang is None:
        return None
    seen = picture(scene)
    return decide(seen)[1]


def decide(seen: Picture) -> tuple[str, Answer]:
    """The row that applies, and its answer."""
    for row in ROWS:
        if row.applies(seen):
            return row.name, row.answer(seen)
    return "unaccounted", _unaccounted(seen)


def _named(seen: Picture) -> Answer:
    """A barrier or the desync report names the ranks that did not come."""
    return _stall(seen, seen.named, Strength.SUPPORTED, (seen.named_event,) if seen.named_event else (), "did not come")


def _outside(seen: Picture) -> Answer:
    """One or few ranks state that they never entered the collective in which the rest is stuck."""
    where = seen.where
    complete = where.witnessed and where.accounted == where.total and not seen.state.assumed
    lines = _absent_lines(seen)
    return _stall(seen, where.outside, Strength.ESTABLISHED if complete else Strength.SUPPORTED, lines, "never entered")


def _outside_many(seen: Picture) -> Answer:
    """Many, but not most, ranks are outside: their machines where these are whole, else the ranks at `possible`."""
    if seen.gone is not None and seen.gone.hosts:
        return _machines(seen, Strength.SUPPORTED)
    return _stall(seen, seen.where.outside, Strength.POSSIBLE, _absent_lines(seen), "never entered")


def _silent(seen: Picture) -> Answer:
    """Few ranks say nothing of a collective, and all others wait."""
    missing = seen.where.missing
    ranks, stated = narrowed(missing, seen.seen(missing), seen.scene)
    strength = Strength.SUPPORTED if few(len(ranks), seen.where.total) else Strength.POSSIBLE
    if not (_log_goes_on(seen) or stated):
        strength = strength.at_most(Strength.POSSIBLE)
    if _sub_groups(seen) and not fits_every_hole(seen.state, ranks):
        strength = strength.at_most(Strength.POSSIBLE)
    return _stall(seen, ranks, strength, (), "is not among those that waited in")


def _behind(seen: Picture) -> Answer:
    """Few ranks are in flight at a lower number than the others, and the collective does not explain it."""
    ranks = seen.behind if len(seen.behind) == 1 else ()
    hosts = tuple(sorted(set(hosts_of(seen.scene, ranks).values())))
    lines = [e for g in seen.state.stuck for c in g.pending if c.rank in seen.behind for e in c.events]
    return _unknown(
        seen,
        f"The job hung: {ranks_text(seen.behind)} stands at a lower collective than the others of its group"
        f"{waited(seen.scene)}; why is not in these logs.",
        trigger=min(lines, key=sort_key, default=None),
        culprits=Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE) if ranks else Named(),
        scope=Scope.RANK if ranks else Scope.GROUP,
        proof=tuple(lines[:2]),
    )


def _frozen(seen: Picture) -> Answer:
    """Few ranks report that their own watchdog or interpreter was stuck, while others timed out normally."""
    hosts = tuple(sorted(set(hosts_of(seen.scene, seen.frozen).values())))
    first = min(seen.frozen_events, key=sort_key)
    return _unknown(
        seen,
        f"The job hung: the watchdog of {ranks_text(seen.frozen)} was itself stuck (a driver call, NCCL, or Python's lock) "
        f"while others waited in {collective(seen.nearest)}{waited(seen.scene)}.",
        trigger=first,
        culprits=Named(ranks=seen.frozen, hosts=hosts, strength=Strength.POSSIBLE),
        scope=Scope.RANK if len(seen.frozen) == 1 else Scope.GROUP,
        proof=(first,),
        steps=("Read the kernel log of that host (Xid, GSP, hung tasks) and take native stacks of the process.",),
    )


def _gone(seen: Picture) -> Answer:
    """Nothing was heard of all ranks of one or more machines, while all others wait."""
    return _machines(seen, Strength.POSSIBLE if seen.gone is not None and seen.gone.absent else Strength.SUPPORTED)


def _machines(seen: Picture, strength: Strength) -> Answer:
    gone = seen.gone
    assert gone is not None
    late = seen.late()
    names = hosts_text(gone.hosts) if gone.hosts else f"{gone.count} machine{'s' if gone.count > 1 else ''}"
    log = "its log is missing" if gone.absent else "its ranks are in no collective"
    trigger = None if seen.nearest is None else first_line(seen.nearest)
    return _unknown(
        seen,
        f"Nothing was heard of {names} ({ranks_text(late)}; {log}) while {_waiters(seen)} waited in "
        f"{collective(seen.nearest)}{waited(seen.scene)}. Why is not in these logs.",
        trigger=trigger,
        culprits=Named(hosts=gone.hosts, strength=strength) if gone.hosts else Named(),
        scope=Scope.NODE,
        steps=(f"Get the log and the kernel log of {names}, and ask the scheduler whether it was lost.",),
        collect=(f"the log of {names}", *COLLECT),
        proof=() if trigger is None else (trigger,),
    )


def _most_outside(seen: Picture) -> Answer:
    """Most ranks are stated to be outside: the few inside entered a collective that the rest never issued."""
    lines = _absent_lines(seen)
    inside = tuple(r for r in seen.where.waiting)
    answer = _unknown(
        seen,
        f"{ranks_text(inside).capitalize()} waited in {collective(seen.nearest)}{waited(seen.scene)}, which "
        f"{len(seen.where.outside)} of {seen.where.total} ranks never issued: a collective in code that only some ranks "
        "run, or uneven numbers of batches.",
        trigger=None if seen.nearest is None else first_line(seen.nearest),
        scope=Scope.GROUP,
        proof=lines[:2],
        steps=("Look for a collective that only some ranks call: a branch on the rank, or uneven numbers of batches.",),
    )
    from msgspec.structs import replace  # noqa: PLC0415 - one small use

    return replace(answer, category=Category.COLLECTIVE_MISMATCH, strength=Strength.POSSIBLE)


def _inside(seen: Picture) -> Answer:
    """Every rank of the job is inside the same collective, and nothing else is found: the collective itself is stuck."""
    first = first_collective(seen.nearest)
    total = seen.where.total
    start = " It is the first collective of its group: look at the set-up of network and GPUs first." if first else ""
    lines = () if seen.nearest is None else tuple(e for c in seen.nearest.pending for e in c.events[:1])[:3]
    return Answer(
        question="hang",
        failed=True,
        category=Category.NETWORK,
        strength=Strength.POSSIBLE,
        summary=_join(
            f"All {total} ranks ({total} of {total}) were inside {collective(seen.nearest)}{waited(seen.scene)}: no rank is "
            f"missing, so the collective itself was stuck. No line says where.{start}",
            *_remarks(seen),
        ),
        proof=lines,
        classes=Classes(
            domain=Domain.COMMUNICATION,
            form=Form.HUNG,
            layer=Layer.COLLECTIVE,
            phase=Phase.START_UP if first else Phase.UNKNOWN,
            scope=Scope.ALL,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Read the kernel logs and fabric counters of all hosts for the minutes before the collective began.",
            "Run nccl-tests on the same hosts; halve the set to find a bad link.",
            RECORD,
        ),
        collect=COLLECT,
    )


def _unaccounted(seen: Picture) -> Answer:
    """Nothing decides: members are not accounted for, or no line states where the ranks stood."""
    hang = seen.scene.hang
    stuck = collective(seen.nearest) if seen.nearest is not None else _from_hang(seen.scene)
    detail = f"; {accounted(seen)}, and no line names the reason" if seen.state.groups else "; no line names the reason"
    first = " It is the first collective of its group." if first_collective(seen.nearest) else ""
    steps = [
        "Find the rank that did not wait: the one whose log is silent, or whose last enqueued number is the lowest."
    ]
    if seen.where.missing and seen.state.groups:
        steps.insert(
            0, f"Get what {ranks_text(seen.where.missing)} printed last: nothing places them in the collective."
        )
    return _unknown(
        seen,
        f"The job hung: {_waiters(seen)} waited in {stuck}{waited(seen.scene)}{detail}. A time-out alone does not mean a "
        f"network fault.{first}",
        trigger=None,
        scope=Scope.GROUP,
        proof=() if hang is None else hang.events[:3],
        steps=tuple(steps),
    )


ROWS: tuple[Row, ...] = (
    Row("named", lambda p: bool(p.named), _named),
    Row("outside", lambda p: few(len(p.where.outside), p.where.total), _outside),
    Row("outside_many", lambda p: 0 < 2 * len(p.where.outside) <= p.where.total, _outside_many),
    Row("most_outside", lambda p: bool(p.where.outside) and bool(p.where.waiting), _most_outside),
    Row("gone", lambda p: p.gone is not None and _rest_waits(p), _gone),
    Row("silent", lambda p: _silent_applies(p), _silent),
    Row("frozen", lambda p: bool(p.frozen) and few(len(p.frozen), max(p.where.total, len(p.state.own))), _frozen),
    Row("behind", lambda p: bool(p.behind), _behind),
    Row("inside", lambda p: p.inside, _inside),
)


def _silent_applies(seen: Picture) -> bool:
    """Few ranks are missing and the rest is stuck at one number; or few of the missing were seen at other work."""
    missing = seen.where.missing
    if not missing or not _rest_waits(seen):
        return False
    if not any(together(g) for g in seen.state.stuck if g.comparable and not g.p2p):
        return False
    if few(len(missing), seen.where.total):
        return True
    ranks, _ = narrowed(missing, seen.seen(missing), seen.scene)
    return ranks != missing and few(len(ranks), seen.where.total)


def _rest_waits(seen: Picture) -> bool:
    return bool(seen.where.waiting) and not seen.where.outside and not seen.state.unplaced


def _log_goes_on(seen: Picture) -> bool:
    """Whether the log goes on behind the time-outs, so that a silent rank had its chance to speak."""
    scene = seen.scene
    hang = scene.hang
    if scene.failures or scene.teardown or scene.deaths or scene.marked(Mark.ABORT, Mark.STOP_SIGNAL):
        return True
    return hang is not None and len(seen.where.waiting) >= 2 and bool(seen.where.told)


def _sub_groups(seen: Picture) -> bool:
    return any(not g.default and g.comparable for g in seen.state.stuck)


def _absent_lines(seen: Picture) -> tuple[Event, ...]:
    """State lines of the ranks outside, in order."""
    cells = [c for g in seen.where.outside_of for c in absent_cells(g) if c.rank in set(seen.where.outside)]
    return tuple(sorted((c.state for c in cells if c.state is not None), key=sort_key))


def _stall(seen: Picture, ranks: Sequence[GlobalRank], strength: Strength, lines: Iterable[Event], verb: str) -> Answer:
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
    why = "" if category is not Category.UNKNOWN else " Why is not in these logs."
    named = Named(ranks=late, hosts=hosts, strength=strength)
    return Answer(
        question="hang",
        failed=True,
        category=category,
        strength=sure,
        summary=_join(
            f"{_capital(who_text(late, hosts))} {_verb(verb, len(late))} {collective(seen.nearest)}, in which "
            f"{_waiters(seen)} waited{waited(seen.scene)}.{doing}{why}",
            f"{accounted(seen).capitalize()}." if seen.state.groups else None,
            *_remarks(seen),
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
            scope=Scope.RANK if len(late) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN if category is Category.DATA_LOADING_STALL else ActionKind.COLLECT_MORE,
        steps=_steps(late, busy),
        collect=(f"the complete log of {ranks_text(late)} and its stack at the time (py-spy dump)", *COLLECT),
        rivals=(_network_rival(seen, late), *_gpu_rival(late, stated=bool(stated))),
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
    return tuple(dict.fromkeys((e.span.source, e.span.offset) for e in lines)) and tuple(_once(lines))


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


def _steps(late: Sequence[GlobalRank], busy: Seen | None) -> tuple[str, ...]:
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
        f"Look at what {who} did while the others waited: its data shard, its last sample, its host's storage mounts.",
        "Take stacks (py-spy dump) of that rank the next time before the job is ended.",
        RECORD,
    )


def _network_rival(seen: Picture, late: Sequence[GlobalRank]) -> Rival:
    return Rival(
        category=Category.NETWORK,
        strength=Strength.UNKNOWN,
        supports=("ranks timed out in a collective",),
        against=(
            f"{ranks_text(late)} is not inside the collective: the others wait for it, whatever the network does",
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
            supports=(f"{ranks_text(late)} says nothing, as a process that hangs in the driver does",),
            against=("no line speaks of its GPU",),
            settled_by=("the kernel log of its host (Xid), and a native stack of the process",),
        ),
    )


def _unknown(
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
    named = culprits if culprits is not None else Named()
    start = first_collective(seen.nearest)
    return Answer(
        question="hang",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=_join(summary, *_remarks(seen)),
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


def _remarks(seen: Picture) -> tuple[str | None, ...]:
    """Remarks that explain what would else mislead: a lead of the root, the sync point, a late watchdog."""
    cells = () if seen.nearest is None else seen.nearest.pending
    work = next((c.work for c in cells if c.work is not None), None)
    point = sync_point(seen.scene, work)
    return (lead_text(seen), None if point is None else f"{point[0].upper()}{point[1:]}.", overrun(seen))


def _join(*parts: str | None) -> str:
    return " ".join(p for p in parts if p)


def _waiters(seen: Picture) -> str:
    waiting = seen.where.waiting or (() if seen.scene.hang is None else seen.scene.hang.waiters)
    if not waiting:
        return "ranks"
    return ranks_text(waiting) if len(waiting) <= 8 else f"{len(waiting)} ranks"


def _from_hang(scene: Scene) -> str:
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
