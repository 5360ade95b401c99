"""Did the run end well? `none` is earned: an end marker, progress to the end, or the scheduler's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.accounted import left_open
from firstfault.analysis.answer import Answer
from firstfault.analysis.outcome import breaks_off
from firstfault.model.words import ActionKind, Category, Mark, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.accounted import Open
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event


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
    broken = ended.event is not None and breaks_off(scene.case, ended.event)
    amid = _amid_its_work(scene)
    doubtful = bool(unclear) or broken or amid is not None
    return Answer(
        question="good_end",
        failed=False,
        category=Category.NONE,
        strength=_strength(scene).at_most(Strength.POSSIBLE) if doubtful else _strength(scene),
        summary=f"{what} ({ended.why}){tail}.{BROKEN if broken else ''}{_not_told(unclear)}"
        f"{'' if amid is None else AMID}",
        proof=tuple(e for e in (ended.event, amid) if e is not None),
        action=ActionKind.COLLECT_MORE if doubtful else ActionKind.NONE,
        collect=_wanted(scene, unclear, ended.event if broken else None),
    )


BROKEN = (
    " The line that says so is the last of its file and has no end: its rest, and what came behind it, may be missing."
)
AMID = " An error stands behind its last step, and no step between it and that line: the work may have ended there and the line say only that the program did."
NEAR = 5
"""Lines between an error and the end, where no step is told at all, in which no work was done."""
SHOWN = 3
"""Files that are named of those that leave an end open."""


def _amid_its_work(scene: Scene) -> Event | None:
    """The error behind the last step of a file that goes on to say that the run ended; None where steps or nothing came between."""
    end = scene.outcome.event
    if end is None:
        return None
    track = scene.case.tracks.get(end.span.source)
    if track is not None and track.complete:
        return None
    last = -1 if track is None else track.last.offset
    for error in (e for suspect in scene.acquitted if suspect.nature.fatal for e in suspect.events):
        exception = error.exception
        if exception is None or not exception.frames or exception.ignored:
            continue
        if error.span.source != end.span.source or not last < error.span.offset < end.span.offset:
            continue
        if track is not None or end.span.line - error.span.line <= NEAR:
            return error
    return None


def _wanted(scene: Scene, unclear: Sequence[Open], broken: Event | None) -> tuple[str, ...]:
    """The files whose rest would tell more."""
    paths = [file.path for file in unclear] + ([] if broken is None else [scene.case.paths[broken.span.source]])
    return tuple(f"the complete log {path}" for path in dict.fromkeys(paths[:SHOWN]))


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
