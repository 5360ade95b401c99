"""Did ranks of one group issue different collectives at one sequence number? Names the odd ones out, by majority only.

Compares inside one group and one number; point-to-point works, and sizes that may rightly differ, are left out. Where no
side is clearly the smaller one nobody is named.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.hang_words import collective, waited
from firstfault.analysis.order import first, sort_key
from firstfault.analysis.state.difference import Difference, difference, nameless, odd_ones
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.scopes import scope_of
from firstfault.analysis.state.waits import End, Origin, waits
from firstfault.analysis.wording import ranges, ranks_text, who_text
from firstfault.model.evidence import GlobalRank
from firstfault.model.findings import Rival
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Cell, HangState
    from firstfault.analysis.state.works import Work
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event

DETAIL = "torch.collectives_differ"
"""Signature of the check that TORCH_DISTRIBUTED_DEBUG=DETAIL makes before a collective runs."""
_PAIR = lazy(r"Rank (\d+) is running collective: .*? but Rank (\d+) is running collective", re.DOTALL)


def ask(scene: Scene) -> Answer | None:
    """The answer where ranks issued different collectives; else None, also where another fault came before."""
    detail = [e for e in scene.events if e.signature == DETAIL]
    if scene.hang is None and not detail:
        return None
    if any(_earlier(s, scene, detail) for s in scene.suspects):
        return None
    if detail:
        return _from_detail(scene, detail)
    state = hang_state(scene)
    found = [d for g in state.groups if (d := difference(g)) is not None]
    if not found:
        apart = nameless(state.unplaced)
        if apart is not None:
            return _nameless(scene, apart)
        circles = [o for o in waits(state).of(End.CIRCLE) if o.stated]
        return _circle(scene, state, circles[0]) if circles else None
    chosen = min(found, key=lambda d: (d.of_size, len(next(iter(reversed(d.kinds.values())))), d.group.name))
    return _answer(scene, chosen)


def _earlier(suspect: Suspect, scene: Scene, detail: list[Event]) -> bool:
    """Whether another kind of fault came before the ranks noticed: then the mismatch follows from it."""
    if suspect.nature.category is Category.COLLECTIVE_MISMATCH:
        return False
    noticed = min(detail, key=sort_key) if detail else (None if scene.hang is None else scene.hang.first)
    return noticed is not None and first(noticed, suspect.first) is not True


def _answer(scene: Scene, found: Difference) -> Answer:
    odd = odd_ones(found)
    ranks = tuple(sorted(c.rank for c in odd))
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values())))
    where = f" of {found.group.title}"
    shown = "; ".join(
        f"{kind} by {ranks_text([int(c.rank) for c in cells])}" for kind, cells in list(found.kinds.items())[:4]
    )
    strength = Strength.POSSIBLE if found.seq is None else Strength.SUPPORTED
    who = strength if odd else Strength.UNKNOWN
    if found.of_size and len(odd) > 1:
        who = who.at_most(Strength.POSSIBLE)
    blame = (
        f" The odd one out is{who_text(ranks, hosts).removeprefix(' on')}, by majority."
        if odd
        else " No side is the clear majority, so nobody is named."
    )
    cells = [c for cs in found.kinds.values() for c in cs]
    number = "" if found.seq is None else f" at number {found.seq}"
    return _told(
        scene,
        f"Ranks issued different collectives{number}{where}: {shown}{waited(scene)}.{blame}",
        strength,
        Named(ranks=ranks, hosts=hosts, strength=who),
        proof=_proof(_trigger(odd or cells), found),
        of_size=found.of_size,
    )


def _nameless(scene: Scene, kinds: dict[str, tuple[Work, ...]]) -> Answer:
    """All members of one group, of which only the numbers inside it are told, issued different collectives."""
    lines = {op: min((w.event for w in works), key=sort_key) for op, works in kinds.items()}
    every = [w for works in kinds.values() for w in works]
    shown = "; ".join(
        f"{op} by member{'s' if len(works) > 1 else ''} {ranges(sorted(w.group_rank or 0 for w in works))}"
        for op, works in list(kinds.items())[:4]
    )
    return _told(
        scene,
        f"The {len(every)} members of a process group that the log does not name issued different collectives at number "
        f"{every[0].seq}: {shown}{waited(scene)}. These are numbers inside that group; no line maps them to ranks of the job, "
        "so nobody is named.",
        Strength.SUPPORTED,
        Named(),
        proof=tuple(sorted(lines.values(), key=sort_key)[:4]),
        of_size=False,
    )


def _told(
    scene: Scene, summary: str, strength: Strength, named: Named, *, proof: tuple[Event, ...], of_size: bool
) -> Answer:
    """An answer about a hang of ranks in different collectives; the first line of the proof is the trigger."""
    state = hang_state(scene)
    return Answer(
        question="mismatch",
        failed=True,
        category=Category.COLLECTIVE_MISMATCH,
        strength=strength,
        summary=summary,
        trigger=proof[0] if proof else None,
        proof=proof,
        culprits=named,
        first_failed=named if named.ranks else Named(),
        classes=Classes(
            domain=Domain.COMMUNICATION,
            form=Form.HUNG,
            layer=Layer.COLLECTIVE,
            phase=Phase.UNKNOWN,
            scope=scope_of(scene, named.ranks, state.world) or Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=_steps(of_size),
        collect=("TORCH_DISTRIBUTED_DEBUG=DETAIL on a short run: it stops at the first difference and names it",),
        rivals=(
            Rival(
                category=Category.NETWORK,
                strength=Strength.UNKNOWN,
                supports=("ranks timed out in a collective",),
                against=("the ranks wait for each other in different collectives, which no network can complete",),
                settled_by=("the same code with equal collectives on all ranks",),
            ),
        ),
    )


def _circle(scene: Scene, state: HangState, origin: Origin) -> Answer | None:
    """Ranks that wait for each other in different groups: they took their collectives in different orders.

    Only absences that counters state count: a rank prints the first of its works that ran out, and the others that it
    had in flight may stay untold. The smaller side is possible at most, where it is one rank against several.
    """
    sides = sorted(((g, g.pending) for g in origin.groups), key=lambda s: (len(s[1]), s[0].name))
    if len(sides) < 2 or state.unplaced or any(g.p2p for g, _ in sides):
        return None
    small = tuple(c.rank for c in sides[0][1])
    odd = small if len(small) == 1 and sum(len(cells) for _, cells in sides) >= 4 else ()
    hosts = tuple(sorted(set(hosts_of(scene, odd).values())))
    named = Named(ranks=odd, hosts=hosts, strength=Strength.POSSIBLE) if odd else Named()
    shown = "; ".join(f"{ranks_text([int(c.rank) for c in cells])} in {collective(g)}" for g, cells in sides[:4])
    return _told(
        scene,
        f"Ranks wait for each other in different groups: {shown}{waited(scene)}; none of them can go on, so they "
        "called their collectives in different orders.",
        Strength.SUPPORTED,
        named,
        proof=tuple(line for _, cells in sides if (line := _trigger(cells)) is not None),
        of_size=False,
    )


def _trigger(cells: Iterable[Cell]) -> Event | None:
    lines = [c.work.event for c in cells if c.work is not None]
    return min(lines, key=sort_key, default=None)


def _proof(trigger: Event | None, found: Difference) -> tuple[Event, ...]:
    """The trigger and one line of every kind."""
    lines = [] if trigger is None else [trigger]
    for cells in list(found.kinds.values())[:4]:
        line = _trigger(cells)
        if line is not None and line is not trigger:
            lines.append(line)
    return tuple(lines)


def _steps(of_size: bool) -> tuple[str, ...]:
    if of_size:
        return (
            "Make the tensors of that collective equally large on all ranks (pad, or drop the last uneven batch).",
            "Run a short job with TORCH_DISTRIBUTED_DEBUG=DETAIL: it stops at the first difference.",
        )
    return (
        "Find the branch that only some ranks take before that collective (rank, loss, epoch end, early stop) and let all decide alike.",
        "Run a short job with TORCH_DISTRIBUTED_DEBUG=DETAIL: it stops at the first difference.",
    )


def _from_detail(scene: Scene, events: list[Event]) -> Answer:
    """Every rank names the first that differs from itself: the majority name the odd one, which itself names another."""
    accused: Counter[int] = Counter()
    accusers: dict[int, set[int]] = {}
    global_ranks = True
    for event in events:
        pair = _PAIR.search(event.text)
        one, two = (
            (pair.group(1), pair.group(2))
            if pair
            else (event.fields.get("group_rank", ""), event.fields.get("peer", ""))
        )
        if not (one.isdecimal() and two.isdecimal()):
            continue
        said = scene.roster.rank(event)
        global_ranks = global_ranks and said is not None and int(said) == int(one)
        if int(one) not in accusers.setdefault(int(two), set()):
            accusers[int(two)].add(int(one))
            accused[int(two)] += 1
    odd = _accused(accused)
    ranks: tuple[GlobalRank, ...] = ()
    if odd is not None and global_ranks:
        ranks = tuple(r for e in events if (r := scene.roster.rank(e)) is not None and int(r) == odd)[:1]
    sure = Strength.SUPPORTED if ranks else Strength.UNKNOWN
    if odd is not None and not ranks and global_ranks:
        # The odd one said nothing. Members are numbered in the order of their ranks: below one whose number is its rank, all are.
        ranks = (GlobalRank(odd),)
        sure = Strength.SUPPORTED if max(accusers[odd]) > odd else Strength.POSSIBLE
    if odd is not None and not ranks and _unlabelled(scene, events, odd):
        ranks, sure = (GlobalRank(odd),), Strength.POSSIBLE
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values())))
    start = min(events, key=sort_key)
    named = Named(ranks=ranks, hosts=hosts, strength=sure)
    ops = sorted({v for e in events for k in ("op", "peer_op") if (v := e.fields.get(k))})
    blame = (
        f" All others name{who_text(ranks, hosts).removeprefix(' on')}."
        if ranks
        else " No rank is named by a majority."
    )
    return Answer(
        question="mismatch",
        failed=True,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.ESTABLISHED,
        summary=f"Ranks were about to run different collectives ({', '.join(ops) or 'see the lines'}); the check before the collective stopped them.{blame}",
        trigger=start,
        proof=tuple(events[:4]),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.COMMUNICATION,
            form=Form.INTERRUPTED,
            layer=Layer.COLLECTIVE,
            scope=Scope.RANK if len(ranks) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=_steps(of_size=len(ops) < 2),
    )


def _unlabelled(scene: Scene, events: list[Event], odd: int) -> bool:
    """Whether the numbers of a check may be taken for ranks of the job: no line has a label of its own, and no smaller group is known."""
    if any(scene.roster.rank(e) is not None for e in events) or any(not g.default for g in hang_state(scene).groups):
        return False
    world = scene.complete.expected
    return world is None or odd < world


def _accused(accused: Counter[int]) -> int | None:
    """The rank that at least two others name, and more than name anybody else."""
    ranked = accused.most_common(2)
    if not ranked or ranked[0][1] < 2 or (len(ranked) > 1 and ranked[1][1] == ranked[0][1]):
        return None
    return ranked[0][0]
