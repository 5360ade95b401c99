"""What befell the storage daemons, as moments of the timeline, each on the clock of its own line; judges nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.storage_faults import Kind, troubles
from firstfault.analysis.storage_words import what
from firstfault.analysis.timeline import Moment
from firstfault.model.words import Role

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.storage import StorageState
    from firstfault.analysis.state.storage_faults import Trouble

MOST = 24
"""Moments of the store at most, those nearest to the failure: a busy store tells of much more than one job."""
_ROLES = {Kind.ECHO: Role.EFFECT, Kind.LOAD: Role.CONTEXT}


def storage_moments(scene: Scene, state: StorageState | None) -> list[Moment]:
    """What befell the daemons around a failure; its sentence tells the time on the job's clock, where that is known.

    Args:
        scene: the job.
        state: what the daemons' logs tell; None where none were given.
    """
    if state is None:
        return []
    stop = state.stop
    listed = troubles(state)
    if stop is not None:
        listed = sorted(listed, key=lambda t: (t.kind is Kind.ECHO, abs(t.first.at - stop), t.node, t.signature))
    return [_moment(scene, state, trouble) for trouble in listed[:MOST]]


def _moment(scene: Scene, state: StorageState, trouble: Trouble) -> Moment:
    event = trouble.first.event
    return Moment(
        shown=event,
        what=what(state, trouble),
        signature=trouble.signature,
        role=_ROLES.get(trouble.kind, Role.CAUSE),
        when=event.when,
        source=event.span.source,
        offset=event.span.offset,
        attempt=scene.number,
        host=trouble.shown,
    )
