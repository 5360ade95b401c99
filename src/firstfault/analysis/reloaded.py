"""Which faults a job had come past by a checkpoint of its own: it saved after them, and loaded that save for another start.

A job that finds a fault and stops by plan is started again from what it saved, often into the same log. What ends the new
start is then the failure to tell of. One log is looked at by itself; a load without a save of the same before it is a resume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event

RELOADED = "the job saved a checkpoint after it and was started again from there"
"""What is said of such a fault."""


def reloaded(scene: Scene, suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Suspects all of whose lines stand above a save that the job loaded again, with another fault behind that load.

    Args:
        scene: the attempt.
        suspects: all that may be the first fault.
    """
    saves = scene.marked(Mark.CHECKPOINT_END)
    pairs = [(s, load) for load in scene.marked(Mark.CHECKPOINT_LOAD) for s in saves if _same(s, load)]
    if not pairs:
        return ()
    return tuple(s for s in suspects if any(_past(s, save, load, suspects) for save, load in pairs))


def _same(save: Event, load: Event) -> bool:
    """Whether a load is that of a save above it in its log, by the step or the place that both name."""
    if save.span.source != load.span.source or save.span.offset >= load.span.offset:
        return False
    named = [k for k in ("step", "path") if save.fields.get(k) is not None and load.fields.get(k) is not None]
    return bool(named) and all(save.fields[k] == load.fields[k] for k in named)


def _past(suspect: Suspect, save: Event, load: Event, others: Sequence[Suspect]) -> bool:
    source = save.span.source
    above = all(e.span.source == source and e.span.offset < save.span.offset for e in suspect.events)
    return above and any(
        o is not suspect and o.nature.fatal and o.first.span.source == source and o.first.span.offset > load.span.offset
        for o in others
    )
