"""Answers from dumps where not every rank that is told of left one."""

import json

from msgspec.structs import replace

from firstfault.analysis import recorder_answers
from firstfault.analysis.state.recorder.lanes import Lane, align
from firstfault.analysis.state.recorder.reading import Reading
from firstfault.analysis.state.recorder.waits import Wait, Why, find_waits
from firstfault.readers.flight_recorder import read_dump


def dump(rank, state):
    entry = {
        "record_id": 7,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 7,
        "profiling_name": "nccl:all_reduce",
        "state": state,
        "time_created_ns": 1_780_000_000_000_000_000,
        "input_sizes": [[4]],
        "output_sizes": [[4]],
    }
    top = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
        "entries": [entry],
    }
    return read_dump(json.dumps(top).encode(), rank, f"nccl_trace_rank_{rank}")


def test_a_rank_that_lines_alone_place_can_be_waited_for_without_a_dump_of_its_own():
    aligned = align((dump(0, "scheduled"), dump(1, "completed")))
    (team,) = aligned.teams
    behind = Lane(rank=2, dump=None, log=None, high=5, done=4, open=5, states=True)
    team = replace(team, lanes={**team.lanes, 2: behind})
    recorded = replace(aligned, teams=(team,), witnessed=frozenset({2}))
    reading = Reading(recorded=recorded, waits=find_waits(recorded), mismatch=None, late=None)
    wait = Wait(team=team, seq=7, why=Why.ABSENT, waiting=(team.lanes[0].spot(7),), waiters=(0,), blockers=(2,))
    answer = recorder_answers._overwritten(reading, wait)
    assert "rank 2" in answer.summary
    assert [int(e.who.rank) for e in answer.proof] == [0]
