"""Dumps of nested groups: told of is the collective in which it began, by no single rank's entry, and under any name of a file."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.unit.pipelines.test_dumps_and_lines import DETECTED, dump, entry

from firstfault.analysis.recorder_words import shared_op
from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

HALVES = {r: r // 4 for r in range(8)}


def nested(rank, absent):
    """Halves that had made 24 collectives; behind the 25th comes the first one of the whole job."""
    half = HALVES[rank]
    begin = DETECTED - 600
    group = {"name": f"{half + 1}", "desc": f"tp_{half}", "ranks": json.dumps(list(range(4 * half, 4 * half + 4)))}
    whole = {"name": "0", "desc": "default_pg", "ranks": json.dumps(list(range(8)))}
    entries = [entry(n, begin - (25 - n) * 2, "completed") for n in range(15, 25)]
    stuck = half == HALVES[absent]
    if rank != absent:
        entries.append(entry(25, begin, "scheduled" if stuck else "completed"))
    for one in entries:
        one |= {
            "pg_id": half + 1,
            "process_group": [f"{half + 1}", f"tp_{half}"],
            "record_id": one["collective_seq_id"],
        }
    if not stuck:
        last = entry(1, begin + 2, "scheduled")
        entries.append(last | {"record_id": 26})
    return {"version": "2.9", "pg_config": {"0": whole, str(half + 1): group}, "entries": entries}


@pytest.mark.parametrize("absent", [2, 5])
def test_the_wait_that_is_told_of_is_where_it_began_and_not_the_first_of_the_whole_job(tmp_path, absent):
    for rank in range(8):
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(nested(rank, absent)))
    found = diagnose([tmp_path]).verdict
    assert (found.category, found.strength, found.culprits.ranks) == (
        Category.DATA_LOADING_STALL,
        Strength.SUPPORTED,
        [absent],
    )
    assert f"all_reduce 25 of group {HALVES[absent] + 1}" in found.summary


class Spot:
    def __init__(self, op):
        self.call = type("Call", (), {"op": op})


@pytest.mark.parametrize(
    ("ops", "label"),
    [
        (["broadcast", "all_reduce", "all_reduce"], "all_reduce"),
        (["all_reduce", "broadcast"], "all_reduce/broadcast"),
        ([], ""),
    ],
)
def test_a_group_is_labelled_by_most_of_its_ranks(ops, label):
    assert shared_op(map(Spot, ops)) == label


def by_name(folder, name, ranks=range(8)):
    for rank in ranks:
        content = dump(499, done=True) if rank == 5 else dump()
        (folder / name.format(rank=rank, half=rank // 4)).write_text(json.dumps(content))
    return diagnose([folder])


@pytest.mark.parametrize("name", ["host-a100-0{half}_fr_{rank}_4711.json", "fr{rank}-of-99.json"])
def test_dumps_under_names_of_any_kind_are_of_their_ranks_and_their_lines_are_read_again(tmp_path, name):
    found = by_name(tmp_path, name, (0, 1, 3, 4, 5, 6, 7))
    assert found.verdict.culprits.ranks == [5]
    assert not found.verification.withdrawn


def test_where_the_names_tell_no_rank_that_is_said(tmp_path):
    for n, rank in enumerate("abcdefgh"):
        (tmp_path / f"trace-{rank}.json").write_text(json.dumps(dump(499, done=True) if n == 5 else dump()))
    found = diagnose([tmp_path])
    assert not found.verdict.culprits.ranks
    assert "8 flight-recorder dumps are here of which no rank can be told" in found.verdict.summary
    assert Counter(c.state for c in found.coverage)
