"""Did a process of the job start a second time under the number of one that still lived?

A coordinator takes the second for a restart of the first and ends the job. Workers of a data loader that run the program's
start again do so, as do two launches at one address. Must not be asked where something says that the first had ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes
from firstfault.analysis.order import comparable, exact, first, sort_key
from firstfault.analysis.wording import ranks_text
from firstfault.model.evidence import GlobalRank
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event


TOGETHER = 2
"""Further starts under one number from which on they are no restart."""
SECONDS = 60.0
"""Seconds within which they must be said."""


def ask(scene: Scene) -> Answer | None:
    """The answer where a coordinator met a second process of one number, whose start the log of the first shows; else None."""
    claims = sorted(scene.marked(Mark.SECOND_PROCESS), key=sort_key)
    if not claims or scene.suspects or scene.exits:
        return None
    for claim in claims:
        number = claim.fields.get("task", "")
        if not number.isdecimal():
            continue
        again = _started_again(scene, GlobalRank(int(number)), claim)
        if again:
            return _answer(scene, GlobalRank(int(number)), again, claim)
    return None


def _started_again(scene: Scene, rank: GlobalRank, claim: Event) -> tuple[Event, ...]:
    """Lines in one file by which a rank says again, before the claim, which one it is; none where it may have been restarted.

    A restart says so once; several processes that say so together are no restart.
    """
    by: dict[int, list[Event]] = {}
    for event in scene.marked(Mark.IDENTITY):
        if event.fields.get("rank") == str(int(rank)) and event.fields.get("world_size"):
            by.setdefault(event.span.source, []).append(event)
    for source in sorted(by):
        told = sorted(by[source], key=lambda e: e.span.offset)
        same = [e for e in told[1:] if e.signature == told[0].signature and first(claim, e) is not True]
        ended = any(e.span.source == source and e.span.offset < told[-1].span.offset for e in scene.deaths)
        if len(same) >= TOGETHER and _at_once(same) and not ended:
            return tuple(same)
    return ()


def _at_once(events: list[Event]) -> bool:
    if not all(exact(e.when) and comparable(e.when, events[0].when) for e in events):
        return True
    times = [e.when.earliest or 0.0 for e in events]
    return max(times) - min(times) <= SECONDS


def _answer(scene: Scene, rank: GlobalRank, again: tuple[Event, ...], claim: Event) -> Answer:
    times = len(again) + 1
    form = Form.INTERRUPTED if scene.case.tracks else Form.FAILED_START
    return Answer(
        question="twice",
        failed=True,
        category=Category.SOFTWARE,
        strength=Strength.POSSIBLE,
        summary=f"The start of {ranks_text([rank])} was run {times} times in one log, while nothing says that the process had ended: "
        "another process took its number, and the coordinator held that for a restart and ended the job.",
        trigger=again[0],
        proof=(again[0], claim),
        classes=Classes(domain=Domain.CONFIG, form=form, layer=Layer.RUNTIME, phase=Phase.START_UP, scope=Scope.ALL),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            (
                'Call the distributed start only in the main process (under `if __name__ == "__main__":`, not at import): workers of a '
                "data loader that are spawned import the program again."
            ),
            "Make sure that no second launch uses the same coordinator address and process numbers.",
        ),
        collect=("the list of processes of that host at the time (ps -ef --forest)",),
    )
