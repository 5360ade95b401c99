"""Which errors their own ranks had survived: the rank that told of one was itself inside the collective that ran out of time.

A collective waits for the members that did not come to it. Who came there as all others did, with the same call, is not
whom they waited for, whatever it had logged before; what it said after its own time-out follows from that. Excuses errors
of programs only: a device, a link or a machine can fail while its rank is inside. What a program raised while it handled a
wait that had run out, or a peer that was gone, follows from that too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from firstfault.analysis.state.difference import difference
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.waits import waits
from firstfault.analysis.suspects import MACHINES, group
from firstfault.model.words import Category, Domain, SourceKind
from firstfault.readers.raised import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.nature import Nature
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Cell, Group
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event, GlobalRank

SURVIVED = "its rank went on and was itself inside the collective that ran out of time"
"""What is said of such an error."""
_OF_PROGRAMS = frozenset({Category.SOFTWARE, Category.DATA, Category.STORAGE_IO, Category.DATA_LOADING_STALL})
"""Faults that a program can catch; of the device's only a refused allocation is one."""
_COLLECTIVE = frozenset({"nccl", "gloo"})
"""Rooms of signatures of collectives: what waits there waits for other ranks, and for no server."""
_LINKS = _COLLECTIVE | {"network"}
"""Rooms of signatures that speak of what the collective itself runs over."""


def survived(scene: Scene, suspects: Sequence[Suspect]) -> tuple[list[Suspect], tuple[Suspect, ...]]:
    """Suspects without the lines of ranks that were inside, and those of which nothing is left.

    Args:
        scene: the attempt.
        suspects: all that may be the first fault.
    """
    inside = _inside(scene) if scene.hang is not None else frozenset()
    left: list[Suspect] = []
    gone: list[Suspect] = []
    for suspect in suspects:
        kept = [e for e in suspect.events if not _excused(scene, suspect, e, inside)]
        if len(kept) == len(suspect.events):
            left.append(suspect)
        elif kept:
            left.extend(group(scene.case, scene.roster, kept))
        else:
            gone.append(suspect)
    return left, tuple(gone)


def _excused(scene: Scene, suspect: Suspect, event: Event, inside: frozenset[GlobalRank]) -> bool:
    """Whether a line is an error of the program of a rank that was inside, or that came while one handled its own wait's end."""
    if suspect.ordered or not _caught(suspect.nature):
        return False
    if _while_handling(scene, event):
        return True
    if event.signature.split(".", 1)[0] in MACHINES | _LINKS:
        return False
    if scene.case.kind_of.get(event.span.source) is not SourceKind.LOG:
        return False
    return scene.roster.rank(event) in inside


def _while_handling(scene: Scene, event: Event) -> bool:
    """Whether an exception was raised while one was handled that says no more than that others did not come, or were gone.

    The first of its chain counts: where that was another one, it is where the failure began.
    """
    chain = () if event.exception is None else event.exception.chained_from
    if not chain:
        return False
    waits = () if scene.hang is None else scene.hang.events
    return any(
        e.signature.split(".", 1)[0] in _COLLECTIVE
        and e.span.source == event.span.source
        and e.span.offset < event.span.offset
        and e.exception is not None
        and one_line(e.exception) == chain[0]
        and scene.roster.rank(e) == scene.roster.rank(event)
        for e in (*waits, *scene.effects)
    )


def _caught(nature: Nature) -> bool:
    """Whether a program can catch such a fault and go on with all that it has."""
    return nature.category in _OF_PROGRAMS or (
        nature.category is Category.GPU_CUDA and nature.domain is Domain.MEMORY and not nature.key.startswith("kernel.")
    )


def _inside(scene: Scene) -> frozenset[GlobalRank]:
    """Ranks whose own watchdogs show them where most of their group are, for whom nobody is known to wait.

    Where ranks send to each other, or call different collectives, a rank that left something out may be ahead of those
    who wait for it: then nobody is taken to be where it belongs.
    """
    state = hang_state(scene)
    groups = state.stuck
    if not groups or any(g.p2p or not g.comparable or difference(g) is not None for g in groups):
        return frozenset()
    found: set[GlobalRank] = set()
    apart: set[GlobalRank] = set()
    for one in groups:
        there, elsewhere = _sides(one)
        found |= there
        apart |= elsewhere
    return frozenset(found - apart - waits(state).reached)


def _sides(one: Group) -> tuple[set[GlobalRank], set[GlobalRank]]:
    """Ranks of a group that wait in the call in which most of it waits, and those that wait in another, or in none that is told."""
    calls = {c.rank: _call(c) for c in one.pending}
    votes = Counter(c for c in calls.values() if c is not None)
    most, number = max(votes.items(), key=lambda v: v[1], default=(None, 0))
    if most is None or number < 2 or 2 * number <= len(calls):
        return set(), set(calls)
    return {r for r, c in calls.items() if c == most}, {r for r, c in calls.items() if c != most}


def _call(cell: Cell) -> tuple[int, str | None, int | None, int | None] | None:
    """What a rank's own watchdog says that it waited in; None where no number is told."""
    work = cell.work
    return None if work is None or work.seq is None else (work.seq, work.op, work.numel_in, work.numel_out)
