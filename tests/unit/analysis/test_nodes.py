"""Hosts of ranks, and whether missing ranks make up whole machines."""

import pytest
from incident import event, scene_of

from firstfault.analysis.state.nodes import expand_hosts, gone_nodes


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node[001-003,007],login1", ("node001", "node002", "node003", "node007", "login1")),
        ("gpu9", ("gpu9",)),
        ("a[1-2]b", ("a1b", "a2b")),
        ("node[x-y]", ()),
        ("node[1-999999]", ()),
        ("", ()),
    ],
)
def test_a_hostlist_is_written_out_or_is_none(text, hosts):
    assert expand_hosts(text) == hosts


def job(*more, nodes="cn[1-4]"):
    """Four machines of two ranks; a line of each of the first six ranks states its host."""
    layout = event("run.layout", 1, fields={"nnodes": "4", "nproc": "2"})
    listed = event("run.world", 2, fields={"world": "8", "nodes": nodes})
    said = [event("code.crash", 10 + r, rank=r, host=f"cn{1 + r // 2}.cluster") for r in range(6)]
    return scene_of(layout, listed, *said, *more)


def test_missing_ranks_that_fill_one_machine_are_that_machine():
    gone = gone_nodes(job(), [6, 7])
    assert (gone.hosts, gone.count, gone.absent) == (("cn4",), 1, True)


def test_without_a_list_of_nodes_only_their_number_is_known():
    gone = gone_nodes(job(nodes=""), [6, 7])
    assert (gone.hosts, gone.count) == ((), 1)


@pytest.mark.parametrize("missing", [[6], [5, 6], [0, 2], [], [0, 1, 2, 3, 4, 5]])
def test_a_hole_that_fits_no_machine_is_none(missing):
    assert gone_nodes(job(), missing) is None
