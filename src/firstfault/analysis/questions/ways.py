"""Ranks that wait at one number, but came there by different calls: one in a barrier, the others in the backward pass.

Where no line gives a number, the row `apart` of `plain_wait` compares the calls.

Goes by the stacks of their own time-out errors alone, and claims a possibility at most: a rank enqueues works ahead of
those that are stuck, so that its stack may stand a little behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.hang_answers import undecided
from firstfault.analysis.hang_words import collective, waited
from firstfault.analysis.state.calls import BARRIERS
from firstfault.analysis.state.elsewhere import CALLS, Called, called
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.wording import ranks_text
from firstfault.model.words import ActionKind, Category, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.state.picture import Picture

STEPS = (
    "Find the branch that only some ranks take before that collective (early stop, end of an epoch, a skipped batch) and let all decide alike.",
    "Run a short job with TORCH_DISTRIBUTED_DEBUG=DETAIL: it stops at the first difference.",
)


def sides(seen: Picture) -> dict[str, tuple[Called, ...]]:
    """The ranks of the stuck group by what they had called, the smallest side first; empty where it is not known of all."""
    group = seen.nearest
    cells = () if group is None or group.p2p else tuple(group.pending)
    found = called(seen.scene, cells)
    if len(found) < max(2, len(cells)):
        return {}
    kinds: dict[str, tuple[Called, ...]] = {}
    for one in found:
        kind = one.call if one.call in BARRIERS else CALLS.get(one.call, one.call)
        kinds[kind] = (*kinds.get(kind, ()), one)
    return dict(sorted(kinds.items(), key=lambda side: (len(side[1]), side[0])))


def applies(seen: Picture) -> bool:
    """Whether every rank that waits tells by its own error what it had called, and these are two calls."""
    return not seen.where.outside and len(sides(seen)) == 2


def answer(seen: Picture) -> Answer:
    """Ranks took different ways through the code; the odd one is named where it is one against several."""
    small, large = sides(seen).values()
    odd = (small[0].rank,) if len(small) == 1 and len(large) > 1 else ()
    hosts = tuple(sorted(set(hosts_of(seen.scene, odd).values())))
    shown = "; ".join(f"{ranks_text([int(c.rank) for c in side])} in {side[0].call}" for side in (small, large))
    base = undecided(
        seen,
        f"Ranks waited for each other at the same number, {collective(seen.nearest)}, by different calls: {shown}"
        f"{waited(seen.scene)}. They took different ways through the code.",
        trigger=small[0].event,
        scope=Scope.RANK if odd else Scope.GROUP,
        culprits=Named(ranks=odd, hosts=hosts, strength=Strength.POSSIBLE) if odd else Named(),
        proof=(small[0].event, large[0].event),
        steps=STEPS,
    )
    return replace(
        base, category=Category.COLLECTIVE_MISMATCH, strength=Strength.POSSIBLE, action=ActionKind.FIX_AND_RERUN
    )
