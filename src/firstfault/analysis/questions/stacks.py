"""Where did the ranks stand, by their stacks? Says who was not where the others waited, and what the others waited in.

A stack is one moment: it says nothing of a reason and proves no hang by itself. It is asked where the job hung or was
stopped, or where a process dumped itself after a timer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.agreement import STRONGER
from firstfault.analysis.answer import Answer, Classes, Named, hung
from firstfault.analysis.state.stacks import (
    WAITS,
    Doing,
    Stood,
    busy_workers,
    event_of,
    need_not_agree,
    refusal_of,
    refused,
    stood,
    threads_in_collectives,
)
from firstfault.analysis.wording import frame_text, ranks_text
from firstfault.model.words import ActionKind, Category, Domain, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event
    from firstfault.model.stacks import StackDump

SHOWN = 4
"""Lines of one place that are cited."""
SECOND = "a second dump of the same ranks a minute later: a frame that did not move is stuck"
"""What tells a slow rank from one that is stuck."""
BREAKPOINT = "Take the breakpoint out of the code: its prompt waits for somebody to type, and all other ranks wait for that rank."
_FILES = "Look at the file system from one of these hosts: does a read of the same path return?"
_ALL_AT = {
    Doing.LOCK: (Category.SOFTWARE, "Look for a lock that an earlier run left behind, and for who holds it."),
    Doing.DATA: (Category.STORAGE_IO, _FILES),
    Doing.CHECKPOINT: (Category.STORAGE_IO, _FILES),
    Doing.DEBUGGER: (Category.SOFTWARE, BREAKPOINT),
}
"""What it is where all processes stand at one place, and what to do."""
PHASE = {Doing.DATA: Phase.DATA, Doing.CHECKPOINT: Phase.CHECKPOINT}
IN = {
    Doing.DATA: "reading data",
    Doing.CHECKPOINT: "in a checkpoint",
    Doing.LOCK: "at a lock or a build",
    Doing.CODE: "in its own code",
    Doing.DEBUGGER: "at the prompt of a debugger",
    Doing.COLLECTIVE: "in a collective",
    Doing.RENDEZVOUS: "at the rendezvous",
    Doing.DEVICE: "waiting for the GPU",
}


class _Place(Struct, frozen=True, kw_only=True):
    """Processes that stood at one place."""

    doing: Doing
    op: str
    stands: tuple[Stood, ...]


def ask(scene: Scene) -> Answer | None:
    """The answer of the stacks; None where there are fewer than two processes, or where they tell nothing apart."""
    stands = stood(scene.case.seen.stacks, scene.roster, scene.complete.expected)
    if len(stands) < 2:
        return None
    waiting = [s for s in stands if s.doing in WAITS]
    silent = refused(scene.case.seen.stacks, stands, scene.roster)
    if silent and len(waiting) == len(stands) and len(silent) <= max(1, (len(stands) + len(silent)) // 4):
        return _silent(scene, stands, silent)
    apart = [s for s in stands if s.doing not in WAITS]
    if waiting and apart and len(apart) <= max(1, len(stands) // 4):
        return _outside(scene, stands, waiting, apart)
    if len(apart) == len(stands):
        return _all_apart(apart)
    if apart:
        return None
    both = threads_in_collectives(stands)
    if both and 2 * len(both) >= len(stands):
        return _two_threads(scene, stands, both)
    places = _places(waiting)
    at_device = [s for s in waiting if s.doing is Doing.DEVICE]
    if (
        at_device
        and len(at_device) <= max(1, len(stands) // 4)
        and all(s.op in _ON_THE_CPU for s in waiting if s not in at_device)
    ):
        return _at_device(scene, stands, at_device)
    if len(places) > 1:
        return _different(scene, stands, places)
    return _together(scene, stands)


def events_of(stands: Sequence[Stood], *, places: bool = False) -> tuple[Event, ...]:
    """The lines of the telling frames of the first few, and of their places in the program where these are asked for."""
    found: list[Event] = []
    for one in stands[:SHOWN]:
        found.append(event_of(one.dump, one.frame))
        if places and one.place is not None and one.place.span != one.frame.span:
            found.append(event_of(one.dump, one.place))
    return tuple(found)


def _named(stands: Sequence[Stood], strength: Strength) -> Named:
    ranks = tuple(sorted(s.rank for s in stands if s.rank is not None))
    hosts = tuple(sorted({s.host for s in stands if s.host is not None}))
    if not ranks and not hosts:
        return Named()
    return Named(ranks=ranks, hosts=hosts, strength=strength)


def whom(stands: Sequence[Stood]) -> str:
    """Who they are: their ranks, else how many processes."""
    ranks = [s.rank for s in stands]
    known = [r for r in ranks if r is not None]
    if len(known) == len(ranks):
        return ranks_text(sorted(known))
    return stands[0].title if len(stands) == 1 else f"{len(stands)} processes"


def at_text(one: Stood) -> str:
    """The place at which a process stood."""
    return frame_text(
        (one.place if one.place is not None and one.doing in {Doing.CODE, Doing.DEBUGGER} else one.frame).frame
    )


def _outside(scene: Scene, stands: Sequence[Stood], waiting: Sequence[Stood], apart: Sequence[Stood]) -> Answer:
    """A few ranks are in something of their own while the rest wait for other ranks."""
    what = Counter(s.doing for s in apart).most_common(1)[0][0]
    where = "in their own code" if what is Doing.CODE and len(apart) > 1 else IN[what]
    strength = Strength.SUPPORTED if what is Doing.DATA else Strength.POSSIBLE
    one = apart[0]
    came = [s for s in apart if s.did is not None and s.did[0] in WAITS]
    if came:
        return _moving(scene, stands, apart, came)
    takes = [s.moved for s in apart]
    stuck = all(m is False for m in takes)
    strength = STRONGER[strength].at_most(Strength.SUPPORTED) if stuck else strength
    workers = busy_workers(scene.case.seen.stacks, one) if what is Doing.DATA else ()
    inner = "" if not workers else f" A worker of its loader is in {frame_text(workers[0][1].frame)}."
    text = (
        f"{whom(apart).capitalize()} {'is' if len(apart) == 1 else 'are'} {where}: {at_text(one)}; "
        f"{whom(waiting)} wait{'s' if len(waiting) == 1 else ''} in {at_text(waiting[0])}.{inner} {_seen(scene, stands)}{_takes_text(apart)}"
    )
    return hung(
        "stacks",
        category=Category.SOFTWARE if what is Doing.DEBUGGER else Category.DATA_LOADING_STALL,
        strength=strength,
        summary=text,
        proof=(
            *events_of(apart, places=True),
            *(event_of(dump, frame) for dump, frame in workers[:SHOWN]),
            *events_of(waiting),
        ),
        culprits=_named(apart, Strength.ESTABLISHED if stuck else Strength.SUPPORTED),
        classes=Classes(
            domain=Domain.DATA if what is Doing.DATA else None,
            layer=Layer.CHECKPOINT if what is Doing.CHECKPOINT else Layer.RUNTIME,
            phase=PHASE.get(what, Phase.UNKNOWN),
            scope=Scope.RANK if len(apart) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            (BREAKPOINT,)
            if what is Doing.DEBUGGER
            else (f"Find out why {whom(apart)} stays in {at_text(one)}: what does it read, whom does it wait for?",)
            if len(apart) == 1
            else (f"Find out why {whom(apart)} stay in {at_text(one)}: what do they read, whom do they wait for?",)
        ),
        collect=() if all(s.earlier is not None for s in apart) else (SECOND,),
    )


def _takes_text(apart: Sequence[Stood]) -> str:
    """A sentence on whether those apart moved between two dumps; empty where there is one alone."""
    takes = [s.moved for s in apart]
    if None in takes:
        return ""
    it = "It stands" if len(apart) == 1 else "They stand"
    if not any(takes):
        return f" {it} at the same line in both dumps: stuck there, and not merely slow."
    moved = [s for s in apart if s.moved]
    return f" Between the two dumps {whom(moved)} moved: slow there, and not stuck at one line."


def _moving(scene: Scene, stands: Sequence[Stood], apart: Sequence[Stood], came: Sequence[Stood]) -> Answer:
    """Who is apart now waited with others in the dump before: the job moved, and nobody is stuck there."""
    then = [s for s in stands if s.did is not None and s.did[0] not in WAITS]
    before = f" while {whom(then)} did not wait" if then else ""
    answer = hung(
        "stacks",
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=(
            f"The job moved between the two dumps: in the earlier one {whom(came)} waited for others{before}, in the later one "
            f"{whom(apart)} {'is' if len(apart) == 1 else 'are'} apart, in {at_text(apart[0])}. No rank stayed at one place. {_seen(scene, stands)}"
        ),
        proof=(
            *events_of(apart, places=True),
            *(event_of(s.earlier, s.did[1]) for s in came[:SHOWN] if s.earlier and s.did),
        ),
        classes=Classes(layer=Layer.RUNTIME, scope=Scope.GROUP),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Compare the times of the steps before: a job that moves is slow, and which rank it waits for changes.",
        ),
        collect=("several dumps of all ranks, ten seconds apart",),
    )
    return replace(answer, trigger=None)  # none of these lines shows a fault


def _silent(scene: Scene, stands: Sequence[Stood], silent: Sequence[StackDump]) -> Answer:
    """A few ranks gave no stack when they were asked, while all others wait: stuck without the interpreter's lock, or gone."""
    ranks = tuple(r for d in silent if (r := scene.roster.rank_of(d.who, d.begin.source, {})) is not None)
    hosts = tuple(sorted({d.who.host for d in silent if d.who.host is not None}))
    named = Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE)
    events = tuple(refusal_of(d) for d in silent[:SHOWN])
    return hung(
        "stacks",
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=(
            f"{ranks_text(ranks).capitalize()} gave no stack in time, while {whom(stands)} wait{'s' if len(stands) == 1 else ''} in "
            f"{at_text(stands[0])}: a process that holds the interpreter's lock in native code, is stopped, or is gone cannot answer. "
            f"{_seen(scene, stands)}"
        ),
        proof=(*events, *events_of(stands)),
        culprits=named,
        classes=Classes(scope=Scope.RANK if len(ranks) == 1 else Scope.GROUP),
        action=ActionKind.COLLECT_MORE,
        steps=(
            f"Take a native stack of {ranks_text(ranks)} (py-spy dump --native, or gdb), which needs no answer of the process.",
        ),
        collect=("the native stacks of the ranks that did not answer", "the kernel logs of their hosts"),
    )


