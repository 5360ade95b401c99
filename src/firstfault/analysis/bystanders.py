"""What the kernel of a machine tells of who waits: a process blocked in a file system, a fault whose ranks all wait themselves.

The second stays a rival with what speaks against it. Changes neither the category nor who is to blame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.culprits import FEW
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.wording import beginning, ranks_text, what_text, who_text
from firstfault.model.findings import Rival
from firstfault.model.words import Category, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene

BLOCKED = "kernel.task_hung"
MOST = 2
"""Faults that are told of; of more, the deepest."""


def with_blocked(scene: Scene, answer: Answer) -> Answer:
    """An answer about a file system, with the rank whose process the kernel of its machine says to be blocked.

    A task that waits in the kernel is the victim of the server, and what joins the server's trouble to the rank that stays away.

    Args:
        scene: the attempt.
        answer: what was found.
    """
    if (
        not answer.failed
        or answer.category is not Category.STORAGE_IO
        or answer.first_failed.ranks
        or scene.hang is None
    ):
        return answer
    waiting = set(scene.hang.waiters)
    found = {r: e for e in scene.case.of({BLOCKED}) if (r := scene.roster.rank(e)) is not None and r not in waiting}
    if not waiting or not 0 < len(found) <= FEW:
        return answer
    ranks = tuple(sorted(found))
    hosts = tuple(sorted({h for r in ranks if (h := scene.roster.host_of_rank(r)) is not None}))
    are = "is" if len(ranks) == 1 else "are"
    return replace(
        answer,
        summary=f"{answer.summary} By the kernel {ranks_text(ranks)} {are} blocked in it, and the others wait for {'it' if len(ranks) == 1 else 'them'}.",
        proof=(*answer.proof, *found.values()),
        first_failed=Named(ranks=ranks, hosts=hosts, strength=answer.strength),
    )


def with_bystanders(scene: Scene, answer: Answer) -> Answer:
    """An answer without a reason, with the machines' faults that were held to be none, and why.

    Args:
        scene: the attempt.
        answer: what was found.
    """
    if not answer.failed or answer.category is not Category.UNKNOWN or scene.hang is None:
        return answer
    found = [(s, away) for s in scene.acquitted if (away := scene.chart.waits_there(scene.hang, s.first))]
    found = sorted(found, key=lambda pair: (-pair[0].nature.depth, pair[0].nature.key))
    # One line of the driver may say two things: it is told by the deeper of the two.
    lines = {(s.first.span.source, s.first.span.line): (s, away) for s, away in reversed(found)}
    for suspect, away in [pair for pair in found if pair in lines.values()][:MOST]:
        fault = f"{what_text(suspect)}{who_text((), suspect.hosts)}"
        why = (
            f"all ranks of that machine wait, and {ranks_text(sorted(away))} elsewhere did not come"
            if (host := scene.roster.host(suspect.first)) is not None and scene.chart.ranks_on(short_host(host))
            else f"all ranks that hold a card of that address wait, and {ranks_text(sorted(away))} did not come"
        )
        answer = replace(
            answer,
            summary=f"{answer.summary} {fault[:1].upper()}{fault[1:]} does not explain it: {why}.",
            proof=(*answer.proof, suspect.first),
            rivals=(
                *answer.rivals,
                Rival(
                    category=suspect.nature.category or Category.UNKNOWN,
                    strength=Strength.UNKNOWN,
                    supports=(f"{fault}: {beginning(suspect.first.text, 160)}",),
                    against=(why,),
                    settled_by=suspect.nature.collect or ("the complete logs and the kernel logs of all machines",),
                ),
            ),
        )
    return answer
