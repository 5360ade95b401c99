"""What an answer is worth where a part of the evidence was left unread, for want of time or by an interrupt: the best so far.

Nobody knows what stands in the rest. An end or a silence that is seen proves nothing then, a fault may have an earlier one
before it, and who differs from most may be one of most. It only ever takes strength away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Classes, Named
from firstfault.model.until import LEFT_OFF, OVER
from firstfault.model.words import ActionKind, Category, CoverageState, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.case import Observations

DIRECT = frozenset({"first_fault", "mismatch", "nan_end", "black_box", "flight_recorder", "storage_chain"})
"""Questions that lines answer by what they say; all others are answered by what is not there, or by what came last."""
COMPARED = frozenset({"mismatch", "flight_recorder"})
"""Those that name whoever differs from the others."""
REST = "the rest of the files: more time (`--deadline`), or fewer of them"


def left_off(seen: Observations) -> tuple[int, int]:
    """Number of inputs that nobody read to their end, and of all that are there to be read."""
    there = [c for c in seen.coverage if c.state is not CoverageState.MISSING]
    return sum(c.reason in LEFT_OFF for c in there), len(there)


def in_part(seen: Observations, answer: Answer) -> Answer:
    """An answer, no surer than what was read of the evidence lets it be; the same where all was read."""
    if not left_off(seen)[0]:
        return answer
    if answer.failed is False:
        return replace(
            answer,
            failed=None,
            category=Category.UNKNOWN,
            strength=Strength.UNKNOWN,
            summary="What was read shows no failure.",
            trigger=None,
            culprits=Named(),
            first_failed=Named(),
            classes=Classes(),
            action=ActionKind.COLLECT_MORE,
            steps=("Read the rest before anything is concluded.",),
        )
    if answer.question == "nothing":
        return replace(answer, summary="What was read shows no failure.")
    most = Strength.SUPPORTED if answer.question in DIRECT else Strength.POSSIBLE
    who = Strength.POSSIBLE if answer.question in COMPARED else most
    return replace(
        answer,
        strength=answer.strength.at_most(most),
        culprits=replace(answer.culprits, strength=answer.culprits.strength.at_most(who)),
        first_failed=replace(answer.first_failed, strength=answer.first_failed.strength.at_most(who)),
    )


def said_in_part(seen: Observations, answer: Answer, *, storage: bool = False) -> Answer:
    """The same, with a sentence that says how much was left unread and why.

    storage: whether there was no time to read the storage side to its end.
    """
    left, there = left_off(seen)
    if not left:
        return _without_storage(answer) if storage else answer
    answer = in_part(seen, answer)
    over = any(c.reason == OVER for c in seen.coverage)
    why = "the time that was given was over" if over else "the reading was interrupted"
    of = f"1 of {there} files was" if left == 1 else f"{left} of {there} files were"
    return replace(
        answer,
        summary=f"{answer.summary} This is the best answer so far: {of} not read to the end, {why}.",
        collect=_unique((REST, *answer.collect)),
    )


def _without_storage(answer: Answer) -> Answer:
    return replace(
        answer,
        strength=answer.strength.at_most(Strength.SUPPORTED),
        summary=f"{answer.summary} This is the best answer so far: the storage side was not read to the end, the time that was given was over.",
        collect=_unique((REST, *answer.collect)),
    )


def _unique(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
