"""Logs and flight-recorder dumps of one attempt together: one verdict, stronger where they agree, weaker where not.

Asks no question itself. An error that a log shows stays the first fault; dumps show how the others came to wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.devices import from_outside
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.questions.flight_recorder import ask
from firstfault.analysis.recorder_words import some_ranks
from firstfault.analysis.state.recorder.reading import Reading, read
from firstfault.analysis.ties import tied
from firstfault.analysis.wording import what_text, who_text
from firstfault.model.words import Category, Mark, Phase, Strength

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank

STANDS = frozenset({"first_fault", "exit_hang", "nan_end"})
"""Questions whose answer rests on an error of its own; dumps only bear it out or speak against it."""
REPORTED = "peers"
"""Question whose answer names whom a supervisor, or NCCL itself, reports as gone."""
STRONGER = {
    Strength.UNKNOWN: Strength.POSSIBLE,
    Strength.POSSIBLE: Strength.SUPPORTED,
    Strength.SUPPORTED: Strength.ESTABLISHED,
    Strength.ESTABLISHED: Strength.ESTABLISHED,
}


def with_dumps(scene: Scene, said: Answer) -> Answer:
    """The answer of the logs with what the dumps say; unchanged where there are none, or where the job came through.

    Args:
        scene: the attempt that the dumps are of.
        said: the answer of the logs.
    """
    if not scene.case.seen.dumps or said.failed is False:
        return said
    reading = read(scene.case.seen.dumps, scene)
    own = ask(scene, reading)
    if own is None:
        return _quiet(said, reading)
    if reading.waits.unseen and _recorded(scene, reading.waits.unseen):
        return said
    if own.failed is None:
        # What does not belong together neither bears out nor contradicts what was said.
        return replace(
            said if said.failed is not None else own,
            summary=own.summary if said.failed is None else f"{said.summary} {own.summary}",
            proof=(*said.proof, *own.proof),
            collect=(*said.collect, *own.collect),
        )
    strange = _strangers_fault(scene, said, own)
    if strange is not None:
        return replace(
            own,
            summary=f"{own.summary} {strange} does not explain it: nothing ties that machine to the job.",
            proof=(*own.proof, *said.proof[:1]),
        )
    sure = said.category is not Category.UNKNOWN and said.strength.level >= Strength.SUPPORTED.level
    if said.question in STANDS or (said.question == "stopped" and sure):
        return _beside(scene, _dumped_after(scene, said, reading), own, reading.waits.waiters)
    return _joined(said, own, reading.waits.waiters, inside_by(reading))


def _strangers_fault(scene: Scene, said: Answer, own: Answer) -> str | None:
    """The fault of a machine that nothing ties to the job, in words, where dumps prove calls that do not fit; None otherwise.

    Calls that differ are the program's: no lost card elsewhere brings them about.
    """
    if own.category is not Category.COLLECTIVE_MISMATCH or own.strength.level < Strength.SUPPORTED.level:
        return None
    root = next((s for s in scene.suspects if s.first is said.trigger), None)
    if said.question != "first_fault" or root is None or said.culprits.ranks or said.first_failed.ranks:
        return None
    if not from_outside(root) or root.first.exception is not None or tied(scene, root):
        return None
    fault = f"{what_text(root)}{who_text((), root.hosts)}"
    return f"{fault[:1].upper()}{fault[1:]}"


def inside_by(reading: Reading) -> frozenset[GlobalRank]:
    """Ranks with unfinished work by their dumps."""
    return frozenset(rank for rank, oldest in reading.waits.oldest.items() if oldest is not None)


def _recorded(scene: Scene, ranks: Iterable[GlobalRank]) -> bool:
    """Whether ranks of which no dump is here have a black box.

    It takes dumps of whoever lives when somebody asks, so that a missing one tells nothing, and it tells itself how they ended.
    """
    return set(ranks) <= {record.who.rank for record in scene.case.seen.box}


def _dumped_after(scene: Scene, said: Answer, reading: Reading) -> Answer:
    """The answer that the kernel killed ranks, less sure where their own dumps show them waiting: who is killed writes none."""
    ranks = [r for r in said.culprits.ranks if reading.waits.oldest.get(r) is not None]
    if said.trigger is None or not scene.case.has(said.trigger, Mark.OOM_KILL) or not ranks:
        return said
    each = "its" if len(ranks) == 1 else "their"
    return replace(
        said,
        summary=f"{said.summary} But {some_ranks(ranks)} left {'a dump' if len(ranks) == 1 else 'dumps'}, which a killed process cannot "
        f"write, and by {each} own {'dump' if len(ranks) == 1 else 'dumps'} waited with the others: the kill and the wait may be two things.",
        strength=said.strength.at_most(Strength.SUPPORTED),
        culprits=replace(said.culprits, strength=said.culprits.strength.at_most(Strength.SUPPORTED)),
    )


def _quiet(said: Answer, reading: Reading) -> Answer:
    """The dumps show nothing unfinished, or not for whom it waits: they neither name nor acquit anybody."""
    number = len(reading.recorded.dumps)
    if not number:
        return said if said.category is not Category.UNKNOWN else _whose(said, reading)
    if reading.recorded.teams and not any(t.states for t in reading.recorded.teams):
        text = f"The flight-recorder dumps of {number} rank{'s' if number > 1 else ''} do not tell whether the last collectives ended: their backend records no states."
        return replace(said, summary=f"{said.summary} {text}")
    begun = sorted(rank for rank, oldest in reading.waits.oldest.items() if oldest is not None)
    if begun:
        text = f"By the flight-recorder dumps {some_ranks(begun)} had unfinished collectives; for whom they waited is not in them."
        return replace(said, summary=f"{said.summary} {text}")
    text = f"{said.summary} The flight-recorder dumps of {number} rank{'s' if number > 1 else ''} hold no unfinished collective."
    return replace(said, summary=text)


def _whose(said: Answer, reading: Reading) -> Answer:
    """Dumps of which nobody can tell the ranks say nothing, and that is said."""
    number = sum(1 for d in reading.recorded.left_out if d.rank is None)
    if not number:
        return said
    several = number > 1
    return replace(
        said,
        summary=f"{said.summary} {number} flight-recorder dump{'s' if several else ''} {'are' if several else 'is'} here of which no rank can "
        "be told: neither the content nor a number in the name that is another in each file and fits the groups tells it.",
        collect=("the dumps under names that end in their rank (`nccl_trace_rank_5`)", *said.collect),
    )


def on_its_machine(scene: Scene, said: Answer, ranks: Iterable[GlobalRank]) -> bool:
    """Whether some ranks all run on the machine whose line about a store or disk is taken for the first fault.

    The store is nobody's of the job: who was held up by it first is told by other witnesses, and the machine joins the two.
    """
    if said.question != "first_fault" or said.category is not Category.STORAGE_IO or said.trigger is None:
        return False
    there = scene.roster.host(said.trigger)
    homes = {scene.roster.host_of_rank(rank) for rank in ranks}
    return (
        there is not None
        and bool(homes)
        and {None if h is None else short_host(h) for h in homes} == {short_host(there)}
    )


def _beside(scene: Scene, said: Answer, own: Answer, waiters: frozenset[GlobalRank]) -> Answer:
    """An error of a log with dumps that agree, disagree, or speak of other ranks only as victims."""
    blamed = set(said.culprits.ranks)
    seen = set(own.culprits.ranks)
    if not blamed and on_its_machine(scene, said, seen):
        ranks = own.culprits.ranks
        runs = "runs" if len(ranks) == 1 else "run"
        return replace(
            said,
            summary=f"{said.summary} By the flight-recorder dumps the others wait for {some_ranks(ranks)}, which {runs} on that machine.",
            proof=(*said.proof, *own.proof[:2]),
            first_failed=own.culprits,
        )
    if not blamed or not seen:
        return _of_first_failed(said, own, waiters)
    if blamed & seen:
        text = (
            f"{said.summary} The flight-recorder dumps agree: the others wait for {some_ranks(sorted(blamed & seen))}."
        )
        raised = said.culprits.strength
        if raised.level < Strength.SUPPORTED.level:
            raised = Strength.SUPPORTED
        return replace(
            said,
            summary=text,
            proof=(*said.proof, *own.proof[:2]),
            culprits=replace(said.culprits, strength=raised),
        )
    text = f"{said.summary} The flight-recorder dumps disagree: there the others wait for {some_ranks(own.culprits.ranks)}."
    return replace(
        said,
        summary=text,
        strength=said.strength.at_most(Strength.POSSIBLE),
        proof=(*said.proof, *own.proof[:2]),
        culprits=replace(said.culprits, strength=said.culprits.strength.at_most(Strength.POSSIBLE)),
    )


_OWN = frozenset({Category.SOFTWARE, Category.DATA, Category.GPU_CUDA, Category.NUMERICAL})
"""What a rank may meet by itself: of a store or a machine the first to complain is a victim, and waits may begin elsewhere."""


def _of_first_failed(said: Answer, own: Answer, waiters: frozenset[GlobalRank]) -> Answer:
    """An error that is nobody's fault, of ranks that failed first by it: dumps may show the others waiting for these, or not."""
    kept = replace(said, proof=(*said.proof, *own.proof[:2]))
    failed, seen = set(said.first_failed.ranks), set(own.culprits.ranks)
    if said.category not in _OWN or not failed or not seen or said.culprits.anybody:
        return kept
    if failed & seen:
        alone = failed == seen and not said.open and not said.rivals
        text = f"The flight-recorder dumps agree: the others wait for {some_ranks(sorted(failed & seen))}."
        return replace(
            kept,
            summary=f"{said.summary} {text}",
            strength=said.strength.at_least(Strength.SUPPORTED) if alone else said.strength,
        )
    inside = sorted(failed & waiters)
    too = f", and {some_ranks(inside)} wait{'s' if len(inside) == 1 else ''} with them" if inside else ""
    text = f"The flight-recorder dumps disagree: there the others wait for {some_ranks(own.culprits.ranks)}{too}."
    return replace(kept, summary=f"{said.summary} {text}", strength=said.strength.at_most(Strength.POSSIBLE))


