"""Who waits for whom over all process groups, and where the waiting ends.

A graph of ranks and of stages (a number in a group at which ranks are stuck). A rank waits at its stages; a stage waits
for the members that have not come there. The origin of a hang is where nobody waits for anybody else: a rank that is
free, a stage at which everybody is (the collective itself), a stage with a member that is not known, or a circle.
Says nothing of the reason, and compares numbers inside one group only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from firstfault.analysis.state.groups import Cell, Group, HangState, positions
from firstfault.model.evidence import GlobalRank
from firstfault.model.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.analysis.state.members import Members

Node = tuple[str, int, int]
"""`("", 0, rank)` for a rank, (group, 0, number) for a stage, (group, 1, rank inside) for a member that is not known."""


class End(Word):
    """How waiting ends."""

    FREE = "free"
    """A rank that waits for nobody."""
    INSIDE = "inside"
    """A collective that every member entered: it is stuck itself."""
    BEHIND = "behind"
    """A collective that the other members have left: those still in it are alone with it."""
    OPEN = "open"
    """A member of a group that is not known by its global rank, or a group whose size is not witnessed."""
    CIRCLE = "circle"
    """Ranks that wait for each other in different groups."""


class Origin(Struct, frozen=True, kw_only=True):
    """One place where waiting ends."""

    end: End
    ranks: tuple[GlobalRank, ...]
    """The free rank; the members of the stuck collective; those in the circle; the candidates for the open member."""
    groups: tuple[Group, ...]
    """Groups whose stages are part of it."""
    stated: bool = False
    """Whether every absence that makes a circle is stated by the counters of the rank that is absent."""


class Waits(Struct, frozen=True, kw_only=True):
    """The graph, condensed."""

    origins: tuple[Origin, ...]
    reached: frozenset[GlobalRank]
    """Ranks for which somebody waits, directly or through others."""

    def ranks(self, *ends: End) -> tuple[GlobalRank, ...]:
        """Ranks of the origins of some kinds, sorted."""
        return tuple(sorted({r for o in self.origins if o.end in ends for r in o.ranks}))

    def of(self, end: End) -> tuple[Origin, ...]:
        """Origins of one kind."""
        return tuple(o for o in self.origins if o.end is end)

    @property
    def sure(self) -> bool:
        """Whether every rank that may be an origin is among those reached: no member is open."""
        return bool(self.origins) and not self.of(End.OPEN)


_DONE: WeakKeyDictionary[HangState, Waits] = WeakKeyDictionary()


def waits(state: HangState) -> Waits:
    """The origins of a hang by the graph of all groups in which somebody is stuck and numbers compare, made once."""
    done = _DONE.get(state)
    if done is None:
        done = _DONE[state] = _waits(state, state.members)
    return done


def _waits(state: HangState, members: Mapping[str, Members]) -> Waits:
    edges: dict[Node, list[Node]] = {}
    groups = {g.name: g for g in state.stuck if g.comparable}
    stages: dict[GlobalRank, int] = {}
    for group in groups.values():
        for cell in group.pending:
            stages[cell.rank] = stages.get(cell.rank, 0) + 1
    for group in groups.values():
        _stages(group, members[group.name], stages, edges)
    parts = _components(edges)
    where = {node: i for i, part in enumerate(parts) for node in part}
    ends = [p for i, p in enumerate(parts) if all(where[t] == i for n in p for t in edges.get(n, ()))]
    return Waits(
        origins=tuple(sorted((_origin(p, groups, members) for p in ends), key=lambda o: (o.end.value, o.ranks))),
        reached=frozenset(GlobalRank(n[2]) for targets in edges.values() for n in targets if not n[0]),
    )


def _stages(group: Group, members: Members, stuck_in: Mapping[GlobalRank, int], edges: dict[Node, list[Node]]) -> None:
    """Adds the stages of one group, lowest number first: each waits for the stage before it and for those not there."""
    before: Node | None = None
    lower: list[GlobalRank] = []
    here = positions(group)
    absent = _absent(group, members, min(here, default=0))
    for at, cells in here.items():
        stage: Node = (group.name, 0, at)
        targets = [_rank(r) for r in lower]
        if before is not None:
            targets.append(before)
        else:
            targets += [_rank(r) for r in absent]
            targets += [(group.name, 1, k) for k in members.open]
            if members.size is None:
                targets.append((group.name, 1, -1))
        if not targets:
            # All are in: the collective runs only when each of them gets to it, behind what else holds it up.
            targets = [_rank(c.rank) for c in cells if stuck_in[c.rank] > 1]
        edges[stage] = targets
        for cell in cells:
            edges.setdefault(_rank(cell.rank), []).append(stage)
        before, lower = stage, [c.rank for c in cells]


def _absent(group: Group, members: Members, lowest: int) -> list[GlobalRank]:
    """Known members that no line shows at the lowest number at which others are stuck, or beyond it."""
    absent = []
    known = {*members.known.values(), *group.cells}
    for rank in sorted(known):
        cell = group.cells.get(rank)
        if cell is None or (not cell.pending and not _beyond(cell, lowest)):
            absent.append(rank)
    return absent


def _beyond(cell: Cell, lowest: int) -> bool:
    """Whether a rank with nothing in flight is stated to have finished a collective in which others are stuck."""
    return cell.completed is not None and cell.completed >= lowest


def _rank(rank: GlobalRank) -> Node:
    return ("", 0, rank)


def _origin(part: Iterable[Node], groups: Mapping[str, Group], members: Mapping[str, Members]) -> Origin:
    nodes = sorted(part)
    ranks = [GlobalRank(n[2]) for n in nodes if not n[0]]
    opened = [n for n in nodes if n[0] and n[1] == 1]
    stages = [n for n in nodes if n[0] and n[1] == 0]
    names = sorted({n[0] for n in nodes if n[0]})
    found = tuple(groups[n] for n in names)
    if opened:
        name, _, inner = opened[0]
        candidates = members[name].open.get(inner) or frozenset()
        return Origin(end=End.OPEN, ranks=tuple(sorted(candidates)), groups=found)
    if not stages:
        return Origin(end=End.FREE, ranks=tuple(ranks), groups=())
    holes = {g.name: _absent(g, members[g.name], min(positions(g))) for g in found}
    if not any(holes.values()):
        inside = sorted({c.rank for n in stages for c in positions(groups[n[0]])[n[2]]})
        left = any(len(positions(g)) > 1 or len(g.pending) < len(members[g.name].known) for g in found)
        return Origin(end=End.BEHIND if left else End.INSIDE, ranks=tuple(inside), groups=found)
    stated = all(r in groups[name].cells for name, rs in holes.items() for r in rs)
    return Origin(end=End.CIRCLE, ranks=tuple(ranks), groups=found, stated=stated)


def _components(edges: Mapping[Node, list[Node]]) -> list[list[Node]]:
    """Strongly connected components (Tarjan, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on: set[Node] = set()
    stack: list[Node] = []
    found: list[list[Node]] = []
    for start in sorted({*edges, *(t for ts in edges.values() for t in ts)}):
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        work = [(start, iter(edges.get(start, ())))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on.add(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target in on:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part: list[Node] = []
                    while True:
                        top = stack.pop()
                        on.discard(top)
                        part.append(top)
                        if top == node:
                            break
                    found.append(part)
    return found
