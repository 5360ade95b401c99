"""Ranks of a hung job that wait for each other in different groups, as far as the lines of the logs tell.

Who stands apart is named at `possible` at most: lines tell that a rank waits, and seldom that it waits nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.hang_answers import undecided
from firstfault.analysis.hang_words import collective, waited
from firstfault.analysis.order import sort_key
from firstfault.analysis.state.lived import told_all
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.standing import first_line
from firstfault.analysis.state.waits import End
from firstfault.analysis.wording import ranks_text
from firstfault.model.words import ActionKind, Category, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.state.groups import Group
    from firstfault.analysis.state.picture import Picture
    from firstfault.model.evidence import Event, GlobalRank


def applies(seen: Picture) -> bool:
    """Whether the graph of waiting has a circle, and nobody is missing who could be its end."""
    return bool(seen.where.graph.of(End.CIRCLE)) and not seen.where.missing


def answer(seen: Picture) -> Answer:
    """Ranks wait for each other in different groups, but that they are not in each other's collective is not stated."""
    origin = seen.where.graph.of(End.CIRCLE)[0]
    parts = "; ".join(f"{ranks_text([int(c.rank) for c in g.pending])} in {collective(g)}" for g in origin.groups[:4])
    lines = [line for g in origin.groups[:2] if (line := first_line(g)) is not None]
    if len(origin.groups) > 1 and not any(g.p2p for g in origin.groups) and told_all(seen.scene, origin.groups):
        return _two_ways(seen, origin.groups, parts, lines)
    return undecided(
        seen,
        f"The job hung: ranks wait for each other in different groups: {parts}{waited(seen.scene)}. Either they called their "
        "collectives in different orders, or one of these collectives is stuck and its other waits were not told.",
        trigger=min(lines, key=sort_key, default=None),
        scope=Scope.GROUP,
        proof=tuple(lines),
        steps=(
            "Compare the order of the collectives of these groups in the stacks or flight-recorder dumps of all ranks.",
        ),
    )


def _two_ways(seen: Picture, groups: Sequence[Group], parts: str, lines: list[Event]) -> Answer:
    """Ranks wait in different groups, and each lived on without telling of a wait in the other's: two ways of the code."""
    odd = _left_early(groups)
    hosts = tuple(sorted(set(hosts_of(seen.scene, odd).values())))
    blame = (
        f" {ranks_text(odd).capitalize()} stands in a flag or barrier, outside the part in which the others are."
        if odd
        else ""
    )
    own = [e for g in groups for c in g.pending if c.rank in odd for e in c.events[:1]]
    first = min(own or lines, key=sort_key, default=None)
    base = undecided(
        seen,
        f"Ranks wait for each other in different groups: {parts}{waited(seen.scene)}. Each lived on after its time-out and told "
        f"of no wait in the other group, so they took different ways through the code.{blame}",
        trigger=first,
        scope=Scope.RANK if len(odd) == 1 else Scope.GROUP,
        culprits=Named(ranks=odd, hosts=hosts, strength=Strength.POSSIBLE) if odd else Named(),
        proof=tuple(lines),
        steps=(
            "Find the loop that some ranks leave earlier (uneven numbers of batches), or the branch that only some take.",
        ),
    )
    return replace(
        base, category=Category.COLLECTIVE_MISMATCH, strength=Strength.POSSIBLE, action=ActionKind.FIX_AND_RERUN
    )


def _left_early(groups: Sequence[Group]) -> tuple[GlobalRank, ...]:
    """The one rank in a collective of one element of the whole job, where all others are in larger ones; else nobody."""
    flags = [c.rank for g in groups for c in g.pending if g.default and c.work is not None and c.work.numel_in == 1]
    larger = [c.rank for g in groups for c in g.pending if c.work is not None and (c.work.numel_in or 0) > 1]
    every = sum(len(g.pending) for g in groups)
    return tuple(flags) if len(flags) == 1 and len(flags) + len(larger) == every else ()
