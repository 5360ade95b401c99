"""Who is who: joins hold only where lines state them, and two statements that contradict each other join nothing."""

from __future__ import annotations

import itertools

import pytest
from incident import case_of, event, failure

from firstfault.analysis.state.ranks import Roster
from firstfault.model.evidence import Who


def roster(*events, world=None, failures=(), **more):
    case = case_of(*events, **more)
    return Roster(case, case.events, failures, world)


def said(**who):
    return event("run.start", who=Who(**who))


def test_the_line_itself_counts_first():
    assert roster().rank(said(rank=0, pid=4)) == 0


def test_a_field_states_a_rank_but_a_negative_one_states_none():
    assert roster().rank(event("run.start", fields={"rank": "0"})) == 0
    assert roster().rank(event("run.start", fields={"rank": "-1"})) is None


@pytest.mark.parametrize("number", ["--1", "", "x", "9" * 4000])
def test_a_damaged_rank_is_none(number):
    assert roster().rank(event("run.start", fields={"rank": number})) is None


def test_a_local_rank_is_no_global_rank():
    assert roster(said(local_rank=3, host="n2"), world=16).rank(said(local_rank=3, host="n2")) is None


def test_a_local_rank_joins_by_its_host_in_either_form_of_the_name():
    who = roster(said(rank=11, local_rank=3, host="n2.cluster.example"), world=16)
    assert who.rank(said(local_rank=3, host="n2")) == 11
    assert who.rank(said(local_rank=3, host="n1")) is None


def test_a_local_rank_is_the_global_one_where_one_machine_holds_the_stated_world():
    who = roster(said(local_rank=0), said(local_rank=3), world=4)
    assert who.rank(said(local_rank=2)) == 2


def test_a_world_larger_than_one_machine_joins_no_local_rank():
    assert roster(said(local_rank=0), said(local_rank=3), world=8).rank(said(local_rank=2)) is None


def test_a_process_id_joins_on_its_own_host_only():
    who = roster(said(rank=3, pid=77, host="n1"), said(rank=9, pid=77, host="n2"))
    assert who.rank(said(pid=77, host="n1.example")) == 3
    assert who.rank(said(pid=77, host="n2")) == 9
    assert who.rank(said(pid=77, host="n3")) is None
    assert who.rank(said(pid=77)) is None


def test_a_process_id_of_one_host_is_another_process_elsewhere():
    who = roster(said(rank=3, pid=77, host="n1"))
    assert who.rank(said(pid=77)) == 3
    assert who.rank(said(pid=77, host="n2")) is None


def test_a_process_id_that_was_used_twice_joins_nothing():
    assert (
        roster(said(rank=3, pid=77, host="n1"), said(rank=4, pid=77, host="n1")).rank(said(pid=77, host="n1")) is None
    )


def test_a_rank_on_two_hosts_is_on_none():
    lines = [said(rank=1, host="n1"), said(rank=1, host="n2"), said(rank=0, host="n1")]
    for order in itertools.permutations(lines):
        who = roster(*order)
        assert who.host_of_rank(1) is None
        assert who.host_of_rank(0) == "n1"


def test_a_line_that_joins_rank_and_host_can_contradict_too():
    who = roster(said(rank=1, host="n1"), event("run.who", 2, fields={"rank": "1", "host": "n2"}))
    assert who.host_of_rank(1) is None


def test_two_forms_of_one_host_are_no_contradiction_and_the_short_one_is_shown():
    who = roster(said(rank=1, host="n1.cluster.example"), said(rank=1, host="n1"))
    assert who.host_of_rank(1) == "n1"


def test_addresses_are_not_cut_at_their_dots():
    who = roster(said(rank=1, host="10.0.0.1"), said(rank=2, host="10.0.0.2"))
    assert (who.host_of_rank(1), who.host_of_rank(2)) == ("10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_loopback_name_is_no_host(name):
    who = roster(said(rank=1, host=name))
    assert who.host_of_rank(1) is None
    assert who.only_host() is None


def test_the_host_of_a_silent_rank_is_known_on_a_single_machine_only():
    assert (
        roster(said(rank=0, local_rank=0, host="n1"), said(rank=1, local_rank=1, host="n1"), world=2).host_of_rank(1)
        == "n1"
    )
    assert roster(said(rank=0, local_rank=0, host="n1"), world=8).host_of_rank(7) is None


def test_tasks_are_ranks_where_there_are_as_many_as_the_world():
    line = event("launcher.exit", fields={"tasks": "0-3", "host": "n1"})
    assert roster(line, world=4).tasks_are_ranks
    assert not roster(line, world=8).tasks_are_ranks
    assert roster(line, world=4).rank(said(label="task 2")) == 2
    assert roster(line, world=8).rank(said(label="task 2")) is None


def test_tasks_are_launchers_where_each_host_has_one():
    lines = [event("launcher.exit", n + 1, fields={"task": str(n), "host": f"n{n}"}) for n in range(3)]
    assert not roster(*lines).tasks_are_ranks


def test_ranks_of_lists_of_failures_are_seen():
    assert roster(failures=[failure(rank=0), failure(rank=5)]).seen == {0, 5}


def test_a_source_with_two_hosts_has_no_host_of_its_own():
    who = roster(said(host="n1"), said(host="n2"))
    assert who.source_host(0) is None
    assert roster(said(host="n1"), said(host="n1.example")).source_host(0) == "n1"


def test_joins_do_not_depend_on_the_order_of_lines():
    lines = [
        said(rank=3, pid=77, host="n1", local_rank=1),
        said(rank=9, pid=77, host="n2", local_rank=1),
        event("run.who", 4, fields={"rank": "3", "host": "n1"}),
    ]
    asked = [said(pid=77), said(pid=77, host="n2"), said(local_rank=1, host="n1"), said(host="n2")]
    answers = {
        tuple((who.rank(a), who.host(a)) for a in asked)
        for order in itertools.permutations(lines)
        for who in [Roster(case_of(), order, (), None)]
    }
    assert len(answers) == 1


def test_the_only_host_that_is_named_is_not_that_of_another_source_in_a_job_of_several_machines():
    lines = [said(rank=0, local_rank=0, host="n1"), event("gpu.oom", 2, source=1, rank=9)]
    who = roster(*lines, world=16)
    assert who.host(lines[0]) == "n1"
    assert who.host(lines[1]) is None


def test_the_only_host_of_a_single_machine_is_that_of_every_line():
    lines = [
        said(rank=0, local_rank=0, host="n1"),
        said(rank=1, local_rank=1, host="n1"),
        event("gpu.oom", 2, source=1),
    ]
    assert roster(*lines, world=2).host(lines[2]) == "n1"
