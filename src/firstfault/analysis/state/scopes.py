"""How much of the job a fault is in, by which ranks it is: one rank, whole machines, a rail, a group, all.

A rail is the same local rank (hence, as clusters are cabled, the same network adapter) on several machines. Where a rank
runs is taken from lines, or from a stated number of ranks a machine; names nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.nodes import per_node
from firstfault.model.words import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank

RAIL = 3
"""Machines from which on ranks of one local number are a rail and not a coincidence."""

ASK = {
    Scope.RANK: (
        "Ask of this rank: is it its GPU (kernel log, Xid, clocks), its share of the data (the sample or shard that it read last), or a foreign process on its cores or GPU?"
    ),
    Scope.NODE: (
        "Ask of this machine: did it reboot, lose power, a disk or a mount, was it drained, or did something else run on it?"
    ),
    Scope.RAIL: "Ask of this rail: the same adapter, cable bundle and leaf switch on all these machines; compare their port counters.",
    Scope.GROUP: "Ask what these ranks have in common: a machine, a switch, a share of the data, a branch in the code.",
    Scope.ALL: "Ask what all ranks share: the fabric, the storage, the code of this step, a setting changed since the last good run.",
}
"""The question to ask next for each scope."""


def place_of(scene: Scene, rank: GlobalRank) -> tuple[int | str, int] | None:
    """Machine (its name, or its number) and local rank of a global rank; None where neither lines nor layout tell."""
    per = per_node(scene)
    host, local = scene.roster.host_of_rank(rank), scene.roster.local_of.get(rank)
    if host is not None and local is not None:
        return host.split(".", 1)[0], int(local)
    if per is not None and per > 0:
        return int(rank) // per, int(rank) % per
    return None


def scope_of(scene: Scene, ranks: Iterable[GlobalRank], total: int | None) -> Scope | None:
    """The scope of a fault of some ranks; None for no ranks.

    Args:
        scene: the attempt.
        ranks: the ranks that it is in.
        total: witnessed number of ranks of the job; None where it is not known.
    """
    wanted = set(ranks)
    if not wanted:
        return None
    if len(wanted) == 1:
        return Scope.RANK
    if total is not None and len(wanted) >= total:
        return Scope.ALL
    if whole_nodes(scene, wanted):
        return Scope.NODE
    return Scope.RAIL if rail(scene, wanted) is not None else Scope.GROUP


def whole_nodes(scene: Scene, ranks: set[GlobalRank]) -> bool:
    """Whether some ranks are exactly those of one or more machines."""
    per = per_node(scene)
    if per is None or per < 2 or len(ranks) % per:
        return False
    blocks = {int(r) // per for r in ranks}
    return len(blocks) * per == len(ranks)


def rail(scene: Scene, ranks: set[GlobalRank]) -> int | None:
    """The local rank that some ranks share, each on a machine of its own; None where they are no rail."""
    places = [p for r in sorted(ranks) if (p := place_of(scene, r)) is not None]
    if len(places) < max(RAIL, len(ranks)):
        return None
    local = {p[1] for p in places}
    return local.pop() if len(local) == 1 and len({p[0] for p in places}) == len(places) else None
