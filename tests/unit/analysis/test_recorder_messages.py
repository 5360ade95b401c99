"""Unfinished messages against what their other side shows, in dumps made by hand."""

import json

import pytest

from firstfault.analysis.state.recorder.lanes import align
from firstfault.analysis.state.recorder.messages import Match, matches
from firstfault.readers.flight_recorder import read_dump

SECOND = 1_000_000_000


def dump(rank, *entries):
    rows = [
        {
            "record_id": at,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": 0,
            "p2p_seq_id": at + 1,
            "profiling_name": f"nccl:{name}",
            "is_p2p": True,
            "state": state,
            "time_created_ns": 1_780_000_000 * SECOND + created,
            "input_sizes": [[4]],
            "output_sizes": [[4]],
        }
        for at, (name, state, created) in enumerate(entries)
    ]
    top = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
        "entries": rows,
    }
    return read_dump(json.dumps(top).encode(), rank, f"nccl_trace_rank_{rank}")


@pytest.mark.parametrize("name", ["recv 1<-9", "recv", "recv 1<-2"])
def test_a_message_with_somebody_else_is_no_half_of_an_open_one(name):
    dumps = (
        dump(0, ("send 0->1", "scheduled", 0)),
        dump(1, (name, "completed", SECOND)),
        dump(2, ("send 2->1", "completed", 0)),
    )
    recorded = align(dumps)
    (half,) = matches(recorded.teams[0], recorded)
    assert (half.rank, half.peer, half.match) == (0, 1, Match.NONE)


def test_a_later_one_that_ended_with_this_side_may_be_its_half():
    recorded = align((dump(0, ("send 0->1", "scheduled", 0)), dump(1, ("recv 1<-0", "completed", SECOND)), dump(2)))
    (half,) = matches(recorded.teams[0], recorded)
    assert half.match is Match.UNKNOWN
