"""Where every rank stood at a hang: waiting, stated to be outside, only told, or unheard of; and where waiting points.

Draws no conclusion about the reason. A rank is stated to be outside a collective only by its own counters in that group.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from firstfault.analysis.state.difference import ROOTED, difference
from firstfault.analysis.state.groups import Cell, Group, HangState, positions
from firstfault.analysis.state.parts import Part
from firstfault.analysis.state.waits import End, Waits, waits
from firstfault.model.evidence import Event, GlobalRank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.state.members import Members

FURTHER = 2
"""Numbers by which the others must stand further: of one, its own last message may be what is lost."""


class Standing(Struct, frozen=True, kw_only=True):
    """The ranks of one attempt at the hang, each in one set."""

    waiting: tuple[GlobalRank, ...]
    """With work in flight in some group."""
    outside: tuple[GlobalRank, ...]
    """Stated by their own counters not to have entered the collective in which others of that group are stuck."""
    told: tuple[GlobalRank, ...]
    """Alive and told of the time-out by others; nothing known to be in flight."""
    unheard: tuple[GlobalRank, ...]
    """No line about the hang at all, but they are members: by the stated world size, or by the numbering of ranks."""
    total: int
    """Ranks known to be members."""
    witnessed: bool
    """Whether the number of ranks of the job is witnessed, so that nobody can be missing unnoticed."""
    outside_of: tuple[Group, ...]
    """Groups in which ranks are stated to be outside."""
    graph: Waits
    """Who waits for whom over all groups, and where that ends."""
    beside: tuple[GlobalRank, ...] = ()
    """Ranks without work in flight for which nobody waits: the members of every group that waits are known."""

    @property
    def missing(self) -> tuple[GlobalRank, ...]:
        """Ranks that nothing shows inside a collective and that are not stated to be outside either."""
        return tuple(sorted({*self.told, *self.unheard}))

    @property
    def accounted(self) -> int:
        """Ranks that a line places inside or outside a collective."""
        return len(self.waiting) + len(self.outside)


_DONE: WeakKeyDictionary[HangState, Standing] = WeakKeyDictionary()


def standing(state: HangState) -> Standing:
    """Sorts the ranks of a hang, once."""
    done = _DONE.get(state)
    if done is None:
        done = _DONE[state] = _standing(state)
    return done


def _standing(state: HangState) -> Standing:
    waiting = state.waiting
    outside: set[GlobalRank] = set()
    outside_of: list[Group] = []
    for group in state.stuck:
        absent = absent_cells(group)
        found = {c.rank for c in absent if c.rank not in waiting}
        if found:
            outside |= found
            outside_of.append(group)
    world = state.world
    known = {*waiting, *outside, *state.own, *state.filed, *(r for r in state.parts if world is None or r < world)}
    if world is not None:
        known |= {GlobalRank(r) for r in range(world)}
    else:
        highest = max((g.at_least for g in state.groups if g.default), default=0)
        known |= {GlobalRank(r) for r in range(highest)}
    rest = known - waiting - outside
    graph = waits(state)
    beside = rest - _may_be_late(graph, rest)
    rest -= beside
    told = {r for r in rest if state.parts.get(r) in {Part.NOTIFIED, Part.INITIATOR}}
    return Standing(
        waiting=tuple(sorted(waiting)),
        outside=tuple(sorted(outside)),
        told=tuple(sorted(told)),
        unheard=tuple(sorted(rest - told)),
        total=len(known),
        witnessed=world is not None,
        outside_of=tuple(outside_of),
        graph=graph,
        beside=tuple(sorted(beside)),
    )


def _may_be_late(graph: Waits, ranks: set[GlobalRank]) -> set[GlobalRank]:
    """Those of some ranks for which somebody waits, by the graph, or may wait: all of them where a member is open."""
    found = ranks & graph.reached
    for origin in graph.of(End.OPEN):
        if not origin.ranks:
            return ranks
        found |= ranks & set(origin.ranks)
    return found or ranks


def absent_cells(group: Group) -> tuple[Cell, ...]:
    """Cells that by their own counters never entered the collective in which the rest of the group is stuck."""
    if not group.comparable:
        return ()
    front = [c.at for c in group.pending if c.at is not None]
    if not front:
        return ()
    lowest = min(front)
    return tuple(c for _, c in sorted(group.cells.items()) if c.idle and c.at is not None and c.at <= lowest)


def laggards(group: Group) -> tuple[Cell, ...]:
    """The few pending cells that stand lower than the rest, where the collective there does not explain it.

    In a broadcast the root, in a reduce the others may be ahead; point-to-point works count by themselves.
    """
    by = positions(group)
    if not group.comparable or len(by) < 2:
        return ()
    lowest = next(iter(by.values()))
    behind = len(lowest)
    if 2 * behind >= len(group.pending):
        return ()
    ops = {c.work.op for c in lowest if c.work is not None}
    if (
        not ops
        or any(op is None or op in ROOTED for op in ops)
        or any(c.work is not None and c.work.p2p for c in lowest)
    ):
        return ()
    return lowest


def passed_without(group: Group, rank: GlobalRank) -> bool:
    """Whether a lagging rank waited out its time in a number that the others have finished, in a call that none of them is in.

    What a collective gathers or reduces from all it cannot finish without one of them: where the others stand two numbers
    further, the one between is finished too, so it is no message that came late. In the same call as theirs it may be one
    whose counters stood still while its device went on.
    """
    lagging = [c for c in laggards(group) if c.rank == rank and c.work is not None and c.work.ran_ms is not None]
    if not lagging or lagging[0].at is None or lagging[0].work is None:
        return False
    rest = [c for c in group.pending if c.rank != rank]
    elsewhere = all(c.work is not None and c.work.op not in {None, lagging[0].work.op} for c in rest)
    return elsewhere and all(c.at is not None and c.at >= lagging[0].at + FURTHER for c in rest) and len(rest) > 1


def leaders(group: Group) -> tuple[tuple[Cell, int], ...]:
    """Pending cells ahead of the rest in a rooted collective, each with its lead."""
    by = positions(group)
    if len(by) < 2:
        return ()
    lowest = next(iter(by))
    ops = {c.work.op for c in by[lowest] if c.work is not None}
    if not ops & ROOTED:
        return ()
    return tuple((c, at - lowest) for at, cells in by.items() if at != lowest for c in cells)


def together(group: Group) -> bool:
    """Whether all pending cells stand at one number, but for leaders of a rooted collective.

    Where the lines of a version have no numbers, one op stands for them.
    """
    by = positions(group)
    if not by:
        return len({c.work.op if c.work is not None else None for c in group.pending}) == 1
    return len(by) == 1 or (len(by) > 1 and bool(leaders(group)) and not laggards(group))


def bundled(group: Group) -> bool:
    """Whether a member of a group that waits in a collective is in a send, a receive or a bundle of calls: not in that one."""
    return any(c.work is not None and c.work.p2p for c in group.pending)


def everybody_inside(state: HangState, where: Standing) -> bool:
    """Whether every rank of the job is inside, and every stuck group is complete and of one mind.

    The number of ranks must be witnessed. A sub-group is complete where its size is witnessed, or where all groups of
    its kind have equally many members here.
    """
    if not where.witnessed or where.outside or where.missing or state.unplaced:
        return False
    groups = [g for g in state.stuck if not g.p2p]
    if not groups or {c.rank for g in groups for c in g.pending} != state.waiting:
        return False  # who waits in a send or a receive alone waits for one peer, which may be in a collective
    counts: dict[str | None, set[int]] = {}
    for group in groups:
        counts.setdefault(group.desc, set()).add(len(group.pending))
    for group in groups:
        if not group.comparable or not positions(group) or not together(group) or group.holes:
            return False
        if difference(group) is not None or bundled(group):
            return False
        if len(group.pending) < len(group.cells):
            return False
        if group.size is not None and len(group.pending) != group.size:
            return False
        if group.size is None and not group.default and (len(counts[group.desc]) > 1 or len(group.pending) < 2):
            return False
    return True


def fits_every_hole(state: HangState, ranks: Iterable[GlobalRank]) -> bool:
    """Whether as many ranks are missing in every incomplete stuck group as at most these can fill, and no more."""
    number = len(set(ranks))
    open_groups = [g for g in state.stuck if g.holes and not g.p2p]
    return bool(open_groups) and all(len(g.holes) <= number for g in open_groups)


def nearest_group(state: HangState, late: Iterable[GlobalRank] = ()) -> Group | None:
    """The group in whose wait late ranks show most directly: the smallest one that waits for a member, collectives first.

    A member that waits elsewhere leaves a hole as well. So those groups count first of whose kind no more members are away
    than ranks are late, and last those of which none of these can be a member.
    """
    open_groups = [g for g in state.stuck if _away(g)] or list(state.stuck)
    ranks = set(late)
    holes: Counter[str] = Counter()
    for group in open_groups:
        holes[group.desc or group.name] += _away(group)
    return min(
        open_groups,
        key=lambda g: (
            g.p2p,
            not _may_hold(state.members[g.name], ranks),
            holes[g.desc or g.name] > max(len(ranks), 1),
            max(g.size or 0, g.at_least),
            g.name,
        ),
        default=None,
    )


def _away(group: Group) -> int:
    """Members of a group that are not in its wait."""
    return len(group.holes) + len(group.cells) - len(group.pending)


def _may_hold(members: Members, ranks: set[GlobalRank]) -> bool:
    """Whether one of some ranks can be a member of a group; True where nothing is asked."""
    if not ranks or not ranks.isdisjoint(members.known.values()):
        return True
    return members.size is None or any(c is None or not ranks.isdisjoint(c) for c in members.open.values())


def first_line(group: Group) -> Event | None:
    """The earliest line of a pending cell of a group."""
    lines = [e for c in group.pending for e in c.events[:1]]
    return min(lines, key=_when, default=None)


def _when(event: Event) -> tuple[float, int, int]:
    earliest = event.when.earliest
    return (float("inf") if earliest is None else earliest, event.span.source, event.span.offset)


def main_work(group: Group) -> tuple[str | None, int | None]:
    """Op and number at which most pending cells of a group stand."""
    votes = Counter((c.work.op if c.work is not None else None, c.at) for c in group.pending)
    ranked = sorted(votes.items(), key=lambda kv: (-kv[1], kv[0][0] is None, str(kv[0])))
    return ranked[0][0] if ranked else (None, None)
