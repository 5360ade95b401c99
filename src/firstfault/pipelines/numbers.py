"""The first bad step of a run whose numbers went wrong: reads the step lines of the files that the answer cites, and no others.

It adds words to an answer; category, strength, culprits and first sign stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.words import Category

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.metrics.points import Point
    from firstfault.readers.store import Store

LARGEST = 64 << 20
"""Bytes of a file from which on it is left to `firstfault metrics`."""


def heed_numbers(scene: Scene, answer: Answer, store: Store) -> Answer:
    """The same answer; where it says that numbers went wrong, with the first bad step if the cited files tell it."""
    if answer.category is not Category.NUMERICAL or not answer.proof:
        return answer
    # What few jobs come to is loaded only for these.
    from firstfault.metrics.points import Kind, find_points
    from firstfault.metrics.read import read_source_steps

    wrong = {Kind.NAN, Kind.SCALE_FLOOR, Kind.LOSS_RISE}
    cited = sorted({e.span.source for e in answer.proof})
    tables = []
    for source in scene.case.seen.sources:
        if source.id in cited and store.size(source.id) <= LARGEST:
            table = read_source_steps(store, source, workers=1)
            if table is not None:
                tables.append(table)
    # What is well again was not what ended the run.
    points = [p for p in find_points(tables) if p.kind in wrong and p.lasts and p.step is not None]
    if not points:
        return answer
    return replace(answer, summary=f"{answer.summary} {_words(points[0])}")


def _words(point: Point) -> str:
    from firstfault.metrics.words import summary_of

    before = f" Before: {'; '.join(point.before)}." if point.before else ""
    return f"First bad step {point.step:g}: {summary_of(point)}{before}"
