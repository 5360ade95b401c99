"""What do the flight-recorder dumps say: who held the job up, or which ranks issued different collectives?

The first that applies answers: a difference between calls, a collective that holds all up with everybody inside, ranks
that others wait for, ranks without a dump, a circle, a late rank, everybody inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.recorder_answers import circle, inside, origins, unseen
from firstfault.analysis.recorder_apart import of_local_names, of_several_jobs, of_several_moments
from firstfault.analysis.recorder_differences import late, mismatch

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.recorder.reading import Reading
    from firstfault.analysis.state.recorder.waits import Inside


def ask(scene: Scene, reading: Reading) -> Answer | None:
    """The answer that the dumps alone give; None where they show nothing unfinished."""
    if reading.worlds:
        return of_several_jobs(reading)
    if reading.each is not None:
        return of_local_names(reading)
    behind = {*reading.waits.origins} & {*reading.older}
    if behind and len(behind) == len(reading.waits.origins):
        return of_several_moments(reading, sorted(behind))
    if reading.mismatch is not None:
        return mismatch(scene, reading, reading.mismatch)
    waits = reading.waits
    stuck = _busy_inside(reading)
    if stuck:
        return inside(scene, reading, stuck)
    if waits.origins:
        return origins(scene, reading)
    if waits.unseen:
        return unseen(scene, reading)
    if waits.circle:
        return circle(reading)
    if reading.late is not None:
        return late(scene, reading, reading.late)
    # Without states a collective that ended looks like one that did not: only a wait that ran out tells the two apart.
    hung = scene.hang is not None
    front = next((i for i in waits.inside if i.front and (hung or i.team.states)), None)
    return None if front is None else inside(scene, reading, (front,))


def _busy_inside(reading: Reading) -> tuple[Inside, ...]:
    """The collectives in which every origin is stuck together with all members, where that is what holds all up; else none."""
    waits = reading.waits
    left = set(waits.origins)
    if not left or left & (set(waits.frozen) | reading.recorded.idle):
        return ()
    found = []
    places = [i for i in waits.inside if i.front and i.team.states]
    for place in sorted(places, key=lambda i: -len(left.intersection(i.team.members))):
        if left.intersection(place.team.members):
            found.append(place)
            left.difference_update(place.team.members)
    return () if left else tuple(found)
