"""Hosts of late ranks, and whether missing ranks make up whole machines; names a host only by a line or a node list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.state.completeness import ranks_per_node
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank

MOST_HOSTS = 100_000
_ITEM = lazy(r"([^,\[\]]+)(?:\[([^\]]*)\])?([^,\[\]]*)")
_RANGE = lazy(r"(\d+)(?:-(\d+))?$")


def expand_hosts(text: str) -> tuple[str, ...]:
    """Names in a SLURM hostlist (`node[001-003,007],login1`); empty where it is not one, or too long."""
    hosts: list[str] = []
    for found in _ITEM.finditer(text.strip()):
        prefix, inside, suffix = found.group(1).strip(), found.group(2), found.group(3)
        if inside is None:
            hosts.append(prefix + suffix)
            continue
        for piece in inside.split(","):
            span = _RANGE.match(piece.strip())
            if span is None:
                return ()
            low, high = span.group(1), span.group(2) or span.group(1)
            if int(high) - int(low) + len(hosts) > MOST_HOSTS:
                return ()
            hosts.extend(f"{prefix}{n:0{len(low)}d}{suffix}" for n in range(int(low), int(high) + 1))
    return tuple(h for h in hosts if h)


def hosts_of(scene: Scene, ranks: Iterable[GlobalRank]) -> dict[GlobalRank, str]:
    """Host of each of some ranks of which a mapping states it (`firstfault.analysis.state.homes`), in order of rank."""
    return {r: h for r in sorted(set(ranks)) if (h := scene.roster.host_of_rank(r)) is not None}


class Gone(Struct, frozen=True, kw_only=True):
    """Missing ranks that make up whole machines."""

    hosts: tuple[str, ...]
    """Their names, where a node list tells them; empty where only the number is known."""
    count: int
    files: tuple[str, ...]
    """Names of files that are not there."""
    absent: bool
    """Whether no line of these machines is there at all, so that their silence may be that of a file not collected."""


def gone_nodes(scene: Scene, missing: Iterable[GlobalRank]) -> Gone | None:
    """Machines of which every rank is missing, where the missing ranks are exactly theirs; None where they are not.

    Ranks are laid out in blocks of one machine each, as launchers do; a hole that does not fit such a block is none.
    """
    lost = sorted(set(missing))
    per = per_node(scene)
    if per is None:
        return _by_hosts(scene, lost)
    world = scene.complete.expected
    if not lost or per is None or per < 2 or world is None or world <= per or len(lost) % per:
        return None
    blocks = {int(r) // per for r in lost}
    if len(blocks) * per != len(lost) or 2 * len(blocks) > world // per:
        return None
    known = hosts_of(scene, lost)
    if len(known) == len(lost):
        names = sorted(set(known.values()))
        return (
            Gone(hosts=tuple(names), count=len(blocks), files=(), absent=False) if len(names) == len(blocks) else None
        )
    listed = scene.facts.get("node_list")
    names = []
    if listed is not None:
        seen = {short_host(h) for h in scene.complete.hosts}
        names = [h for h in expand_hosts(str(listed.value)) if short_host(h) not in seen]
    return Gone(
        hosts=tuple(names) if len(names) == len(blocks) else (),
        count=len(blocks),
        files=scene.complete.missing_files,
        absent=True,
    )


def _by_hosts(scene: Scene, lost: Sequence[GlobalRank]) -> Gone | None:
    """Machines that lines give each missing rank, where these are all that runs there, and others run elsewhere."""
    known = {r: h for r in lost if (h := scene.roster.host_of_rank(r)) is not None}
    if len(known) < len(lost) or not lost:
        return None
    names = set(known.values())
    there: dict[str, int] = {}
    for rank in {*scene.complete.seen, *lost}:
        host = scene.roster.host_of_rank(rank)
        if host is not None:
            there[host] = there.get(host, 0) + 1
    whole = sum(there[h] for h in names) == len(lost) and all(there[h] > 1 for h in names)
    if not whole or 2 * len(names) > len(there):
        return None
    return Gone(hosts=tuple(sorted(names)), count=len(names), files=(), absent=False)


def per_node(scene: Scene) -> int | None:
    """Ranks a machine, where stated or where nodes and ranks are; None elsewhere."""
    stated = ranks_per_node(scene.facts, scene.complete.expected)
    if stated is not None:
        return stated
    nodes, world = scene.complete.expected_nodes, scene.complete.expected
    return world // nodes if nodes and world and world % nodes == 0 else None
