"""What is said of a machine's fault that cannot explain a wait, since all ranks of that machine wait themselves.

It stays a rival with what speaks against it; names nobody and changes no verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.wording import ranks_text, what_text, who_text
from firstfault.model.findings import Rival
from firstfault.model.words import Category, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene

MOST = 2
"""Faults that are told of; of more, the deepest."""


def with_bystanders(scene: Scene, answer: Answer) -> Answer:
    """An answer without a reason, with the machines' faults that were held to be none, and why.

    Args:
        scene: the attempt.
        answer: what was found.
    """
    if not answer.failed or answer.category is not Category.UNKNOWN or scene.hang is None:
        return answer
    found = [(s, away) for s in scene.acquitted if (away := scene.chart.waits_there(scene.hang, s.first))]
    for suspect, away in sorted(found, key=lambda pair: (-pair[0].nature.depth, pair[0].nature.key))[:MOST]:
        fault = f"{what_text(suspect)}{who_text((), suspect.hosts)}"
        why = f"all ranks of that machine wait, and {ranks_text(sorted(away))} elsewhere did not come"
        answer = replace(
            answer,
            summary=f"{answer.summary} {fault[:1].upper()}{fault[1:]} does not explain it: {why}.",
            proof=(*answer.proof, suspect.first),
            rivals=(
                *answer.rivals,
                Rival(
                    category=suspect.nature.category or Category.UNKNOWN,
                    strength=Strength.UNKNOWN,
                    supports=(f"{fault}: {suspect.first.text.strip()[:160]}",),
                    against=(why,),
                    settled_by=suspect.nature.collect or ("the complete logs and the kernel logs of all machines",),
                ),
            ),
        )
    return answer
