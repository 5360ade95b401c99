"""Where did the ranks stand, by their stacks? Says who was not where the others waited, and what the others waited in.

A stack is one moment: it says nothing of a reason and proves no hang by itself. It is asked where the job hung or was
stopped, or where a process dumped itself after a timer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.agreement import STRONGER, on_its_machine
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
BREAKPOINT = "Take the breakpoint out of the code: its prompt waits for somebody to type, and all other ranks wait for that rank."
_FILES = "Look at the file system from one of these hosts: does a read of the same path return?"
_ALL_AT = {
    Doing.LOCK: (Category.SOFTWARE, "Look for a lock that an earlier run left behind, and for who holds it."),
    Doing.DATA: (Category.STORAGE_IO, _FILES),
    Doing.CHECKPOINT: (Category.STORAGE_IO, _FILES),
    Doing.DEBUGGER: (Category.SOFTWARE, BREAKPOINT),
}
"""What it is where all processes stand at one place, and what to do."""
_PHASE = {Doing.DATA: Phase.DATA, Doing.CHECKPOINT: Phase.CHECKPOINT}
_IN = {
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


def _events(stands: Sequence[Stood], *, places: bool = False) -> tuple[Event, ...]:
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


def _who(stands: Sequence[Stood]) -> str:
    ranks = [s.rank for s in stands]
    known = [r for r in ranks if r is not None]
    if len(known) == len(ranks):
        return ranks_text(sorted(known))
    return stands[0].title if len(stands) == 1 else f"{len(stands)} processes"


def _at(one: Stood) -> str:
    return frame_text(
        (one.place if one.place is not None and one.doing in {Doing.CODE, Doing.DEBUGGER} else one.frame).frame
    )


def _outside(scene: Scene, stands: Sequence[Stood], waiting: Sequence[Stood], apart: Sequence[Stood]) -> Answer:
    """A few ranks are in something of their own while the rest wait for other ranks."""
    what = Counter(s.doing for s in apart).most_common(1)[0][0]
    strength = Strength.SUPPORTED if what is Doing.DATA else Strength.POSSIBLE
    one = apart[0]
    workers = busy_workers(scene.case.seen.stacks, one) if what is Doing.DATA else ()
    inner = "" if not workers else f" A worker of its loader is in {frame_text(workers[0][1].frame)}."
    text = (
        f"{_who(apart).capitalize()} {'is' if len(apart) == 1 else 'are'} {_IN[what]}: {_at(one)}; "
        f"{_who(waiting)} wait{'s' if len(waiting) == 1 else ''} in {_at(waiting[0])}.{inner} {_seen(scene, stands)}"
    )
    return hung(
        "stacks",
        category=Category.SOFTWARE if what is Doing.DEBUGGER else Category.DATA_LOADING_STALL,
        strength=strength,
        summary=text,
        proof=(
            *_events(apart, places=True),
            *(event_of(dump, frame) for dump, frame in workers[:SHOWN]),
            *_events(waiting),
        ),
        culprits=_named(apart, Strength.SUPPORTED),
        classes=Classes(
            domain=Domain.DATA if what is Doing.DATA else None,
            layer=Layer.CHECKPOINT if what is Doing.CHECKPOINT else Layer.RUNTIME,
            phase=_PHASE.get(what, Phase.UNKNOWN),
            scope=Scope.RANK if len(apart) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            (BREAKPOINT,)
            if what is Doing.DEBUGGER
            else (f"Find out why {_who(apart)} stays in {_at(one)}: what does it read, whom does it wait for?",)
        ),
        collect=("a second dump of the same ranks a minute later: a frame that did not move is stuck",),
    )


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
            f"{ranks_text(ranks).capitalize()} gave no stack in time, while {_who(stands)} wait{'s' if len(stands) == 1 else ''} in "
            f"{_at(stands[0])}: a process that holds the interpreter's lock in native code, is stopped, or is gone cannot answer. "
            f"{_seen(scene, stands)}"
        ),
        proof=(*events, *_events(stands)),
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
        summary=f"All {len(apart)} processes whose stacks are here stand {_IN[doing]}, in {_at(apart[0])}: none of them waits for another rank.",
        proof=_events(apart, places=True),
        classes=Classes(phase=_PHASE.get(doing, Phase.UNKNOWN), scope=Scope.ALL),
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
            f"On {_who(both)} two threads are in collectives at once: the main thread in {_at(one)}, another one in "
            f"{frame_text(one.others[0].frame)}. On one group their order differs from rank to rank, and all wait for ever. {_seen(scene, stands)}"
        ),
        proof=(
            *_events(both, places=True),
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
            f"The ranks wait at different places: {_who(most)} in {_from(most[0])}, {_who(first)} in {_from(first[0])}. "
            f"{said}. {_seen(scene, stands)}"
        ),
        proof=(*_events(first, places=True), *_events(most, places=True)),
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
            f"{_who(at_device).capitalize()} wait{'s' if len(at_device) == 1 else ''} for the GPU in {_from(at_device[0])}, and "
            f"{'has' if len(at_device) == 1 else 'have'} not come to {_from(others[0])}, in which {_who(others)} "
            f"wait{'s' if len(others) == 1 else ''}. Why its work does not end is not in the stacks. {_seen(scene, stands)}"
        ),
        proof=(*_events(at_device, places=True), *_events(others)),
        culprits=named,
        classes=Classes(
            domain=Domain.COMPUTE,
            layer=Layer.RUNTIME,
            scope=Scope.RANK if len(at_device) == 1 else Scope.GROUP,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=(
            f"Take a native stack of {_who(at_device)} (`py-spy dump --native`), and read the kernel log of its host for Xid.",
        ),
        collect=("a second dump of the same ranks a minute later: a frame that did not move is stuck",),
    )


def _from(one: Stood) -> str:
    """The call that is waited in, with the place in the program that made it."""
    if one.place is None or one.place.span == one.frame.span:
        return _at(one)
    return f"{one.op}, called from {frame_text(one.place.frame)}"


def _together(scene: Scene, stands: Sequence[Stood]) -> Answer:
    """All stand in the same call: nobody is told apart."""
    answer = hung(
        "stacks",
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"All {len(stands)} processes whose stacks are here wait in the same call, {_from(stands[0])}: the stacks tell nobody apart. {_seen(scene, stands)}",
        proof=_events(stands, places=True),
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


def with_stacks(scene: Scene, said: Answer) -> Answer:
    """The answer of everything else, with what the stacks add.

    An error of its own stays the first fault. Where the rest knows only that the job hung, was stopped or went silent,
    the stacks say where it stood; a job that may be well is not called failed because somebody looked at it.
    """
    if not scene.case.seen.stacks or said.failed is False:
        return said
    if said.question in _OWN_ERROR:
        return _behind_a_store(scene, said)
    own = ask(scene)
    if own is None:
        return _of_the_named(scene, said)
    if said.failed is None and not any(d.cause is not None for d in scene.case.seen.stacks):
        strength = own.strength.at_most(Strength.POSSIBLE)
        own = replace(own, strength=strength, culprits=_weaker(own.culprits), first_failed=_weaker(own.first_failed))
    blamed, seen = set(said.culprits.ranks), set(own.culprits.ranks)
    if blamed and not seen and (told := _of_the_named(scene, said)) is not said:
        return told
    if blamed and seen:
        return _both(said, own, agree=blamed == seen)
    if said.category is not Category.UNKNOWN and said.question not in _STOPPED:
        return replace(said, proof=(*said.proof, *own.proof[:SHOWN]))
    if own.category is Category.UNKNOWN and (blamed or not own.culprits.anybody):
        return replace(said, summary=f"{said.summary} {own.summary}", proof=(*said.proof, *own.proof[:SHOWN]))
    kept = own if seen or not blamed else replace(own, culprits=said.culprits, first_failed=said.first_failed)
    return replace(kept, proof=(*own.proof, *said.proof[:2]), rivals=said.rivals, collect=(*own.collect, *said.collect))


def _behind_a_store(scene: Scene, said: Answer) -> Answer:
    """A line about a store or a disk, with stacks that show who was held up by it: on its machine, or elsewhere."""
    own = ask(scene)
    if own is None or own.category is not Category.DATA_LOADING_STALL or not own.culprits.ranks:
        return said
    reads = own.classes.phase in _PHASE.values()
    waited_for = set(said.first_failed.ranks)
    alike = f"{own.summary[:1].lower()}{own.summary[1:]}"
    proof = (*said.proof, *own.proof[:SHOWN])
    if reads and on_its_machine(scene, said, own.culprits.ranks):
        # The machine's own word, the numbers of the collectives and the stack: three that do not know of each other.
        agreed = waited_for == set(own.culprits.ranks)
        return replace(
            said,
            strength=STRONGER[said.strength] if agreed else said.strength,
            summary=f"{said.summary} The stacks agree: {alike}",
            proof=proof,
            first_failed=own.culprits,
        )
    if said.category is Category.STORAGE_IO and waited_for and not waited_for & set(own.culprits.ranks):
        return replace(
            said,
            strength=said.strength.at_most(Strength.POSSIBLE),
            summary=f"{said.summary} The stacks disagree: {alike}",
            proof=proof,
            first_failed=_weaker(said.first_failed),
        )
    return said


def _of_the_named(scene: Scene, said: Answer) -> Answer:
    """What the stacks show of ranks that the rest already names, where they tell nobody apart by themselves.

    One process is often all that anybody looked at: the silent one. Its place says what it did while the others waited.
    """
    stands = stood(scene.case.seen.stacks, scene.roster, scene.complete.expected)
    of_them = [s for s in stands if s.rank is not None and s.rank in said.culprits.ranks]
    if said.question not in {"hang", "flight_recorder"} or not of_them or len({s.doing for s in of_them}) != 1:
        return said
    what, one = of_them[0].doing, of_them[0]
    if what in WAITS:
        text = f"{said.summary} But its stack shows {_who(of_them)} {_IN[what]} too: {_from(one)}."
        return replace(
            said,
            summary=text,
            strength=said.strength.at_most(Strength.POSSIBLE),
            proof=(*said.proof, *_events(of_them)),
            culprits=_weaker(said.culprits),
        )
    text = (
        f"{said.summary} By its stack {_who(of_them)} {'was' if len(of_them) == 1 else 'were'} {_IN[what]}: {_at(one)}."
    )
    told = said.category is Category.UNKNOWN
    sure = Strength.SUPPORTED if what is Doing.DATA else Strength.POSSIBLE
    if said.category is Category.DATA_LOADING_STALL and said.strength.level > sure.level:
        sure = said.strength
    stalled = told or said.category is Category.DATA_LOADING_STALL
    named = replace(said.culprits, hosts=said.culprits.hosts or tuple(sorted({s.host for s in of_them if s.host})))
    phase = _PHASE.get(what, said.classes.phase)
    return replace(
        said,
        category=(Category.SOFTWARE if what is Doing.DEBUGGER else Category.DATA_LOADING_STALL)
        if told
        else said.category,
        strength=sure if stalled else said.strength,
        summary=text,
        trigger=said.trigger if not told and said.trigger is not None else _events(of_them)[0],
        proof=(*_events(of_them, places=True), *said.proof),
        culprits=named,
        first_failed=named,
        classes=replace(said.classes, phase=phase) if stalled else said.classes,
        steps=(BREAKPOINT, *said.steps) if what is Doing.DEBUGGER else said.steps,
    )


_OWN_ERROR = frozenset({"first_fault", "exit_hang", "nan_end", "good_end"})
_STOPPED = frozenset({"stopped", "effects", "exits", "peers", "nothing"})


def _weaker(named: Named) -> Named:
    return replace(named, strength=named.strength.at_most(Strength.POSSIBLE))


def _both(said: Answer, own: Answer, *, agree: bool) -> Answer:
    """Two witnesses that name ranks."""
    if not agree:
        return replace(
            said,
            summary=f"{said.summary} The stacks disagree: {own.summary[:1].lower()}{own.summary[1:]}",
            strength=said.strength.at_most(Strength.POSSIBLE),
            culprits=_weaker(said.culprits),
            proof=(*said.proof, *own.proof[:SHOWN]),
        )
    category = own.category if said.category is Category.UNKNOWN else said.category
    strength = max(
        own.strength if own.category is category else Strength.UNKNOWN,
        said.strength if said.category is category else Strength.UNKNOWN,
        key=lambda s: s.level,
    )
    both = (said.culprits.strength, own.culprits.strength)
    level = max(*both, Strength.SUPPORTED, key=lambda s: s.level)
    if all(s.level >= Strength.SUPPORTED.level for s in both):
        level = STRONGER[level]  # who it is stands on two legs; why is another matter
    named = replace(said.culprits, hosts=said.culprits.hosts or own.culprits.hosts, strength=level)
    phase = own.classes.phase if own.classes.phase is not Phase.UNKNOWN else said.classes.phase
    return replace(
        said,
        category=category,
        strength=strength,
        # The stacks say why, where the logs do not.
        summary=f"{said.summary if category is Category.UNKNOWN else said.summary.replace(' Why is not in these logs.', '')} The stacks agree: {own.summary[:1].lower()}{own.summary[1:]}",
        trigger=own.trigger or said.trigger,
        proof=(*own.proof, *said.proof),
        culprits=named,
        first_failed=named,
        classes=replace(said.classes, phase=phase, domain=said.classes.domain or own.classes.domain),
        steps=(*own.steps, *said.steps),
    )
