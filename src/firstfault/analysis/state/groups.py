"""State of every rank in every process group at a hang: enqueued, completed, stuck work, and each rank's part in it.

A pure fold over events. Numbers are compared inside one group only; a rank inside a group becomes a global rank only
by the prefix of a line, or where all lines agree that there is one group and it is the whole job.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.state.members import SIZED, Members, members_of
from firstfault.analysis.state.parts import Part, own_lines, parts_of
from firstfault.analysis.state.shared_names import shares, told_apart
from firstfault.analysis.state.unnamed import assume, bundles, sub_groups, without_copies
from firstfault.analysis.state.works import State, Work, assign_groups, spoken
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.recorder import DEFAULT_DESC, DEFAULT_NAME
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.scene import Scene

OF = "@"
"""Between a name that several groups share and the first member of the one that is meant."""
UNNAMED = "?"
"""Name of the group of works whose group is not stated anywhere."""


class Cell(Struct, frozen=True, kw_only=True, gc=False):
    """One rank in one process group."""

    rank: GlobalRank
    group_rank: int | None
    enqueued: int | None
    completed: int | None
    work: Work | None
    """The stuck work; None where none ran out of time."""
    state: Event | None
    """The line from which the counters are taken."""
    failed: int | None = None
    """Number of the work that its watchdog gave up, by the line with the counters; None in a mere dump."""

    @property
    def pending(self) -> bool:
        """Whether something was in flight."""
        if self.work is not None or self.failed is not None:
            return True
        return self.enqueued is not None and self.completed is not None and self.enqueued > self.completed

    @property
    def idle(self) -> bool:
        """Whether it is stated that nothing was in flight."""
        return not self.pending and self.enqueued is not None and self.enqueued == self.completed

    @property
    def at(self) -> int | None:
        """Number of the first collective that this rank had not finished; for an idle rank the one it never entered."""
        if self.work is not None and self.work.seq is not None:
            return self.work.seq
        if self.failed is not None:
            return self.failed
        return None if self.completed is None else max(self.completed, 0) + 1

    @property
    def events(self) -> tuple[Event, ...]:
        """Its lines."""
        both = (None if self.work is None else self.work.event, self.state)
        return tuple(e for e in both if e is not None)


class Group(Struct, frozen=True, kw_only=True, dict=True):
    """One process group; what is asked of it again and again is worked out once."""

    name: str
    desc: str | None
    cells: dict[GlobalRank, Cell]
    size: int | None
    """Number of members, where a line witnesses it."""
    size_event: Event | None
    at_least: int
    """Lower bound of the number of members, from the rank numbers inside the group."""
    comparable: bool
    """Whether the numbers of its cells are known to be of one group."""
    ranks: tuple[GlobalRank, ...] = ()
    """All members by their rank inside, where several groups go by one name and the layout tells them apart."""

    @property
    def default(self) -> bool:
        """Whether it is the default group, which holds every rank of the job."""
        return self.name == DEFAULT_NAME or self.desc == DEFAULT_DESC

    @property
    def title(self) -> str:
        """Its name for people."""
        if self.default:
            return "the default group"
        if self.name == UNNAMED or self.name.startswith(UNNAMED):
            return "a process group that the log does not name"
        name = self.name.partition(OF)[0]
        return f"group {name} ({self.desc})" if self.desc else f"group {name}"

    @cached_property
    def pending(self) -> tuple[Cell, ...]:
        """Cells with work in flight, by rank."""
        return tuple(c for _, c in sorted(self.cells.items()) if c.pending)

    @cached_property
    def positions(self) -> dict[int, tuple[Cell, ...]]:
        """Pending cells by the number at which they stand, lowest first; not to be changed."""
        by: dict[int, list[Cell]] = {}
        for cell in self.pending:
            if (at := cell.at) is not None:
                by.setdefault(at, []).append(cell)
        return {at: tuple(by[at]) for at in sorted(by)}

    @property
    def p2p(self) -> bool:
        """Whether its stuck works are point-to-point."""
        works = [c.work for c in self.cells.values() if c.work is not None]
        return bool(works) and all(w.p2p for w in works)

    @property
    def holes(self) -> tuple[int, ...]:
        """Ranks inside the group of which no cell is known, below its size or lower bound."""
        total = max(self.size or 0, self.at_least)
        present = {c.group_rank for c in self.cells.values() if c.group_rank is not None}
        if self.default:
            present |= {int(r) for r in self.cells}
        return tuple(i for i in range(total) if i not in present)


class HangState(Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """All groups and all ranks at the hang."""

    groups: tuple[Group, ...]
    """Sorted by name; numbers first."""
    members: dict[str, Members]
    """Global ranks of the members of each group, by its name, as far as they are known."""
    parts: dict[GlobalRank, Part]
    own: dict[GlobalRank, tuple[Event, ...]]
    """Lines of each rank about the hang, in order of place."""
    unplaced: tuple[Work, ...]
    """Works of which it is not known which rank reports them."""
    assumed: bool
    """Whether ranks were taken from `[Rank n]` because everything speaks for one group that is the whole job."""
    coordinated: bool
    """Whether processes told each other of the time-out, so that every living one had the chance to speak."""
    other: tuple[Event, ...]
    """Lines about the hang that hold neither counters nor works."""
    world: int | None
    """Witnessed number of ranks of the job."""
    world_event: Event | None
    filed: frozenset[GlobalRank] = frozenset()
    """Ranks that their files or their steps show to be members, whether or not they say anything of the hang."""

    @property
    def stuck(self) -> tuple[Group, ...]:
        """Groups in which somebody had work in flight."""
        return tuple(g for g in self.groups if g.pending)

    @property
    def waiting(self) -> set[GlobalRank]:
        """Ranks with work in flight in any group."""
        return {c.rank for g in self.groups for c in g.pending}


def positions(group: Group) -> dict[int, tuple[Cell, ...]]:
    """Pending cells of a group by the number at which they stand, lowest first; not to be changed."""
    return group.positions


_FOLDED: WeakKeyDictionary[Case, HangState] = WeakKeyDictionary()


def hang_state(scene: Scene) -> HangState:
    """Folds the events of one attempt, once; empty groups where no line states anything."""
    done = _FOLDED.get(scene.case)
    if done is None:
        done = _FOLDED[scene.case] = _fold(scene)
    return done


def _fold(scene: Scene) -> HangState:
    said = spoken(scene)
    works = assign_groups(said.works, said.states)
    states = list(said.states)
    ranks = {
        (s.group, s.group_rank): s.rank for s in states if s.rank is not None and s.group_rank is not None and s.group
    }
    works = [_placed(w, ranks) for w in without_copies(works)]
    works, assumed = assume(scene, works, states)
    only = {g for g in (*(w.group for w in works), *(s.group for s in states)) if g is not None}
    if len(only) == 1:
        name = next(iter(only))
        works = [_rename(w, name) if w.group is None and w.rank is not None else w for w in works]
    named = [w for w in works if w.group is not None and w.rank is not None]
    loose = [w for w in works if w.group is None and w.rank is not None]
    world, world_event = _world(scene)
    groups = [*_named_groups(scene, named, states, world, world_event), *_unnamed(loose, scene, world)]
    own = own_lines(said, works)
    return HangState(
        groups=tuple(sorted(groups, key=lambda g: (not g.name.isdecimal(), len(g.name), g.name))),
        members=members_of(scene, groups, world),
        parts=parts_of(scene, said, works, own),
        own=own,
        unplaced=tuple(w for w in works if w.rank is None),
        assumed=assumed,
        coordinated=bool(said.signals or said.own_signal),
        other=said.other,
        world=world,
        world_event=world_event,
        filed=frozenset(scene.roster.filed),
    )


def _placed(work: Work, ranks: Mapping[tuple[str, int], GlobalRank]) -> Work:
    """A work whose line names group and group rank only, with the global rank that another line states for them."""
    if work.rank is not None or work.group is None or work.group_rank is None:
        return work
    return replace(work, rank=ranks.get((work.group, work.group_rank)))


def _rename(work: Work, name: str) -> Work:
    return replace(work, group=name)


def _world(scene: Scene) -> tuple[int | None, Event | None]:
    """Witnessed number of ranks: stated, or the size of the largest communicator that NCCL set up."""
    stated = scene.facts.get("world_size")
    event = stated.events[0] if stated is not None and stated.events else None
    if scene.complete.expected is not None:
        return scene.complete.expected, event
    largest: tuple[int, Event] | None = None
    for e in scene.events:
        if not scene.case.has(e, Mark.IDENTITY):
            continue
        size = e.fields.get("size", "")
        if size.isdecimal() and (largest is None or int(size) > largest[0]):
            largest = (int(size), e)
    if largest is None or largest[0] < scene.complete.at_least or largest[0] <= 1:
        return None, None
    return largest


def _size(
    scene: Scene, group: str, desc: str | None, works: Iterable[Work], world: int | None
) -> tuple[int | None, Event | None]:
    """Witnessed size of a group: the ratio of a gather or scatter, the stated layout, or the world for the default group."""
    if (group == DEFAULT_NAME or desc == DEFAULT_DESC) and world is not None:
        return world, None
    axes = SIZED.get(desc or "", ())
    stated = [f for n in axes if (f := scene.facts.get(n)) is not None and isinstance(f.value, int)]
    if axes and len(stated) == len(axes):
        return math.prod(f.value for f in stated if isinstance(f.value, int)), stated[0].events[0]
    ratios: set[int] = set()
    event = None
    for work in works:
        ratio = gather_ratio(work)
        if ratio is not None:
            ratios.add(ratio)
            event = work.event
    if len(ratios) == 1 and (world is None or max(ratios) <= world):
        return next(iter(ratios)), event
    return None, None


def gather_ratio(work: Work) -> int | None:
    """Size of the group by the elements of a gather or scatter of one tensor; None where the work does not tell."""
    if work.op is None or not any(w in work.op for w in ("GATHER", "SCATTER")) or "COALESCED" in work.op:
        return None
    if work.op in {"GATHER", "SCATTER"} or not work.numel_in or not work.numel_out:
        return None
    small, large = sorted((work.numel_in, work.numel_out))
    return large // small if large % small == 0 and large > small else None


def _named_groups(
    scene: Scene, works: Sequence[Work], states: Sequence[State], world: int | None, world_event: Event | None
) -> list[Group]:
    by_group: dict[str, tuple[list[Work], list[State]]] = {}
    for work in works:
        by_group.setdefault(work.group or UNNAMED, ([], []))[0].append(work)
    for state in states:
        if state.rank is not None and state.group is not None:
            by_group.setdefault(state.group, ([], []))[1].append(state)
    found = []
    for name, (own_works, own_states) in by_group.items():
        descs = [*(s.desc for s in own_states), *(w.desc for w in own_works)]
        desc = next((d for d in descs if d), None)
        cells = _cells(own_works, own_states)
        size, event = _size(scene, name, desc, own_works, world)
        default = name == DEFAULT_NAME or desc == DEFAULT_DESC
        apart = told_apart(cells, size, world) if not default and shares(cells) else []
        found += [
            Group(
                name=f"{name}{OF}{ranks[0]}",
                desc=desc,
                cells=own,
                size=len(ranks),
                size_event=event,
                at_least=len(ranks),
                comparable=True,
                ranks=ranks,
            )
            for ranks, own in apart
        ]
        if apart:
            continue
        highest = max(
            (int(c.rank) if default else (-1 if c.group_rank is None else c.group_rank) for c in cells.values()),
            default=-1,
        )
        found.append(
            Group(
                name=name,
                desc=desc,
                cells=cells,
                size=None if size is not None and size <= highest else size,
                size_event=world_event if default and event is None else event,
                at_least=highest + 1,
                comparable=True,
            )
        )
    return found


def _cells(works: Iterable[Work], states: Iterable[State]) -> dict[GlobalRank, Cell]:
    """Cells of one group; the state at the detection counts before the later dump, the lowest work that did not end."""
    state_of: dict[GlobalRank, State] = {}
    group_rank: dict[GlobalRank, int] = {}
    for state in states:
        if state.rank is None:
            continue
        if state.group_rank is not None:
            group_rank.setdefault(state.rank, state.group_rank)
        kept = state_of.get(state.rank)
        if kept is None or (kept.dump and not state.dump) or (kept.dump is state.dump and _further(state, kept)):
            state_of[state.rank] = state
    work_of: dict[GlobalRank, Work] = {}
    for work in works:
        if work.rank is None:
            continue
        counters = state_of.get(work.rank)
        known = work_of.get(work.rank)
        if counters is not None and _done(work, counters) and known is not None:
            continue
        lower = known is not None and known.seq is not None and work.seq is not None and work.seq < known.seq
        if known is None or lower or (counters is not None and _done(known, counters)):
            work_of[work.rank] = work
    for rank, work in work_of.items():
        if work.group_rank is not None:
            group_rank.setdefault(rank, work.group_rank)
    cells = {}
    for rank in sorted({*work_of, *state_of}):
        counters = state_of.get(rank)
        cells[rank] = Cell(
            rank=rank,
            group_rank=group_rank.get(rank),
            enqueued=None if counters is None else counters.enqueued,
            completed=None if counters is None else counters.completed,
            work=work_of.get(rank),
            state=None if counters is None else counters.event,
            failed=None if counters is None or counters.dump else counters.seq,
        )
    return cells


def _further(state: State, kept: State) -> bool:
    """Whether a state shows more collectives completed than the one kept: what that one waited for then ended."""
    return state.completed is not None and kept.completed is not None and state.completed > kept.completed


def _done(work: Work, counters: State) -> bool:
    """Whether the counters state that a work ended after all."""
    return work.seq is not None and counters.completed is not None and work.seq <= counters.completed


def _unnamed(works: Sequence[Work], scene: Scene, world: int | None) -> list[Group]:
    """Groups of works that name none: torn apart by timeout, by far numbers, and by a rank that stands twice.

    They compare only where nothing speaks for sub-groups: then equal timeouts and near numbers are one group.
    """
    split = not sub_groups(scene) and all(w.group_rank is None or w.group_rank == w.rank for w in works)
    found: list[Group] = []
    for bundle in bundles(works):
        cells = _cells(bundle, ())
        repeated = len({(w.rank, w.seq, w.op) for w in bundle}) > len(cells)
        size, event = _size(scene, UNNAMED, None, bundle, None)
        whole = len({w.timeout_ms for w in works}) <= 1 and split
        if size is None and whole and not repeated:
            size = world
        highest = max((int(r) for r in cells), default=-1)
        found.append(
            Group(
                name=f"{UNNAMED}{len(found)}" if found else UNNAMED,
                desc=DEFAULT_DESC
                if whole and not repeated and (size is None or size == world or world is None) and not found
                else None,
                cells=cells,
                size=None if size is not None and size <= highest else size,
                size_event=event,
                at_least=highest + 1,
                comparable=split and not repeated,
            )
        )
    return found
