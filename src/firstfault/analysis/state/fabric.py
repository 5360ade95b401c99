"""What speaks for the path between ranks when a collective is stuck with everybody in it.

Lines of a transport or of hardware from the time of the wait, and the pattern by machine or rail in the groups that are
stuck. A time-out is neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import comparable, exact, first, sort_key
from firstfault.analysis.state.nodes import per_node
from firstfault.analysis.state.scopes import place_of, rail, whole_nodes
from firstfault.model.words import Category, Mark, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Group
    from firstfault.model.evidence import Event, GlobalRank

BEFORE = 900.0
"""Seconds before the collective began in which a line of a transport still counts: links retry for minutes."""
TALK = (Mark.HANG, Mark.STATE, Mark.ABORT, Mark.PEER_LOST, Mark.STOP_SIGNAL, Mark.DEATH)
"""What a process says when it gives up, or when its peers do: no evidence of the path."""


class Pattern(Struct, frozen=True, kw_only=True):
    """Where the stuck groups meet."""

    scope: Scope
    hosts: tuple[str, ...]
    """Name of the machine, where lines tell it."""
    text: str


def transport_lines(scene: Scene) -> tuple[Event, ...]:
    """Lines of a transport or of hardware between some minutes before the wait began and the time-out, earliest first."""
    found = [
        e
        for s in (*scene.suspects, *scene.weak)
        if s.nature.category in {Category.NETWORK, Category.GPU_CUDA}
        for e in s.events
        if not any(scene.case.has(e, m) for m in TALK) and _in_time(scene, e)
    ]
    return tuple(sorted(found, key=sort_key))


def _in_time(scene: Scene, event: Event) -> bool:
    hang = scene.hang
    if hang is None:
        return False
    if exact(event.when) and comparable(event.when, hang.first.when) and hang.detected is not None:
        at = event.when.earliest or 0.0
        began = hang.began if hang.began is not None else hang.detected
        return began - BEFORE <= at <= hang.detected
    return first(event, hang.first) is True


def pattern(scene: Scene, groups: Sequence[Group], world: int | None) -> Pattern | None:
    """The machine or rail that exactly these stuck groups have in common; None where they have none.

    Args:
        scene: the attempt.
        groups: groups in which every member is inside, and for which all others wait.
        world: witnessed number of ranks.
    """
    per = per_node(scene)
    if per is None or per < 2 or world is None or world <= per or any(g.default for g in groups):
        return None
    ranks = {r for g in groups for r in g.cells}
    if len(groups) == 1:
        shared = rail(scene, ranks)
        if shared is not None and len(ranks) * per == world:
            return Pattern(scope=Scope.RAIL, hosts=(), text=f"exactly the group of local rank {shared} is stuck")
        return None
    if whole_nodes(scene, ranks) and len(ranks) == per:
        host = _host(scene, ranks)
        return Pattern(scope=Scope.NODE, hosts=host, text="exactly the groups inside one machine are stuck")
    common = _common(scene, groups)
    if common is None or len(groups) != per or sum(len(g.cells) for g in groups) >= world:
        return None
    here = {r for r in ranks if (p := place_of(scene, r)) is not None and p[0] == common}
    return Pattern(
        scope=Scope.NODE, hosts=_host(scene, here), text="exactly the groups that reach into one machine are stuck"
    )


def _common(scene: Scene, groups: Sequence[Group]) -> int | str | None:
    """The one machine on which every group has a member."""
    shared: set[int | str] | None = None
    for group in groups:
        places = {p[0] for r in group.cells if (p := place_of(scene, r)) is not None}
        shared = places if shared is None else shared & places
    return next(iter(shared)) if shared is not None and len(shared) == 1 else None


def _host(scene: Scene, ranks: set[GlobalRank]) -> tuple[str, ...]:
    names = {h for r in ranks if (h := scene.roster.host_of_rank(r)) is not None}
    return tuple(names) if len(names) == 1 else ()
