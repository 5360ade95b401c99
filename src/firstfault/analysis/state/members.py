"""Which global ranks make up a process group, in the order of their rank inside it; only as far as lines tell.

A group's members come from the list that a framework prints, from the communicators that NCCL set up, from the stated
layout of parallelism, or from the order of the ranks seen. Every source must agree with all ranks seen in the group;
nothing is carried over from a group of the same number on another rank.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Group

STATED = "framework.group_members"
"""Signature of a framework's list of the ranks in its groups."""
_LIST = lazy(r"\[([\d, ]+)\]")
MOST_CANDIDATES = 64
"""Ranks that may fill one hole; where there are more, nothing is said of it."""

ORDER = ("tensor_parallel", "context_parallel", "data_parallel", "pipeline_parallel")
"""Axes of parallelism, the fastest first, as Megatron lays ranks out by default."""
AXES = {
    "TENSOR_MODEL_PARALLEL_GROUP": ("tensor_parallel",),
    "PIPELINE_MODEL_PARALLEL_GROUP": ("pipeline_parallel",),
    "CONTEXT_PARALLEL_GROUP": ("context_parallel",),
    "MODEL_PARALLEL_GROUP": ("tensor_parallel", "pipeline_parallel"),
    "DATA_PARALLEL_GROUP": ("data_parallel",),
    "DATA_PARALLEL_GROUP_WITH_CP": ("data_parallel", "context_parallel"),
    "TENSOR_AND_DATA_PARALLEL_GROUP": ("tensor_parallel", "data_parallel"),
    "TENSOR_AND_CONTEXT_PARALLEL_GROUP": ("tensor_parallel", "context_parallel"),
    "mesh_tp": ("tensor_parallel",),
    "mesh_pp": ("pipeline_parallel",),
}
"""Axes along which the members of a group differ, by the description that the framework gives it."""
SIZED = {**AXES, "EXPERT_MODEL_PARALLEL_GROUP": ("expert_parallel",)}
"""Axes whose sizes make up that of a group; where experts lie among the ranks depends on more than the order of the axes."""
KINDS = {
    "tensor model parallel": "TENSOR_MODEL_PARALLEL_GROUP",
    "pipeline model parallel": "PIPELINE_MODEL_PARALLEL_GROUP",
    "context parallel": "CONTEXT_PARALLEL_GROUP",
    "model parallel": "MODEL_PARALLEL_GROUP",
    "data parallel": "DATA_PARALLEL_GROUP",
}
"""Words of a framework's list, and the description of the groups that it lists."""


class Members(Struct, frozen=True, kw_only=True):
    """What is known of the members of one group."""

    known: dict[int, GlobalRank]
    """Global rank by rank inside the group."""
    size: int | None
    """Number of members; None where nothing witnesses it."""
    open: dict[int, frozenset[GlobalRank] | None]
    """For each rank inside the group whose global rank is not known: those that it can be; None where too many can."""

    @property
    def complete(self) -> bool:
        """Whether every member is known."""
        return self.size is not None and not self.open


def members_of(scene: Scene, groups: Sequence[Group], world: int | None) -> dict[str, Members]:
    """Members of every group by its name.

    Args:
        scene: the attempt.
        groups: groups with the ranks that were seen in them.
        world: witnessed number of ranks of the job.
    """
    listed = _listed(scene)
    set_up = _communicators(scene, world)
    layout = _layout(scene, world)
    found: dict[str, Members] = {}
    for group in groups:
        if group.default:
            found[group.name] = _everybody(group, world)
            continue
        if group.ranks:
            found[group.name] = Members(known=dict(enumerate(group.ranks)), size=len(group.ranks), open={})
            continue
        seen = {c.group_rank: c.rank for c in group.cells.values() if c.group_rank is not None}
        whole = _agreed(group, seen, listed, layout, set_up)
        size = group.size if whole is None else len(whole)
        found[group.name] = (
            _between(seen, size, group.at_least, world)
            if whole is None
            else Members(known=dict(enumerate(whole)), size=size, open={})
        )
    return _without_siblings(groups, found)


def _everybody(group: Group, world: int | None) -> Members:
    total = group.size if group.size is not None else world
    number = total if total is not None else group.at_least
    return Members(known={r: GlobalRank(r) for r in range(number)}, size=total, open={})


def _agreed(
    group: Group,
    seen: Mapping[int, GlobalRank],
    listed: Mapping[str, Sequence[tuple[GlobalRank, ...]]],
    layout: Mapping[str, int],
    set_up: Sequence[Mapping[int, GlobalRank]],
) -> tuple[GlobalRank, ...] | None:
    """The members by the first source that agrees with every rank seen in the group; None where none does."""
    if not seen:
        return None
    one = next(iter(seen.values()))
    fits = [m for m in listed.get(group.desc or "", ()) if one in m]
    if not fits and group.desc in AXES and layout:
        fits = [_along(layout, AXES[group.desc], one)]
    for ranks in fits:
        if _agrees(ranks, seen, group.size):
            return ranks
    built = {tuple(c[k] for k in sorted(c)) for c in set_up if all(c.get(k) == r for k, r in seen.items())}
    built = {b for b in built if group.size in {None, len(b)}}
    return next(iter(built)) if len(built) == 1 else None