def _all_apart(apart: Sequence[Stood]) -> Answer | None:
    """Nobody waits for another rank: all stand at one lock, or in one read."""
    what = {s.doing for s in apart}
    if len(what) != 1 or len({s.op for s in apart}) != 1:
        return None
    doing = next(iter(what))
    if doing is Doing.CODE:
        return None
    category, step = _ALL_AT[doing]
    return hung(
        "stacks",
        category=category,
        strength=Strength.POSSIBLE,
        summary=f"All {len(apart)} processes whose stacks are here stand {IN[doing]}, in {at_text(apart[0])}: none of them waits for another rank.",
        proof=events_of(apart, places=True),
        classes=Classes(phase=PHASE.get(doing, Phase.UNKNOWN), scope=Scope.ALL),
        action=ActionKind.FIX_AND_RERUN,
        steps=(step,),
    )


def _two_threads(scene: Scene, stands: Sequence[Stood], both: Sequence[Stood]) -> Answer:
    """Two threads of a process are in collectives: their order is not the same on all ranks."""
    one = both[0]
    return hung(
        "stacks",
        category=Category.SOFTWARE,
        strength=Strength.POSSIBLE,
        summary=(
            f"On {whom(both)} two threads are in collectives at once: the main thread in {at_text(one)}, another one in "
            f"{frame_text(one.others[0].frame)}. On one group their order differs from rank to rank, and all wait for ever. {_seen(scene, stands)}"
        ),
        proof=(
            *events_of(both, places=True),
            *(event_of(s.dump, f) for s in both[:SHOWN] for f in s.others[:1]),
        ),
        classes=Classes(domain=Domain.COMMUNICATION, layer=Layer.COLLECTIVE, scope=Scope.ALL),
        action=ActionKind.FIX_AND_RERUN,
        steps=("Give the background thread a process group of its own, or wait for it before the next collective.",),
    )


