"""Ranks by machine and local rank, stated or counted on from the neighbours on the same machine."""

from __future__ import annotations

import pytest

from firstfault.analysis.state.local_ranks import LocalRanks


def ranks(*stated):
    found = LocalRanks()
    for host, local, rank in stated:
        found.add(host, local, rank)
    return found


def test_what_is_stated_is_found_by_any_form_of_the_host():
    known = ranks(("n1.example", 2, 10), ("n2", 2, 18))
    assert known.of("n1", 2) == {10}
    assert known.of("n2.example", 2) == {18}
    assert known.of("n1", 3) is None


def test_statements_that_contradict_each_other_are_both_there():
    assert ranks(("n1", 0, 8), ("n1", 0, 16)).of("n1", 0) == {8, 16}


@pytest.mark.parametrize(
    ("stated", "rank"),
    [
        ([("n1", 2, 10)], 13),
        ([("n1", 2, 10), ("n1", 3, 11)], 13),
        ([("n1", 2, 10), ("n2", 2, 18)], 13),  # another machine says nothing of this one
        ([("n1", 2, 10), ("n1", 3, 12)], None),  # no order holds for both
        ([("n1", 0, 0)], None),  # it fits every order
        ([("n1", 0, 0), ("n1", 1, 1)], 5),
        ([("n2", 2, 18)], None),
        ([], None),
    ],
)
def test_a_neighbour_on_the_same_machine_tells_the_others(stated, rank):
    assert ranks(*stated).beside({"n1"}, 5) == rank
