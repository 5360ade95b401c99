"""Answers from flight-recorder dumps that differ: other calls at one number, or one rank that came late.

Names only the clearly smaller side; which answer applies is decided by the question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Classes, Named, hung
from firstfault.analysis.recorder_answers import STACKS, accounted, network_rival, steps_for
from firstfault.analysis.recorder_words import call_text, entry_event, once, phase_of, place_text, some_ranks
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.recorder.calls import Kind, Late, Mismatch, Shift
from firstfault.analysis.wording import duration, who_text
from firstfault.model.words import ActionKind, Category, Domain, Layer, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.recorder.reading import Reading


def mismatch(scene: Scene, reading: Reading, found: Mismatch) -> Answer:
    """Ranks issued different calls at one number of one group."""
    odd = found.odd
    ranks = tuple(sorted(s.dump.rank for s in odd if s.dump.rank is not None))
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values())))
    sides = "; ".join(
        f"{what} by {some_ranks(sorted(s.dump.rank for s in spots if s.dump.rank is not None))}"
        for what, spots in found.sides[:4]
    )
    who = Strength.SUPPORTED if odd else Strength.UNKNOWN
    if len(ranks) > 1 and found.kind is not Kind.OP:
        who = who.at_most(Strength.POSSIBLE)
    blame = (
        f" The odd {'one' if len(ranks) == 1 else 'ones'} out {'is' if len(ranks) == 1 else 'are'} {who_text(ranks, hosts).removeprefix(' on ')}, by majority."
        if odd
        else ""
    )
    if not odd:
        blame = " No side is the clear majority, so nobody is named."
    how = {
        Shift.SKIPPED: " It left out a collective that the others issued.",
        Shift.EXTRA: " It issued a collective that the others did not.",
        Shift.SWAPPED: " It issued two collectives in the other order.",
    }
    shown = odd or found.sides[0][1]
    proof = once(entry_event(s) for s in (*shown[:2], *(spots[0] for _, spots in found.sides[:3])))
    place = place_text(shown[0])
    named = Named(ranks=ranks, hosts=hosts, strength=who)
    exchange = found.kind is Kind.TOTAL
    return hung(
        "flight_recorder",
        Category.COLLECTIVE_MISMATCH,
        Strength.POSSIBLE if exchange else Strength.SUPPORTED,
        f"Ranks issued different collectives at number {found.seq} of {found.team.title}: {sides}.{blame}"
        f"{how[found.shift] if found.shift is not None and odd else ''}"
        f"{f' It was called at {place}.' if place and odd else ''} {accounted(reading)}",
        proof=proof,
        culprits=named,
        classes=Classes(
            domain=Domain.COMMUNICATION,
            layer=Layer.COLLECTIVE,
            phase=phase_of(shown[0]),
            scope=Scope.RANK if len(ranks) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Look for a collective under a condition that is not the same on all ranks: a branch on the rank, uneven batches.",
            "Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names the two calls before they hang.",
        ),
        collect=(STACKS,),
    )


def late(scene: Scene, reading: Reading, found: Late) -> Answer:
    """One or few ranks entered a collective only when the others had waited their time."""
    ranks = tuple(sorted(s.dump.rank for s in found.late if s.dump.rank is not None))
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values())))
    strength = Strength.SUPPORTED if found.own_clock else Strength.POSSIBLE
    named = Named(ranks=ranks, hosts=hosts, strength=strength)
    place = place_text(found.late[0])
    proof = once(entry_event(s) for s in (*found.late[:2], *found.others[:2]))
    return hung(
        "flight_recorder",
        Category.DATA_LOADING_STALL,
        strength,
        f"{who_text(ranks, hosts).removeprefix(' on ').capitalize()} entered {call_text(found.late[0], found.team)} "
        f"later than the others by {duration(round(found.by_s * 1000))}, when these had waited their time already"
        f"{f' (at {place})' if place else ''}. {accounted(reading)}",
        proof=proof,
        culprits=named,
        classes=Classes(
            domain=Domain.DATA,
            layer=Layer.RUNTIME,
            phase=phase_of(found.late[0]),
            scope=Scope.RANK if len(ranks) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=steps_for(ranks, frozen=False),
        collect=(STACKS,),
        rivals=(network_rival(ranks),),
    )
