"""How many ranks and nodes were expected, by which witnesses, and which of them were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.facts import KEPT, JobFact
from firstfault.analysis.state.joins import size_of_group
from firstfault.model.evidence import GlobalRank
from firstfault.model.recorder import DEFAULT_DESC

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import Event

NOT_MORE_THAN = 1_000_000
"""A world size from here on is a misread number."""


class Completeness(Struct, frozen=True, kw_only=True):
    """Expected against seen."""

    expected: int | None
    """Stated world size; None where only a lower bound is known."""
    at_least: int
    """Lower bound of the world size from ranks seen and sizes of groups."""
    seen: tuple[GlobalRank, ...]
    silent: tuple[GlobalRank, ...]
    """Expected ranks of which no line was found; empty where nothing is expected or no rank is named at all."""
    expected_nodes: int | None
    hosts: tuple[str, ...]
    missing_files: tuple[str, ...]
    witnesses: tuple[JobFact, ...]
    """Statements about the number of ranks, also those that the ranks seen contradict."""


def group_size(event: Event) -> int | None:
    """Size of the group of a gather-like collective: NumelOut / NumelIn; a lower bound of the world size."""
    op = event.fields.get("op", "")
    if "GATHER" not in op and "SCATTER" not in op:
        return None
    numbers = []
    for name in ("numel_in", "numel_out"):
        value = event.fields.get(name, "")
        if not value.isdecimal():
            return None
        numbers.append(int(value))
    small, large = min(numbers), max(numbers)
    if small == 0 or large % small or large // small > NOT_MORE_THAN:
        return None
    return large // small


def world_size(facts: dict[str, JobFact]) -> int | None:
    """The stated number of ranks; None where it is not stated or cannot be one."""
    stated = facts.get("world_size")
    if stated is None or not isinstance(stated.value, int) or not 0 < stated.value < NOT_MORE_THAN:
        return None
    return stated.value


def machines(facts: dict[str, JobFact]) -> int | None:
    """The stated number of machines."""
    return _number(facts, "nodes")


def ranks_per_node(facts: dict[str, JobFact], world: int | None) -> int | None:
    """Ranks a machine: stated, or what the world and the number of machines give; None elsewhere."""
    stated, nodes = _number(facts, "ranks_per_node"), machines(facts)
    if stated is not None:
        return stated
    return world // nodes if nodes and world and world % nodes == 0 else None


def _number(facts: dict[str, JobFact], name: str) -> int | None:
    stated = facts.get(name)
    return stated.value if stated is not None and isinstance(stated.value, int) and stated.value > 0 else None


def completeness(case: Case, roster: Roster, facts: dict[str, JobFact]) -> Completeness:
    """Expected and seen ranks, nodes and files of one attempt."""
    stated = facts.get("world_size")
    world = world_size(facts)
    nodes = facts.get("nodes")
    per_node = facts.get("ranks_per_node")
    if world is None and nodes is not None and per_node is not None:
        product = int(nodes.value) * int(per_node.value)
        world = product if 0 < product < NOT_MORE_THAN else None
    sizes = [s for e in case.events if "op" in e.fields and (s := group_size(e)) is not None]
    highest = max((int(r) + 1 for r in (*roster.seen, *roster.filed)), default=0)
    stated_sizes = [size_of_group(e) for e in case.events if "size" in e.fields or "peers" in e.fields]
    joined = [s for s in stated_sizes if s is not None and s < NOT_MORE_THAN]
    at_least = max([highest, *sizes, *joined])
    if world is not None and world < highest:
        world = None
    if stated is None and world is None and roster.whole is not None and highest <= roster.whole < NOT_MORE_THAN:
        # No line states the size of the job, but all processes that speak of a group joined one that holds them all.
        world = roster.whole
        stated = JobFact("world_size", world, tuple(e for e in case.events if size_of_group(e) == world)[:KEPT])
    silent: tuple[GlobalRank, ...] = ()
    seen = set(roster.seen)
    if case.seen.dumps and world is None:
        dumped, told = _recorded(case)
        if told is not None and told >= highest:
            world = told
        if not seen:
            # Without a line of any rank the dumps alone tell who is there.
            seen, at_least = dumped, max((int(r) + 1 for r in dumped), default=0)
    if world is not None and seen:
        silent = tuple(r for r in map(GlobalRank, range(world)) if r not in seen)
    hosts = sorted({h for hs in roster.source_hosts.values() for h in hs} | set(roster.host_of.values()))
    witnesses = tuple(f for f in (stated, nodes, per_node) if f is not None)
    return Completeness(
        expected=world,
        at_least=at_least,
        seen=tuple(sorted(seen)),
        silent=silent,
        expected_nodes=int(nodes.value) if nodes is not None and isinstance(nodes.value, int) else None,
        hosts=tuple(hosts),
        missing_files=case.seen.missing_files,
        witnesses=witnesses,
    )


def _recorded(case: Case) -> tuple[set[GlobalRank], int | None]:
    """Ranks that left a flight-recorder dump, and the size of the default group where a dump tells its members."""
    dumps = [d for d in case.seen.dumps if d.rank is not None]
    sizes = [len(g.ranks) for d in dumps for g in d.groups if g.ranks and (g.desc == DEFAULT_DESC or not g.name)]
    return {d.rank for d in dumps if d.rank is not None}, max(sizes, default=None)
