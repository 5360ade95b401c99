"""Did the run end well? `none` is earned: an end marker, progress to the end, or the scheduler's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.accounted import left_open
from firstfault.analysis.answer import Answer
from firstfault.model.words import ActionKind, Category, Mark, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.accounted import Open
    from firstfault.analysis.scene import Scene


def ask(scene: Scene) -> Answer | None:
    """The answer where the attempt completed or stopped as planned; else None."""
    ended = scene.outcome
    if ended.ended not in {"completed", "stopped"}:
        return None
    noise = sum(len(s.events) for s in scene.acquitted)
    what = "The run stopped early as planned" if ended.ended == "stopped" else "No failure: the run completed"
    lines = "line" if noise == 1 else "lines"
    tail = f"; {noise} error {lines} before that ended nothing" if noise and not ended.against else ""
    unclear = left_open(scene)
    return Answer(
        question="good_end",
        failed=False,
        category=Category.NONE,
        strength=_strength(scene).at_most(Strength.POSSIBLE) if unclear else _strength(scene),
        summary=f"{what} ({ended.why}){tail}.{_not_told(unclear)}",
        proof=() if ended.event is None else (ended.event,),
        action=ActionKind.COLLECT_MORE if unclear else ActionKind.NONE,
        collect=tuple(f"the complete log {file.path}" for file in unclear[:SHOWN]),
    )


SHOWN = 3
"""Files that are named of those that leave an end open."""


def _not_told(unclear: Sequence[Open]) -> str:
    """What leaves open how other ranks ended; empty where nothing does."""
    if not unclear:
        return ""
    more = f" and {len(unclear) - SHOWN} more" if len(unclear) > SHOWN else ""
    files = ", ".join(f"{file.path} {file.why}" for file in unclear[:SHOWN])
    return f" That line is one rank's word, and how others ended is not told: {files}{more}."


def _strength(scene: Scene) -> Strength:
    """How sure a good end is: by the run's own line, by the scheduler, or only by the last step that was planned.

    After the last step a run still evaluates and saves; only a checkpoint written behind it shows that it came through.
    """
    ended = scene.outcome
    if ended.event is not None:
        return Strength.ESTABLISHED
    if scene.case.seen.job_state is not None:
        return Strength.SUPPORTED
    saved = scene.marked(Mark.CHECKPOINT_END)
    tracks = scene.case.tracks
    if any(e.span.source in tracks and e.span.offset > tracks[e.span.source].last.offset for e in saved):
        return Strength.SUPPORTED
    return Strength.POSSIBLE
