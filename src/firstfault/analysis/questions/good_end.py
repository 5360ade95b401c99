"""Did the run end well? `none` is earned: an end marker, progress to the end, or the scheduler's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer
from firstfault.model.words import ActionKind, Category, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene


def ask(scene: Scene) -> Answer | None:
    """The answer where the attempt completed or stopped as planned; else None."""
    ended = scene.outcome
    if ended.ended not in {"completed", "stopped"}:
        return None
    noise = sum(len(s.events) for s in scene.acquitted)
    what = "The run stopped early as planned" if ended.ended == "stopped" else "No failure: the run completed"
    lines = "line" if noise == 1 else "lines"
    tail = f"; {noise} error {lines} before that ended nothing" if noise else ""
    return Answer(
        question="good_end",
        failed=False,
        category=Category.NONE,
        strength=Strength.ESTABLISHED if ended.event is not None else Strength.SUPPORTED,
        summary=f"{what} ({ended.why}){tail}.",
        proof=() if ended.event is None else (ended.event,),
        action=ActionKind.NONE,
    )
