"""Whether ranks lived on after their time-outs so long that every other wait of theirs would have been told too.

Each process group has a watchdog of its own. One that fires waits for dumps before it ends the process (a minute, as a
rule); meanwhile the watchdogs of the other groups tell their own time-outs. So what a rank did not tell in that time, it
was not waiting for. Where the process ends at once, nothing follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import comparable, exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Group

LIVED = 10.0
"""Seconds after the last time-out in any of the groups in which a rank must still speak; watchdogs look every second or oftener."""


def told_all(scene: Scene, groups: Sequence[Group]) -> bool:
    """Whether every rank that waits in one of some groups spoke long after all their time-outs were due."""
    works = [c.work.event for g in groups for c in g.pending if c.work is not None]
    if not works or any(c.work is None for g in groups for c in g.pending):
        return False
    clock = works[0].when
    if not all(exact(e.when) and comparable(e.when, clock) for e in works):
        return False
    due = max(e.when.earliest or 0.0 for e in works) + LIVED
    ranks = {c.rank for g in groups for c in g.pending}
    for event in scene.events:
        if exact(event.when) and comparable(event.when, clock) and (event.when.earliest or 0.0) >= due:
            rank = scene.roster.rank(event)
            if rank is not None:
                ranks.discard(rank)
    return not ranks
