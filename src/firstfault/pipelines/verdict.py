"""Turns the answer about one attempt into its verdict: re-reads the lines on which it rests, and weakens it where they are gone.

Must not look at other attempts or at anything that is not part of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.hostlist import compress
from firstfault.analysis.telling import shared
from firstfault.model.diagnosis import Action, Culprits, FirstFailed, Verdict
from firstfault.model.words import ActionKind, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.diagnosis import Evidence
    from firstfault.pipelines.cite import Citer

GONE = "The line on which this rests could not be read again."
AGAIN = "Run firstfault again on copies that no longer change: a line on which this rested is not there any more."


def verdict_in(scene: Scene, answer: Answer, cite: Citer) -> Verdict:
    """The verdict of one answer about a scene, which also tells whether the fault lies in what all ranks share."""
    verdict = verdict_of(answer, cite)
    return replace(verdict, culprits=replace(verdict.culprits, shared=shared(scene, answer)))


def verdict_of(answer: Answer, cite: Citer) -> Verdict:
    """The verdict of one answer, as far as its lines read back.

    Without its trigger, or without any line of its proof, it is at most a possibility and no host is left out on its
    account; without one of several lines it is at most supported.
    """
    trigger = None if answer.trigger is None else cite.event(answer.trigger)
    limit = _limit(answer, trigger, cite)
    lost = limit is Strength.POSSIBLE
    named = answer.culprits
    return Verdict(
        failed=answer.failed,
        category=answer.category,
        strength=answer.strength.at_most(limit),
        summary=f"{answer.summary} {GONE}" if lost else answer.summary,
        culprits=Culprits(
            ranks=[int(r) for r in named.ranks],
            hosts=list(named.hosts),
            devices=list(named.devices),
            storage_nodes=list(named.storage_nodes),
            strength=named.strength.at_most(limit) if named.anybody else Strength.UNKNOWN,
        ),
        first_failed=FirstFailed(
            ranks=[int(r) for r in answer.first_failed.ranks], hosts=list(answer.first_failed.hosts)
        ),
        trigger=trigger,
        classes=answer.classes,
        action=_action(answer, lost=lost),
    )


def _limit(answer: Answer, trigger: Evidence | None, cite: Citer) -> Strength:
    """The most that is left of a strength when the lines of the proof that are gone are taken away."""
    kept = [cite.event(event) is not None for event in answer.proof]
    if (answer.trigger is not None and trigger is None) or (kept and not any(kept)):
        return Strength.POSSIBLE
    return Strength.ESTABLISHED if all(kept) else Strength.SUPPORTED


def _action(answer: Answer, *, lost: bool) -> Action:
    if lost:
        return Action(kind=ActionKind.COLLECT_MORE, steps=[AGAIN, *answer.steps])
    return Action(
        kind=answer.action,
        exclude_hosts=list(answer.exclude_hosts),
        exclude_hostlist=compress(answer.exclude_hosts),
        steps=list(answer.steps),
    )