def _places(waiting: Sequence[Stood]) -> list[_Place]:
    """Processes by the place at which they wait, the most frequent one first."""
    found: dict[tuple[object, ...], list[Stood]] = {}
    for one in waiting:
        found.setdefault((one.path, one.call), []).append(one)
    rows = [_Place(doing=v[0].doing, op=v[0].op, stands=tuple(v)) for v in found.values()]
    return sorted(rows, key=lambda p: (-len(p.stands), p.stands[0].title))


def _different(scene: Scene, stands: Sequence[Stood], places: Sequence[_Place]) -> Answer:
    """All wait, but not at one place: their code went different ways, unless they are where they should be."""
    most = places[0].stands
    rest = [s for p in places[1:] for s in p.stands]
    odd = rest if len(rest) <= max(1, len(stands) // 4) and len(most) >= 2 * len(rest) else []
    right = need_not_agree(stands)
    named = _named(odd, Strength.POSSIBLE) if odd and right is None else Named()
    first = odd or list(places[1].stands)
    said = (
        "Each side waits for a call that the other does not make"
        if right is None
        else f"That tells nobody apart: {right}"
    )
    answer = hung(
        "stacks",
        category=Category.COLLECTIVE_MISMATCH if right is None else Category.UNKNOWN,
        strength=Strength.POSSIBLE if right is None else Strength.UNKNOWN,
        summary=(
            f"The ranks wait at different places: {whom(most)} in {from_text(most[0])}, {whom(first)} in {from_text(first[0])}. "
            f"{said}. {_seen(scene, stands)}"
        ),
        proof=(*events_of(first, places=True), *events_of(most, places=True)),
        culprits=named,
        classes=Classes(
            domain=Domain.COMMUNICATION,
            layer=Layer.COLLECTIVE,
            scope=Scope.RANK if len(odd) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Find the condition that sends ranks different ways there: it must not depend on a rank's own data."
            if right is None
            else "Compare the numbers of the collectives and messages over the ranks: the one that is behind has not come.",
        ),
        collect=(
            "the layout of the process groups: ranks of different pipeline stages may wait at different places and be right",
        ),
    )
    return answer if right is None else replace(answer, trigger=None)  # none of these lines shows a fault


_ON_THE_CPU = frozenset({"barrier", "monitored_barrier", "_store_based_barrier", "barrier_wait"})
"""Waits that end when every rank has come to the same line, whatever its device does."""


def _at_device(scene: Scene, stands: Sequence[Stood], at_device: Sequence[Stood]) -> Answer:
    """A few ranks wait for their own device while the rest stand in a barrier that these have not reached."""
    others = [s for s in stands if s not in at_device]
    named = _named(at_device, Strength.POSSIBLE)
    return hung(
        "stacks",
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=(
            f"{whom(at_device).capitalize()} wait{'s' if len(at_device) == 1 else ''} for the GPU in {from_text(at_device[0])}, and "
            f"{'has' if len(at_device) == 1 else 'have'} not come to {from_text(others[0])}, in which {whom(others)} "
            f"wait{'s' if len(others) == 1 else ''}. Why its work does not end is not in the stacks. {_seen(scene, stands)}"
        ),
        proof=(*events_of(at_device, places=True), *events_of(others)),
        culprits=named,
        classes=Classes(
            domain=Domain.COMPUTE,
            layer=Layer.RUNTIME,
            scope=Scope.RANK if len(at_device) == 1 else Scope.GROUP,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=(
            f"Take a native stack of {whom(at_device)} (`py-spy dump --native`), and read the kernel log of its host for Xid.",
        ),
        collect=() if all(s.earlier is not None for s in at_device) else (SECOND,),
    )


def from_text(one: Stood) -> str:
    """The call that is waited in, with the place in the program that made it."""
    if one.place is None or one.place.span == one.frame.span:
        return at_text(one)
    return f"{one.op}, called from {frame_text(one.place.frame)}"


def _calling(one: Stood) -> str:
    """The place in the program from which the call was made."""
    return frame_text((one.frame if one.place is None else one.place).frame)


def _together(scene: Scene, stands: Sequence[Stood]) -> Answer:
    """All stand in the same call: nobody is told apart."""
    lines: dict[int, list[Stood]] = {}
    for one in stands:
        lines.setdefault(0 if one.place is None else one.place.frame.line, []).append(one)
    rows = sorted(lines.values(), key=lambda row: (-len(row), row[0].title))
    text = (
        f"All {len(stands)} processes whose stacks are here wait in the same call, {from_text(stands[0])}: the stacks tell nobody apart."
        if len(rows) == 1
        else f"All {len(stands)} processes whose stacks are here wait in {stands[0].op}, called from different lines of one function: "
        f"{'; '.join(f'{whom(row)} from {_calling(row[0])}' for row in rows[:SHOWN])}{'; …' if len(rows) > SHOWN else ''}. "
        "Who of them should have been at another one the stacks do not tell."
    )
    answer = hung(
        "stacks",
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"{text} {_seen(scene, stands)}",
        proof=events_of([row[0] for row in rows] if len(rows) > 1 else stands, places=True),
        classes=Classes(layer=Layer.COLLECTIVE),
        action=ActionKind.COLLECT_MORE,
        steps=("Compare the numbers of the collectives over the ranks: the one that is behind has not come.",),
        collect=("the stacks of the ranks that are missing here", "the flight-recorder dumps of all ranks"),
    )
    return replace(answer, trigger=None)  # none of these lines shows a fault


def _seen(scene: Scene, stands: Sequence[Stood]) -> str:
    world = scene.complete.expected
    number = len(stands)
    return (
        f"Stacks of {number} of {world} ranks are here."
        if world is not None
        else f"Stacks of {number} processes are here."
    )
