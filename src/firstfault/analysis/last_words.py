"""What ranks that stayed away from a collective said last: a hint at what they were doing, never a proof.

The pipeline finds the lines; this says what follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.hang_answers import UNEXPLAINED
from firstfault.analysis.order import comparable, exact
from firstfault.analysis.wording import beginning, ranks_text
from firstfault.model.findings import Rival
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Layer, Phase, Strength

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event, GlobalRank

MISSED = "missed_barrier"
"""Name of the question about processes that did not come to a barrier."""
AFTER = 30.0
"""Seconds after the others began to wait from which a line of a late rank shows that it lived and did not wait itself."""
MOST = 8
"""Ranks whose last words are asked for; of more, the reason is no rank's own."""
_WORK: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    (Phase.CHECKPOINT, lazy(r"(?i)\b(?:sav(?:e|ing)|writ(?:e|ing)|upload(?:ing)?)\b[^\n]{0,60}(?:checkpoint|ckpt|state|weights|model|shard)|checkpoint[^\n]{0,40}(?:sav|writ|upload)")),
    (Phase.EVALUATION, lazy(r"(?i)\b(?:evaluat|validat)(?:e|ing|ion)\b|\beval[ :_-]{1,3}(?:step|iter(?:ation)?|batch|epoch|loop|\d{1,9} ?(?:%|/|of\b))|\bgenerating (?:samples|predictions)")),
    (Phase.START_UP, lazy(r"(?i)\b(?:load(?:ing)?|restor(?:e|ing)|initializ(?:e|ing)|build(?:ing)?|compil(?:e|ing))\b[^\n]{0,60}(?:model|weights|checkpoint|tokenizer|kernel|extension|engine)|\bautotun(?:e|ing)\b|torch/_(?:inductor|dynamo)/")),
    (Phase.DATA, lazy(r"(?i)\b(?:read(?:ing)?|load(?:ing)?|fetch(?:ing)?|download(?:ing)?|open(?:ing)?|tokeni[sz](?:e|ing)|pre-?process(?:ing)?|mapp?ing|map(?= \(num_proc)|filter(?= \(num_proc)|grouping texts|shuffl(?:e|ing)|index(?:ing)?|decod(?:e|ing)|collat(?:e|ing)|prefetch(?:ing)?|cach(?:e|ing)|extract(?:ing)?|running tokenizer|converting format of dataset|generating \w+ split|(?:shuffle|sample|document|doc-idx) ind(?:ex|ices)|wait(?:ing)? for (?:data|batch|the loader|worker))\b")),
)  # fmt: skip

_LEFT_OUT = lazy(
    r"(?i)\b(?:skip(?:s|ped|ping)?|drop(?:s|ped|ping)?|discard(?:s|ed|ing)?|ignor(?:e|es|ed|ing))\b[^\n]{0,40}?"
    r"\b(?:micro-?)?(?:batch(?:es)?|samples?|examples?|items?|utterances?|sequences?|records?|clips?|steps?|iterations?|updates?|backward)\b"
    r"|\b(?:micro-?)?(?:batch|sample|example|utterance|step|iteration)\b[^\n]{0,30}\b(?:skipped|dropped|discarded|left out)\b"
)
"""A rank leaves something out of its own accord."""
_BY_ALL = lazy(
    r"(?i)overflow|loss[_ ]?scal|\b(?:skipped|dropped|discarded|ignored)\b[^\n]{0,30}[:=] ?0\b|\b(?:skipped|dropped|discarded|ignored) 0\b"
    r"|\b(?:already|resum|first \d+ (?:batches|steps)|warm-?up)|last (?:incomplete )?batch|dropout"
)
"""What all ranks leave out alike, or nobody."""
_OUT_OF_WORK = lazy(
    r"(?i)\b(?:no|out of) (?:more |further |remaining )?(?:tasks?|data|batch(?:es)?|samples?|examples?|shards?|records?|work)"
    r"(?= |[,.;:!]|$)(?! (?:loader|parallel|found|yet))"
    r"|\b(?:data(?:set|loader)?|iterator|iterable|loader|sampler|stream|shards?|samples)\b[^\n]{0,60}\bexhausted\b|\bexhausted\b[^\n]{0,30}\bdata"
    r"|\bcompleted its entire epoch\b|\b(?:for|at|after) (?:the )?final step\b"
    r"|\bwait(?:s|ing)? (?:for|on) (?:the |all )?other (?:ranks?|nodes?|workers?|process(?:es)?|gpus?)\b"
)
"""A rank says that nothing is left for it to do."""
_AWAITS = lazy(
    r"(?i)\bwait(?:s|ing)? (?:for|on|until|till)\b(?! (?:(?:the|all|any|every|its|other|remaining|more|a|an|\d+) )*"
    r"(?:ranks?|nodes?|hosts?|peers?|workers?|process(?:es)?|gpus?|devices?|members?|replicas?|every(?:one|body)|barriers?|collectives?"
    r"|all_?reduce|all_?gather|broadcast|nccl|gloo|hccl|group|rendezvous|master|main|leader|coordinator|head|root|primary|ranks?[- ]?\d+|store|connections?|agents?|others)\b)(?= \S)"
)
"""A rank says that it waits for something that is no member of its group: a file, a lock, a server, a person."""
LATELY = 3
"""Last lines of a rank of which one may tell that it left something out, or that nothing was left."""


