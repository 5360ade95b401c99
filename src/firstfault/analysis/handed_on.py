"""Which line of an error that a loader's worker handed on says what it was: the worker's own last one, not the heading above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event

_HEADING = lazy(r"(?:^|[\s.])(\w+): Caught \1 in DataLoader worker process")
"""`KeyError: Caught KeyError in DataLoader worker process 0.`: the loader's sentence, with the worker's traceback below it."""
REACH = 400
"""Lines of the longest traceback of a worker that is looked through."""


def said_inside(scene: Scene, first: Event) -> Event:
    """The line to cite: of an error that a worker handed on, the last line of its own traceback where that is here."""
    heading = _HEADING.search(first.text)
    if heading is None:
        return first
    rank = scene.roster.rank(first)
    below = (
        e
        for e in scene.events
        if e.span.source == first.span.source
        and 0 < e.span.line - first.span.line <= REACH
        and e.exception is not None
        and e.exception.kind.rsplit(".", 1)[-1] == heading[1]
        and _HEADING.search(e.text) is None
        and scene.roster.rank(e) == rank
    )
    return min(below, key=lambda e: e.span.offset, default=first)
