"""What ranks that stayed away from a collective said last: a hint at what they were doing, never a proof.

The pipeline finds the lines; this says what follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.wording import ranks_text
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Domain, Phase, Strength

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.model.evidence import Event, GlobalRank

MISSED = "missed_barrier"
"""Name of the question about processes that did not come to a barrier."""
MOST = 8
"""Ranks whose last words are asked for; of more, the reason is no rank's own."""
_WORK: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    (Phase.CHECKPOINT, lazy(r"(?i)\b(?:sav(?:e|ing)|writ(?:e|ing)|upload(?:ing)?)\b[^\n]{0,60}(?:checkpoint|ckpt|state|weights|model|shard)|checkpoint[^\n]{0,40}(?:sav|writ|upload)")),
    (Phase.EVALUATION, lazy(r"(?i)\b(?:evaluat|validat)(?:e|ing|ion)\b|\bgenerating (?:samples|predictions)")),
    (Phase.START_UP, lazy(r"(?i)\b(?:load(?:ing)?|restor(?:e|ing)|initializ(?:e|ing)|build(?:ing)?|compil(?:e|ing))\b[^\n]{0,60}(?:model|weights|checkpoint|tokenizer|kernel|extension|engine)")),
    (Phase.DATA, lazy(r"(?i)\b(?:read(?:ing)?|load(?:ing)?|fetch(?:ing)?|download(?:ing)?|open(?:ing)?|tokeni[sz](?:e|ing)|pre-?process(?:ing)?|mapp?ing|map(?= \(num_proc)|filter(?= \(num_proc)|grouping texts|shuffl(?:e|ing)|index(?:ing)?|decod(?:e|ing)|collat(?:e|ing)|prefetch(?:ing)?|cach(?:e|ing)|extract(?:ing)?|running tokenizer|converting format of dataset|generating \w+ split|(?:shuffle|sample|document|doc-idx) ind(?:ex|ices)|wait(?:ing)? for (?:data|batch|the loader|worker))\b")),
)  # fmt: skip


def work_of(text: str) -> Phase | None:
    """What kind of work on the CPU side a line speaks of; None where it speaks of none."""
    for phase, pattern in _WORK:
        if pattern.search(text):
            return phase
    return None


def wanted(answer: Answer) -> tuple[GlobalRank, ...]:
    """Ranks whose last words could say why they stayed away."""
    ranks = answer.culprits.ranks
    return ranks if answer.question in {"hang", MISSED} and len(ranks) <= MOST else ()


def heed(answer: Answer, words: Mapping[GlobalRank, Event]) -> Answer:
    """The answer with what the late ranks said last.

    Where no reason is known it is at most a possibility, and the trigger, if it is a sign of work.
    """
    if words:
        answer = replace(answer, said=tuple((rank, words[rank]) for rank in sorted(words)))
    if answer.category not in {Category.UNKNOWN, Category.DATA_LOADING_STALL}:
        return answer
    told = [(rank, words[rank], phase) for rank in sorted(words) if (phase := work_of(words[rank].text)) is not None]
    if not told:
        return answer
    rank, event, phase = told[0]
    said = event.text.strip()
    said = said if len(said) <= 120 else said[:119] + "…"
    if answer.category is Category.DATA_LOADING_STALL:
        return _shown(answer, rank, event, said) if phase is not Phase.DATA else answer
    return replace(
        answer,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(' Why is not in these logs.', '')} The last line of {ranks_text([rank])}: “{said}”.",
        trigger=event,
        proof=(event, *answer.proof),
        classes=replace(answer.classes, domain=Domain.DATA, phase=phase),
    )


def _shown(answer: Answer, rank: GlobalRank, event: Event, said: str) -> Answer:
    """A stall of a rank that is stated to be away, where the line of it that the trigger shows is only that statement."""
    if answer.question != "hang" or answer.trigger is None or answer.trigger.signature.split(".", 1)[0] != "nccl":
        return answer
    return replace(
        answer,
        summary=f"{answer.summary} The last line of {ranks_text([rank])}: “{said}”.",
        trigger=event,
        proof=(event, *answer.proof),
    )
