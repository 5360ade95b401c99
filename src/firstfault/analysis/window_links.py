"""What went on before and while ranks waited, as links of the chain: last words, last steps, slower steps, trouble, open saves.

All of it supports at most: that something happened in that time is no proof that it is the reason.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from firstfault.analysis.median import median
from firstfault.analysis.order import comparable, exact, sort_key
from firstfault.analysis.state.window import BEFORE, Doing, doing_of
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.wording import beginning, ranks_text
from firstfault.model.findings import Link
from firstfault.model.words import Category, Mark, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.progress import Track
    from firstfault.model.evidence import Event, GlobalRank, ProgressSample

LATEST = 3
"""Intervals at the end of a series of steps that are held against those before."""
ENOUGH = 5
"""Intervals before these without which nothing is compared."""
LOOKED_AT = 256
"""Last samples of a file from which intervals are taken."""
SLOWER = 1.5
"""Times the usual time of a step from which on steps grew slower."""
NOTED = 2.0
"""Seconds by which an interval must have grown: stamps are whole seconds in many logs."""
QUOTED = 100
SHOWN = 2
"""Ranks whose last words are shown."""


def window_links(scene: Scene, answer: Answer) -> tuple[Link, ...]:
    """Links about the time of a wait, where there was one.

    Args:
        scene: the attempt.
        answer: with the last words of ranks, where somebody looked for them.
    """
    hang = scene.hang
    if hang is None:
        return ()
    found = [_said(rank, event) for rank, event in answer.said[:SHOWN]]
    found += [link for link in (_steps(scene, hang), _trouble(scene, hang, answer)) if link is not None]
    return tuple(found)


def _said(rank: GlobalRank, event: Event) -> Link:
    text = beginning(event.text, QUOTED, "…")
    return Link(
        what=f"{ranks_text([rank]).capitalize()} said last, before anybody timed out: “{text}”",
        why="it shows what the rank was doing when the others began to wait, as far as a log can",
        events=(event,),
        spans=(event.span,),
    )


def _steps(scene: Scene, hang: Hang) -> Link | None:
    """The last step before the wait was told, and whether steps had grown slower."""
    tracks = [
        (s, t, t.before(hang.first.span.offset) if s == hang.first.span.source else t.last)
        for s, t in scene.case.tracks.items()
    ]
    told = [(s, t, last) for s, t, last in tracks if last is not None and last.step is not None]
    if not told:
        return None
    source, _, last = max(told, key=lambda x: (x[2].step if x[2].step is not None else -1, -x[0]))
    what = f"The last step that was told is {last.step}"
    lines: list[ProgressSample] = [last]
    slow = next(
        (
            x
            for x in (_slower(t, hang) for _, t, _ in sorted(told, key=lambda x: (x[0] != source, x[0])))
            if x is not None
        ),
        None,
    )
    if slow is not None:
        usual, late, sample = slow
        what += f"; the last steps before the wait took {late:.1f} s each, against {usual:.1f} s before"
        lines.append(sample)
    return Link(
        what=what,
        why="it dates how far the job had come"
        if slow is None
        else "steps that grow slower before a wait speak for a rank that falls behind",
        samples=tuple(dict.fromkeys(lines)),
    )


def _slower(track: Track, hang: Hang) -> tuple[float, float, ProgressSample] | None:
    """The usual and the last time of a step, and the sample from which on it was slower; None where it was not."""
    timed = [s for s in track.samples[-LOOKED_AT:] if s.step is not None and exact(s.when) and _before(s, hang)]
    spans: list[tuple[float, float, ProgressSample]] = []
    for a, b in pairwise(timed):
        steps = (0 if b.step is None else b.step) - (0 if a.step is None else a.step)
        took = (b.when.earliest or 0.0) - (a.when.earliest or 0.0)
        if steps > 0 and took >= 0:
            spans.append((took / steps, took, b))
    if len(spans) < LATEST + ENOUGH:
        return None
    usual = median(x for x, _, _ in spans[:-LATEST])
    late = median(x for x, _, _ in spans[-LATEST:])
    whole = median(took for _, took, _ in spans[-LATEST:])
    if late < SLOWER * usual or whole - whole * usual / max(late, 1e-9) < NOTED:
        return None
    return usual, late, spans[-LATEST][2]


def _before(sample: ProgressSample, hang: Hang) -> bool:
    if hang.detected is None or not comparable(sample.when, hang.first.when):
        return sample.source == hang.first.span.source and sample.offset < hang.first.span.offset
    return (sample.when.earliest or 0.0) <= hang.detected


def _trouble(scene: Scene, hang: Hang, answer: Answer) -> Link | None:
    """Retries, saves, evaluations, storage trouble and errors that were survived, while ranks waited or just before."""
    if hang.began is None or hang.detected is None:
        return None
    kinds: dict[str, list[Event]] = {}
    for event in scene.events:
        at = event.when.earliest
        if at is None or at < hang.began - BEFORE or at >= hang.detected or event is answer.trigger:
            continue
        if not (exact(event.when) and comparable(event.when, hang.first.when)):
            continue
        kind = _kind(scene, event)
        if kind is not None:
            kinds.setdefault(kind, []).append(event)
    if not kinds:
        return None
    parts = [f"{kind}{_whose(scene, events)}" for kind, events in sorted(kinds.items())]
    lines = sorted((min(events, key=sort_key) for events in kinds.values()), key=sort_key)
    return Link(
        what=f"In the time of the wait, or in the {BEFORE / 60:.0f} minutes before it: {'; '.join(parts)}",
        why="it happened in that time; that it is the reason is not shown",
        events=tuple(lines[:3]),
        spans=tuple(e.span for e in lines[:3]),
    )


def _kind(scene: Scene, event: Event) -> str | None:
    """What of interest a line tells; None for all else."""
    if scene.case.has(event, Mark.HANG) or scene.case.has(event, Mark.PEER_LOST):
        return None
    doing = doing_of(scene, event)
    if doing is not None:
        return _WORK[doing]
    nature = nature_of(scene.case, event)
    if nature.category is Category.STORAGE_IO:
        return "trouble with storage"
    if nature.role is Role.CAUSE:
        return "an error" if event.exception is not None else "a report of a fault"
    return None


_WORK = {
    Doing.PREPARING: "preparation of data",
    Doing.READING: "reads that were tried again",
    Doing.CHECKPOINT: "a save of a checkpoint began",
    Doing.EVALUATION: "an evaluation",
}


def _whose(scene: Scene, events: Sequence[Event]) -> str:
    ranks = sorted({int(r) for e in events if (r := scene.roster.rank(e)) is not None})
    lines = sum(e.count if e.ordinal == 0 else 0 for e in events) or len(events)
    who = f", {ranks_text(ranks)}" if ranks else ""
    return f" ({lines} line{'s' if lines > 1 else ''}{who})"
