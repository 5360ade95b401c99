"""Expected against seen: what is stated, and only as far as what was seen does not contradict it."""

from __future__ import annotations

import pytest
from incident import event, failure, scene_of

from firstfault.analysis.state.completeness import NOT_MORE_THAN, group_size


def complete(*events, **more):
    return scene_of(*events, **more).complete


def world(size):
    return event("run.world", 1, fields={"world": str(size)})


def ranks(*numbers):
    return [event("gpu.oom", 10 + n, rank=n) for n in numbers]


def test_nothing_stated_expects_nobody():
    found = complete(*ranks(0, 2))
    assert (found.expected, found.at_least, found.seen, found.silent) == (None, 3, (0, 2), ())


def test_nothing_at_all():
    found = complete()
    assert (found.expected, found.at_least, found.seen, found.silent, found.hosts) == (None, 0, (), (), ())


def test_silent_ranks_are_those_that_were_stated_and_not_seen():
    found = complete(world(4), *ranks(0, 3))
    assert (found.expected, found.seen, found.silent) == (4, (0, 3), (1, 2))


def test_rank_zero_can_be_the_silent_one():
    assert complete(world(2), *ranks(1)).silent == (0,)


def test_where_no_line_names_a_rank_nobody_is_silent():
    assert complete(world(4), event("gpu.oom", 2)).silent == ()


def test_a_rank_beyond_the_stated_size_contradicts_it():
    found = complete(world(4), *ranks(0, 4))
    assert (found.expected, found.at_least, found.silent) == (None, 5, ())


@pytest.mark.parametrize("size", [0, NOT_MORE_THAN, NOT_MORE_THAN * 1000])
def test_a_size_that_cannot_be_is_not_believed(size):
    scene = scene_of(world(size), *ranks(0))
    assert scene.complete.expected is None
    assert scene.roster.world is None
    assert not scene.roster.single_node


def test_nodes_times_ranks_a_node():
    layout = event("run.layout", 1, fields={"nnodes": "2", "nproc": "8"})
    found = complete(layout, *ranks(0))
    assert (found.expected, found.expected_nodes, len(found.silent)) == (16, 2, 15)
    assert complete(event("run.layout", 1, fields={"nnodes": "2"})).expected is None


def test_the_stated_size_counts_more_than_the_product():
    layout = event("run.layout", 2, fields={"nnodes": "2", "nproc": "8"})
    assert complete(world(12), layout).expected == 12


def test_ranks_of_a_launchers_list_are_seen():
    assert complete(world(3), failures=(failure(rank=2, code=1),)).silent == (0, 1)


def test_hosts_are_all_that_lines_name():
    assert complete(event("gpu.oom", 1, rank=0, host="n2"), event("gpu.oom", 2, source=1, host="n1")).hosts == (
        "n1",
        "n2",
    )


@pytest.mark.parametrize(
    ("op", "numel_in", "numel_out", "expected"),
    [
        ("ALLGATHER", "10", "80", 8),
        ("_ALLGATHER_BASE", "1", "16", 16),
        ("REDUCE_SCATTER", "80", "10", 8),
        ("ALLREDUCE", "80", "10", None),
        ("ALLGATHER", "10", "85", None),
        ("ALLGATHER", "0", "80", None),
        ("ALLGATHER", "", "80", None),
        ("ALLGATHER", "-1", "80", None),
        ("ALLGATHER", "1", str(NOT_MORE_THAN + 1), None),
    ],
)
def test_size_of_a_gathering_group(op, numel_in, numel_out, expected):
    line = event("nccl.timeout", fields={"op": op, "numel_in": numel_in, "numel_out": numel_out})
    assert group_size(line) == expected


def test_a_gather_gives_a_lower_bound_and_no_expectation():
    line = event("nccl.timeout", 2, rank=1, fields={"op": "ALLGATHER", "numel_in": "1", "numel_out": "8"})
    found = complete(line)
    assert (found.expected, found.at_least, found.silent) == (None, 8, ())


def test_the_group_that_all_processes_joined_tells_how_many_there_are():
    joins = [
        event("run.who", n, fields={"host": f"n{n % 2}", "pid": str(90 + n), "size": "4", "group_rank": str(n - 1)})
        for n in range(1, 5)
    ]
    found = complete(*joins)
    assert (found.expected, found.witnesses[0].events[0]) == (4, joins[0])
    assert complete(*joins[:3]).expected is None
    assert complete(world(8), *joins).expected == 8
