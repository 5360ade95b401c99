"""Job facts: what lines state most often, and never a guess."""

from __future__ import annotations

import itertools

import pytest
from incident import case_of, event

from firstfault.analysis.state.facts import KEPT, job_facts


def facts(*events):
    case = case_of(*events)
    return job_facts(case, case.events)


def world(line, value, **more):
    return event("run.world", line, fields={"world": value}, **more)


def test_a_number_is_a_number_and_a_literal_is_kept():
    found = facts(world(1, "1,024"))
    assert found["world_size"].value == 1024
    assert found["framework"].value == "plain"
    assert "node_list" not in found


@pytest.mark.parametrize("value", ["", "-8", "8.5", "eight", " "])
def test_what_is_no_number_is_left_out(value):
    assert "world_size" not in facts(world(1, value))


def test_zero_is_stated_too():
    assert facts(world(1, "0"))["world_size"].value == 0


def test_the_value_stated_most_often_wins_and_then_the_first():
    assert facts(world(1, "8"), world(2, "16"), world(3, "16"))["world_size"].value == 16
    assert facts(world(1, "8"), world(2, "16"))["world_size"].value == 8


def test_a_flood_counts_as_often_as_it_was_said():
    flood = [world(n, "16", count=5, ordinal=n) for n in range(1, 6)]
    others = [world(n, "8", rank=n) for n in range(10, 17)]
    assert facts(*flood, *others)["world_size"].value == 8
    assert facts(*flood, *others[:4])["world_size"].value == 16


def test_two_values_in_one_flood_count_by_their_lines():
    lines = [world(1, "8", count=3), world(2, "16", count=3, ordinal=1), world(3, "16", count=3, ordinal=2)]
    assert facts(*lines)["world_size"].value == 16


def test_the_winner_does_not_depend_on_the_order():
    events = [world(1, "8"), world(2, "16", source=1), world(3, "32", source=2)]
    assert {facts(*order)["world_size"].value for order in itertools.permutations(events)} == {8}


def test_few_lines_are_kept_as_proof():
    found = facts(*(world(n, "8", rank=n) for n in range(9)))["world_size"]
    assert [e.span.line for e in found.events] == list(range(KEPT))