def with_wait(scene: Scene, said: Answer, hang: Callable[[Scene], Answer | None]) -> Answer:
    """A report of who is gone beside the lines of those that wait: where both name the same ranks, two that do not know of each other.

    Args:
        scene: the attempt.
        said: the answer of the logs.
        hang: asks the lines of those that wait.
    """
    if said.question != REPORTED or not said.culprits.ranks or scene.hang is None:
        return said
    waited = hang(scene)
    if waited is None or waited.culprits.ranks != said.culprits.ranks:
        return said
    named = replace(
        said.culprits,
        hosts=said.culprits.hosts or waited.culprits.hosts,
        strength=STRONGER[max(said.culprits.strength, waited.culprits.strength, key=lambda s: s.level)],
    )
    report = said.summary.replace(" Why is not in these logs.", "")
    told = said if said.category is not Category.UNKNOWN else waited
    return replace(
        said,
        category=told.category,
        strength=told.strength,
        summary=f"{waited.summary} Another witness agrees: {report[:1].lower()}{report[1:]}",
        proof=(*said.proof, *waited.proof[:3]),
        culprits=named,
        first_failed=named,
        collect=tuple(dict.fromkeys((*said.collect, *waited.collect))),
    )


def _joined(said: Answer, own: Answer, waiters: frozenset[GlobalRank], inside: frozenset[GlobalRank]) -> Answer:
    """What the dumps say of a hang, with whom the lines of the logs name.

    Who is silent in the logs and waits by its dump is no culprit: the dump saw it inside.
    """
    if said.failed is None or said.question not in {"hang", "mismatch", REPORTED}:
        return replace(own, proof=(*own.proof, *said.proof[:2]))
    blamed, seen = set(said.culprits.ranks), set(own.culprits.ranks)
    if said.question == REPORTED:
        if not blamed:
            return replace(own, proof=(*own.proof, *said.proof[:2]))
        if blamed < seen:
            # Of several that are not seen, one is reported dead: the others may only lack their dump.
            own, seen = replace(own, culprits=said.culprits, first_failed=said.first_failed), blamed
    proof = (*own.proof, *said.proof[:3])
    if not blamed or not seen:
        acquitted = bool(blamed) and blamed <= waiters
        taken = own if seen or own.category is not Category.UNKNOWN or not said.culprits.anybody or acquitted else said
        taken = replace(taken, proof=proof if taken is own else (*said.proof, *own.proof[:3]))
        if blamed and blamed <= inside and not seen:
            # The log is silent on them and their dumps are not.
            ranks = some_ranks(said.culprits.ranks)
            text = f"The lines of the logs miss {ranks}, and by the dumps {'it waits' if len(blamed) == 1 else 'they wait'} with the others."
            taken = replace(taken, summary=f"{taken.summary} {text}")
        return taken
    if blamed == seen:
        return _agreed(said, own)
    if blamed & seen:
        return replace(own, proof=proof)
    return replace(
        own,
        summary=f"{own.summary} The lines of the logs point at {some_ranks(said.culprits.ranks)} instead.",
        strength=own.strength.at_most(Strength.POSSIBLE),
        culprits=replace(own.culprits, strength=own.culprits.strength.at_most(Strength.POSSIBLE)),
        proof=proof,
    )