def work_of(text: str) -> Phase | None:
    """What kind of work on the CPU side a line speaks of; None where it speaks of none."""
    for phase, pattern in _WORK:
        if pattern.search(text):
            return phase
    return None


def leaves_out(text: str) -> bool:
    """Whether a line says that its rank leaves a batch, a sample or a step out by a decision of its own."""
    return _LEFT_OUT.search(text) is not None and _BY_ALL.search(text) is None


def out_of_work(text: str) -> bool:
    """Whether a line says that its rank has come to the end of its own work."""
    return _OUT_OF_WORK.search(text) is not None


def awaits(text: str) -> bool:
    """Whether a line says that its rank waits for something other than the ranks that wait for it."""
    return _AWAITS.search(text) is not None


def wanted(answer: Answer) -> tuple[GlobalRank, ...]:
    """Ranks whose last words could say why they stayed away."""
    ranks = answer.culprits.ranks
    return ranks if answer.question in {"hang", MISSED} and len(ranks) <= MOST else ()


def heed(scene: Scene, answer: Answer, words: Mapping[GlobalRank, Sequence[Event]]) -> Answer:
    """The answer with what the late ranks said last; of each rank its last lines, oldest first.

    Where no reason is known it is at most a possibility, and the trigger, if it is a sign of work.
    """
    last = {rank: lines[-1] for rank, lines in words.items()}
    if last:
        answer = replace(answer, said=tuple((rank, last[rank]) for rank in sorted(last)))
    if answer.category not in {Category.UNKNOWN, Category.DATA_LOADING_STALL}:
        return answer
    left_out = next(((r, e) for r in sorted(words) for e in words[r][-LATELY:] if leaves_out(e.text)), None)
    if left_out is not None and len(words) == 1:
        return _uneven(answer, *left_out)
    spent = {r: e for r, lines in words.items() for e in lines[-LATELY:] if out_of_work(e.text)}
    if spent and spent.keys() == set(answer.culprits.ranks):
        return _spent(answer, spent)
    told = [(rank, last[rank], phase) for rank in sorted(last) if (phase := work_of(last[rank].text)) is not None]
    if not told:
        kept = next((r for r in sorted(last) if awaits(last[r].text)), None)
        if kept is not None and answer.category is Category.UNKNOWN:
            return _stalled(answer, kept, last[kept], Phase.UNKNOWN, " It waited for something else than the others.")
        return _alive(scene, answer, words)
    rank, event, phase = told[0]
    if answer.category is Category.DATA_LOADING_STALL:
        return answer if phase is Phase.DATA else _shown(answer, rank, event, phase)
    return _stalled(answer, rank, event, phase)


