"""Who holds up the others, by shares of time that a fault of the table brings about."""

import pytest

from firstfault.model.paces import CALLS, LOADER, OWN, slow_ranks

PACE = {"steps": 400, "pace_s": 0.1}


def seen(looks=100, *, waits_seen=True, pace=0.1, **places):
    return {**PACE, "pace_s": pace, "spent": {"looks": looks, "waits_seen": waits_seen, **places}}


def of(*states):
    return dict(enumerate(states))


# Work of a rank is forward to backward as 1 to 1; a slow one takes three times as long, and the others wait in the backward pass.
FAST, SLOW = seen(forward=25.0, backward=75.0), seen(forward=75.0, backward=25.0)
EVEN = seen(forward=50.0, backward=50.0)


@pytest.mark.parametrize(
    ("states", "ranks", "by"),
    [
        (of(FAST, SLOW, FAST, FAST), (1,), OWN),
        (of(SLOW, FAST), (0,), OWN),
        # One host of four is slow with both of its ranks.
        (of(FAST, FAST, SLOW, SLOW, *[FAST] * 4), (2, 3), OWN),
        (of(*[seen(call=60.0, forward=40.0)] * 3, seen(call=5.0, forward=95.0)), (3,), CALLS),
        # On devices a wait is seen anywhere; that one rank waits for its loader and the others do not is seen all the same.
        (of(*[seen(waits_seen=False, data=2.0, forward=98.0)] * 3, seen(waits_seen=False, data=60.0, forward=40.0)), (3,), LOADER),
        # A box without looks: times since the start.
        (of(*[{**PACE, "call": {"in_all_s": 30.0}}] * 3, {**PACE, "call": {"in_all_s": 2.0}}), (3,), CALLS),
    ],
)  # fmt: skip
def test_who_is_slow_is_named(states, ranks, by):
    found = slow_ranks(states)
    assert (found.ranks, found.by) == (ranks, by)


@pytest.mark.parametrize(
    "states",
    [
        of(EVEN, EVEN, EVEN, EVEN),
        # Half of them: nobody can say who is slow and who is fast.
        of(FAST, FAST, SLOW, SLOW),
        # Nobody waits for whom goes at a pace of its own.
        of(FAST, seen(pace=0.3, forward=75.0, backward=25.0), FAST, FAST),
        # Where waits are not seen, work is not told from waiting: a rank that reads its loss waits in the forward pass.
        of(*[seen(waits_seen=False, forward=25.0, backward=75.0)] * 3, seen(waits_seen=False, forward=75.0, backward=25.0)),
        # A few looks, or steps that are so long that looks within one find the same.
        of(*[seen(12, forward=3.0, backward=9.0)] * 3, seen(12, forward=9.0, backward=3.0)),
        of(*[{**FAST, "steps": 6}] * 3, {**SLOW, "steps": 6}),
        # Chance: 25 looks, shares of 0.2 and 0.4.
        of(*[seen(25, forward=20.0, backward=80.0)] * 3, seen(25, forward=40.0, backward=60.0)),
        # One of which nothing is known.
        of(FAST, SLOW, FAST, {}),
        of(SLOW),
        {},
        of({"spent": "?", "steps": True, "pace_s": []}, {"spent": {"looks": "many"}, "call": 3, **PACE}),
    ],
)  # fmt: skip
def test_nobody_is_named_where_it_cannot_be_seen(states):
    assert slow_ranks(states) is None