def _agreed(said: Answer, own: Answer) -> Answer:
    """Lines and dumps name the same ranks: who is surer by one step, and the better known reason is taken."""
    stronger = max(said.culprits.strength, own.culprits.strength, key=lambda s: s.level)
    category, strength = own.category, own.strength
    if said.category is own.category:
        strength = max(said.strength, own.strength, key=lambda s: s.level)
        if category is Category.COLLECTIVE_MISMATCH:
            strength = STRONGER[strength]
    elif own.category is Category.UNKNOWN or (
        said.category is not Category.UNKNOWN and said.strength.level > own.strength.level
    ):
        category, strength = said.category, said.strength
    phase = own.classes.phase if own.classes.phase is not Phase.UNKNOWN else said.classes.phase
    named = Named(
        ranks=own.culprits.ranks,
        hosts=own.culprits.hosts or said.culprits.hosts,
        devices=said.culprits.devices,
        strength=STRONGER[stronger],
    )
    return replace(
        own,
        category=category,
        strength=strength,
        summary=f"{own.summary} The lines of the logs say the same.",
        trigger=own.trigger if said.category is Category.UNKNOWN or said.trigger is None else said.trigger,
        proof=(*own.proof, *said.proof[:3]),
        culprits=named,
        first_failed=named,
        classes=replace(own.classes, phase=phase, domain=own.classes.domain or said.classes.domain),
        rivals=said.rivals or own.rivals,
    )
