"""Where the scheduler's word and the logs contradict each other: neither is claimed for sure, both are said.

The contract lets the scheduler's word earn `none`, and lets lines prove a failure. Where it is said that the job completed
(or its exit code is 0) and the logs hold an error that nothing excuses, each has direct evidence against it: the answer is
a possibility, its summary tells of the contradiction, and the other reading stands among the rivals. The other way round,
where the run says that it ended and the scheduler that the job failed, it failed: a script does more than its training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.outcome import bad_word
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.wording import beginning
from firstfault.model.findings import Rival
from firstfault.model.words import ActionKind, Category, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene

STATUS = ("the exit status of the training command itself: set -e and set -o pipefail in the job script",)


def contradicted(scene: Scene, answer: Answer) -> Answer:
    """An answer, made no more than a possibility, with what contradicts it."""
    if bad_word(scene.case):
        return _ended_well(scene, answer)
    word = scene.case.seen.job_state
    said = f"the scheduler's state is {word}" if word is not None else "the exit code is 0"
    event = scene.outcome.against[0]
    error = beginning(event.text, 160)
    nature = nature_of(scene.case, event)
    if answer.failed is False:
        return replace(
            answer,
            strength=answer.strength.at_most(Strength.POSSIBLE),
            summary=f"{answer.summary} The logs contradict it: {nature.title}, and no line shows that the run went on.",
            proof=(*answer.proof, event),
            action=ActionKind.COLLECT_MORE,
            steps=("Look whether the results are there; a job script can end with status 0 after a failed command.",),
            collect=(*answer.collect, *STATUS),
            rivals=(
                *answer.rivals,
                Rival(
                    category=nature.category or Category.UNKNOWN,
                    strength=Strength.POSSIBLE,
                    supports=(f"{nature.title}: {error}",),
                    against=(said,),
                    settled_by=STATUS,
                ),
            ),
        )
    return replace(
        answer,
        strength=answer.strength.at_most(Strength.POSSIBLE),
        culprits=replace(answer.culprits, strength=answer.culprits.strength.at_most(Strength.POSSIBLE)),
        summary=f"{answer.summary} Against it, {said}: the job script may have hidden the status of what failed.",
        collect=(*answer.collect, *STATUS),
        rivals=(
            *answer.rivals,
            Rival(
                category=Category.NONE,
                strength=Strength.POSSIBLE,
                supports=(said,),
                against=(f"{nature.title}: {error}",),
                settled_by=STATUS,
            ),
        ),
    )


def _ended_well(scene: Scene, answer: Answer) -> Answer:
    """The answer about a job that failed by the scheduler's word, with the run's own word that it ended as planned."""
    end = scene.outcome.against[0]
    line = beginning(end.text, 160)
    recorded = scene.case.seen.recorded
    return replace(
        answer,
        strength=answer.strength.at_most(Strength.POSSIBLE),
        culprits=replace(answer.culprits, strength=answer.culprits.strength.at_most(Strength.POSSIBLE)),
        summary=f"{answer.summary} Against it, the run says that it ended as planned: what failed may have come after it.",
        proof=(*answer.proof, end),
        rivals=(
            *answer.rivals,
            Rival(
                category=Category.NONE,
                strength=Strength.POSSIBLE,
                supports=(line,),
                against=("the job failed, as given" if recorded is None else beginning(recorded.text, 160),),
                settled_by=("whether the results and the last checkpoint are whole", *answer.collect[:1]),
            ),
        ),
    )
