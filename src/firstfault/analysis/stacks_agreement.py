"""Stacks beside everything else: one verdict, surer where both say the same, less sure and said where they do not.

Asks no question itself. A witness that agrees never takes anything from a claim; which ranks a stack can acquit depends on
what they are blamed for: who issued another size stands in a collective like everybody, who never came does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.agreement import STRONGER, on_its_machine
from firstfault.analysis.questions.stacks import BREAKPOINT, IN, PHASE, SHOWN, ask, at_text, events_of, from_text, whom
from firstfault.analysis.recorder_words import without_guess
from firstfault.analysis.state.stacks import WAITS, Doing, stood
from firstfault.model.words import ActionKind, Category, Domain, Layer, Phase, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.answer import Answer, Named
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.stacks import Stood

SPY = "py-spy dump"
_OWN_ERROR = frozenset({"first_fault", "exit_hang", "nan_end", "good_end"})
_STOPPED = frozenset({"stopped", "effects", "exits", "peers", "nothing"})


def with_stacks(scene: Scene, said: Answer) -> Answer:
    """The answer of everything else, with what the stacks add, and without asking for a stack that is here.

    Args:
        scene: the attempt.
        said: the answer of everything else.
    """
    answer = _weighed(scene, said)
    named = set(answer.culprits.ranks)
    if answer is said or not named or not any(SPY in c for c in (*answer.collect, *answer.steps)):
        return answer
    here = {s.rank for s in stood(scene.case.seen.stacks, scene.roster, scene.complete.expected)}
    if not named <= here:
        return answer
    return replace(answer, collect=_without_wish(answer.collect), steps=_without_wish(answer.steps))


def _without_wish(wishes: Sequence[str]) -> tuple[str, ...]:
    """All but the wish for stacks of Python; native ones show more."""
    return tuple(w for w in wishes if not ("stacks" in w and f"`{SPY}`" in w))


def _weighed(scene: Scene, said: Answer) -> Answer:
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
        # Who stands at the same line in two dumps does not go on, whatever else is known of the job.
        stands = stood(scene.case.seen.stacks, scene.roster, scene.complete.expected)
        stuck = [s.moved is False for s in stands if s.rank is not None and s.rank in own.culprits.ranks]
        most = Strength.SUPPORTED if stuck and all(stuck) else Strength.POSSIBLE
        named = replace(own.culprits, strength=own.culprits.strength.at_most(most))
        own = replace(own, strength=own.strength.at_most(most), culprits=named, first_failed=named)
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
    reads = own.classes.phase in PHASE.values()
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
    others = [s for s in stands if s not in of_them]
    if what is Doing.COLLECTIVE and said.category is Category.COLLECTIVE_MISMATCH:
        return _of_another_call(said, of_them, others)
    if what is Doing.DEVICE and others and all(s.doing in {Doing.COLLECTIVE, Doing.RENDEZVOUS} for s in others):
        return _at_its_device(said, of_them, others)
    if what in WAITS:
        too = " too" if what is Doing.COLLECTIVE else ""
        each = "its stack shows" if len(of_them) == 1 else "their stacks show"
        text = f"{said.summary} But {each} {whom(of_them)} {IN[what]}{too}: {from_text(one)}."
        return replace(
            said,
            summary=text,
            strength=said.strength.at_most(Strength.POSSIBLE),
            proof=(*said.proof, *events_of(of_them)),
            culprits=_weaker(said.culprits),
        )
    text = f"{said.summary} By its stack {whom(of_them)} {'was' if len(of_them) == 1 else 'were'} {IN[what]}: {at_text(one)}."
    told = said.category is Category.UNKNOWN
    sure = Strength.SUPPORTED if what is Doing.DATA else Strength.POSSIBLE
    if said.category is Category.DATA_LOADING_STALL and said.strength.level > sure.level:
        sure = said.strength
    stalled = told or said.category is Category.DATA_LOADING_STALL
    named = replace(said.culprits, hosts=said.culprits.hosts or tuple(sorted({s.host for s in of_them if s.host})))
    phase = PHASE.get(what, said.classes.phase)
    return replace(
        said,
        category=(Category.SOFTWARE if what is Doing.DEBUGGER else Category.DATA_LOADING_STALL)
        if told
        else said.category,
        strength=sure if stalled else said.strength,
        summary=text,
        trigger=said.trigger if not told and said.trigger is not None else events_of(of_them)[0],
        proof=(*events_of(of_them, places=True), *said.proof),
        culprits=named,
        first_failed=named,
        classes=replace(said.classes, phase=phase) if stalled else said.classes,
        steps=(BREAKPOINT, *said.steps) if what is Doing.DEBUGGER else said.steps,
    )


def _of_another_call(said: Answer, odd: Sequence[Stood], others: Sequence[Stood]) -> Answer:
    """Ranks that issued another size or type: they stand in a collective like everybody, and so they must."""
    alike = bool(others) and all(s.doing is Doing.COLLECTIVE for s in others)
    sure = said.strength.level >= Strength.SUPPORTED.level
    who = said.culprits.strength.level >= Strength.SUPPORTED.level
    if not alike:
        return replace(said, proof=(*said.proof, *events_of(odd)))
    named = replace(said.culprits, strength=STRONGER[said.culprits.strength] if who else said.culprits.strength)
    text = (
        f"The stacks agree: {whom(odd)} {'stands' if len(odd) == 1 else 'stand'} in {from_text(odd[0])} as the others do, "
        "and what each put into it a stack does not show."
    )
    return replace(
        said,
        strength=STRONGER[said.strength] if sure else said.strength,
        summary=f"{said.summary} {text}",
        proof=(*said.proof, *events_of((*odd, *others), places=True)),
        culprits=named,
        first_failed=named,
    )


def _at_its_device(said: Answer, absent: Sequence[Stood], others: Sequence[Stood]) -> Answer:
    """Ranks that did not come and wait for their own device, while no other rank does: what it runs does not end."""
    one = len(absent) == 1
    text = (
        f"The stacks agree: {whom(absent)} {'waits' if one else 'wait'} for {'its' if one else 'their'} GPU in {from_text(absent[0])}, and "
        f"{whom(others)} {'stands' if len(others) == 1 else 'stand'} in {at_text(others[0])}. "
        f"What {'it' if one else 'they'} gave to {'its device' if one else 'their devices'} before does not end; why is not in the stacks."
    )
    named = replace(
        said.culprits,
        hosts=said.culprits.hosts or tuple(sorted({s.host for s in absent if s.host})),
        strength=STRONGER[said.culprits.strength],
    )
    who = whom(absent)
    return replace(
        said,
        category=Category.GPU_CUDA,
        strength=Strength.POSSIBLE,
        summary=f"{without_guess(said.summary)} {text}",
        proof=(*events_of(absent, places=True), *events_of(others), *said.proof),
        culprits=named,
        first_failed=named,
        classes=replace(said.classes, domain=Domain.COMPUTE, layer=Layer.RUNTIME, phase=Phase.UNKNOWN),
        action=ActionKind.COLLECT_MORE,
        steps=(
            f"Take a native stack of {who} (`py-spy dump --native`), and read the kernel log of its host for Xid.",
            f"Look at what {who} launched last: its own kernels, copies and streams, which no other rank waits for.",
        ),
        rivals=(),
    )


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