def _uneven(answer: Answer, rank: GlobalRank, event: Event) -> Answer:
    """The answer with the possibility that the one late rank had less to do: it left something out just before.

    One that skips goes through fewer collectives than the others, so that being late and being elsewhere look alike.
    """
    return replace(
        answer,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} Just before, {ranks_text([rank])} left something out "
        f"that the others did not (“{_quote(event)}”): it may have gone through fewer collectives than they.",
        trigger=event,
        proof=(event, *answer.proof),
        classes=replace(answer.classes, domain=Domain.COMMUNICATION, layer=Layer.COLLECTIVE),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Let all ranks decide together whether to leave a batch out (reduce the flag first), or go through the step with a zero loss.",
            *answer.steps,
        ),
        rivals=(
            *answer.rivals,
            Rival(
                category=Category.DATA_LOADING_STALL,
                strength=Strength.POSSIBLE,
                supports=(f"{ranks_text([rank])} was on the CPU side when the others waited",),
                settled_by=(
                    "its stack at the time (`py-spy dump`): in its loader, or in another collective or its end",
                ),
            ),
        ),
    )


def _spent(answer: Answer, spent: Mapping[GlobalRank, Event]) -> Answer:
    """The answer with the possibility that the late ranks had come to the end of their own work, and the others had not."""
    rank = min(spent)
    return replace(
        answer,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} By the last lines of {ranks_text(sorted(spent))} nothing was left to do there "
        f"(“{_quote(spent[rank])}”), while the others still went through collectives.",
        trigger=spent[rank],
        proof=(spent[rank], *answer.proof),
        classes=replace(answer.classes, domain=Domain.COMMUNICATION, layer=Layer.COLLECTIVE),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            (
                "Give every rank the same number of batches (drop the rest, pad, or repeat), or leave the loop together: reduce a flag "
                "first; DistributedDataParallel has a join context for uneven inputs."
            ),
            *answer.steps,
        ),
    )


def _quote(event: Event) -> str:
    return beginning(event.text, 120, "…")


def _stalled(answer: Answer, rank: GlobalRank, event: Event, phase: Phase, how: str = "") -> Answer:
    """The answer with the possibility that a rank was at work of its own, by one of its lines."""
    return replace(
        answer,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')}{how} The last line of {ranks_text([rank])}: “{_quote(event)}”.",
        trigger=event,
        proof=(event, *answer.proof),
        classes=replace(answer.classes, domain=Domain.DATA, phase=phase),
    )


def _alive(scene: Scene, answer: Answer, words: Mapping[GlobalRank, Sequence[Event]]) -> Answer:
    """The answer where the one late rank went on printing long after the others had begun to wait: it was busy, not dead.

    What it was busy with is told by the newest of its lines that speaks of work, if one does.
    """
    hang = scene.hang
    if answer.category is not Category.UNKNOWN or len(words) != 1 or hang is None or hang.began is None:
        return answer
    ((rank, lines),) = words.items()
    inside = [e for e in lines if _within(e, hang)]
    if not inside:
        return answer
    phase = next((p for e in reversed(lines) if (p := work_of(e.text)) is not None), Phase.UNKNOWN)
    return _stalled(answer, rank, inside[-1], phase, f" {ranks_text([rank]).capitalize()} was alive in that time.")


def lived(scene: Scene, lines: Sequence[Event]) -> bool:
    """Whether one of a rank's last lines was said while the others had long been waiting."""
    return scene.hang is not None and any(_within(e, scene.hang) for e in lines)


def _within(event: Event, hang: Hang) -> bool:
    """Whether a line was said while the others waited, and so long after they began that no buffer held it back."""
    at = event.when.earliest
    if at is None or not exact(event.when) or not comparable(event.when, hang.first.when):
        return False
    began, end = hang.began, hang.detected
    return began is not None and end is not None and began + AFTER <= at <= end


def _shown(answer: Answer, rank: GlobalRank, event: Event, phase: Phase) -> Answer:
    """A stall of a rank that is stated to be away, where the line of it that the trigger shows is only that statement."""
    if answer.question != "hang" or answer.trigger is None or answer.trigger.signature.split(".", 1)[0] != "nccl":
        return answer
    return replace(
        answer,
        summary=f"{answer.summary} The last line of {ranks_text([rank])}: “{_quote(event)}”.",
        trigger=event,
        proof=(event, *answer.proof),
        classes=replace(answer.classes, phase=phase),
    )