def _agrees(ranks: Sequence[GlobalRank], seen: Mapping[int, GlobalRank], size: int | None) -> bool:
    return size in {None, len(ranks)} and all(k < len(ranks) and ranks[k] == r for k, r in seen.items())


def _listed(scene: Scene) -> dict[str, list[tuple[GlobalRank, ...]]]:
    """Groups that a framework lists, by the description of their kind."""
    found: dict[str, list[tuple[GlobalRank, ...]]] = {}
    for event in scene.events:
        if event.signature != STATED:
            continue
        desc = KINDS.get(event.fields.get("kind", "").lower())
        if desc is None:
            continue
        for text in _LIST.findall(event.text):
            found.setdefault(desc, []).append(tuple(GlobalRank(int(n)) for n in text.split(",") if n.strip()))
    return found


def _communicators(scene: Scene, world: int | None) -> list[dict[int, GlobalRank]]:
    """Communicators of which every rank is known, as global rank by rank inside.

    The communicator of the whole job gives each process its global rank; the id of any other joins its processes.
    """
    if world is None:
        return []
    process: dict[tuple[str, str], GlobalRank] = {}
    parts: dict[str, tuple[int, dict[int, tuple[str, str]]]] = {}
    for event in scene.events:
        fields = event.fields
        if "comm" not in fields:
            continue
        inner, size, host, pid = (fields.get(k, "") for k in ("group_rank", "size", "host", "pid"))
        if not (inner.isdecimal() and size.isdecimal() and host and pid):
            continue
        if int(size) == world:
            process[(host, pid)] = GlobalRank(int(inner))
        elif "comm_id" in fields:
            parts.setdefault(fields["comm_id"], (int(size), {}))[1][int(inner)] = (host, pid)
    found = []
    for number, places in parts.values():
        if len(places) == number and all(p in process for p in places.values()):
            found.append({k: process[p] for k, p in places.items()})
    return found


def _layout(scene: Scene, world: int | None) -> dict[str, int]:
    """Sizes of the axes of parallelism that make up the whole job; empty where they do not."""
    if world is None:
        return {}
    sizes = {n: f.value for n in ORDER if (f := scene.facts.get(n)) is not None and isinstance(f.value, int)}
    if "tensor_parallel" not in sizes and "pipeline_parallel" not in sizes:
        return {}
    model = 1
    for name in ORDER:
        if name != "data_parallel":
            model *= sizes.setdefault(name, 1)
    if model < 1 or world % model:
        return {}
    if sizes.setdefault("data_parallel", world // model) * model != world:
        return {}
    return {name: sizes[name] for name in ORDER}


def _along(layout: Mapping[str, int], axes: Iterable[str], rank: GlobalRank) -> tuple[GlobalRank, ...]:
    """The ranks that differ from one rank along some axes only, sorted."""
    base, stride = int(rank), 1
    steps: list[range] = []
    wanted = set(axes)
    for name in ORDER:
        size = layout[name]
        if name in wanted:
            base -= int(rank) // stride % size * stride
            steps.append(range(0, size * stride, stride))
        stride *= size
    return tuple(sorted(GlobalRank(base + sum(offsets)) for offsets in itertools.product(*steps)))


def _between(seen: Mapping[int, GlobalRank], size: int | None, at_least: int, world: int | None) -> Members:
    """Members by the rule that a group counts its ranks in the order of their global ranks.

    Between two ranks seen there is room for exactly as many others as their numbers leave; where that is all the room
    there is, the others are known.
    """
    total = size if size is not None else at_least
    anchors = [(-1, -1), *((k, int(seen[k])) for k in sorted(seen))]
    if size is not None and world is not None:
        anchors.append((size, world))
    known = dict(seen)
    rest: dict[int, frozenset[GlobalRank] | None] = {k: None for k in range(total) if k not in seen}
    if any(b[1] - a[1] < b[0] - a[0] for a, b in itertools.pairwise(anchors)):
        return Members(known=known, size=size, open=rest)  # these ranks are not sorted: no conclusion
    for (k1, g1), (k2, g2) in itertools.pairwise(anchors):
        for k in range(k1 + 1, min(k2, total)):
            low, high = g1 + (k - k1), g2 - (k2 - k)
            if low == high:
                known[k] = GlobalRank(low)
                del rest[k]
            elif high - low < MOST_CANDIDATES:
                rest[k] = frozenset(map(GlobalRank, range(low, high + 1)))
    return Members(known=known, size=size, open=rest)


def _without_siblings(groups: Sequence[Group], found: dict[str, Members]) -> dict[str, Members]:
    """Takes those out of the candidates that are members of another group of the same kind: a rank is in one of each."""
    by_desc: dict[str, list[str]] = {}
    for group in groups:
        if group.desc in AXES:
            by_desc.setdefault(group.desc, []).append(group.name)
    for names in by_desc.values():
        taken = {r: name for name in names for r in found[name].known.values()}
        for name in names:
            own = found[name]
            if any(c is not None for c in own.open.values()):
                found[name] = _narrowed(own, {r for r, n in taken.items() if n != name})
    return found


def _narrowed(own: Members, taken: set[GlobalRank]) -> Members:
    known, rest = dict(own.known), dict(own.open)
    for k, candidates in own.open.items():
        left = None if candidates is None else candidates - taken
        rest[k] = left
        if left is not None and len(left) == 1:
            known[k] = next(iter(left))
            del rest[k]
    return Members(known=known, size=own.size, open=rest)
