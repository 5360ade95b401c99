"""A rank's dump and its own lines are two witnesses of one state: where one is missing, the other tells where the rank stood."""

import json

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

DETECTED = 1747142757  # 2025-05-13 13:25:57 UTC
WORLD = 8


def entry(seq, at, state, op="all_reduce", size=1048576):
    return {
        "record_id": seq - 490,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": int(at * 1e9),
        "input_sizes": [[size]],
        "output_sizes": [[size]],
        "input_dtypes": ["BFloat16"],
        "output_dtypes": ["BFloat16"],
        "state": state,
        "timeout_ms": 600000,
        "is_p2p": False,
        "retired": state == "completed",
    }


def dump(last=500, op="all_reduce", size=1048576, done=None):
    begin = DETECTED - 600
    entries = [entry(n, begin - (500 - n) * 2, "completed") for n in range(490, last)]
    entries.append(entry(last, begin, "completed" if done else "scheduled", op, size))
    group = {"name": "0", "desc": "default_pg", "ranks": json.dumps(list(range(WORLD)))}
    return {"version": "2.9", "pg_config": {"0": group}, "entries": entries}


def watchdog(rank, seq=500, op="ALLREDUCE", later=0, size=1048576):
    clock = f"13:{25 + later}:57.1{rank}0000"
    prefix = f"[rank{rank}]:[E513 {clock} ProcessGroupNCCL.cpp"
    timed_out = (
        f"{prefix}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
        f"NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for 60005{rank} milliseconds before timing out."
    )
    counters = (
        f"{prefix}:2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: "
        f"{seq} PG status: last enqueued work: {seq}, last completed work: {seq - 1}"
    )
    return [timed_out, counters]


def verdict(folder, dumps, lines):
    for rank, content in dumps.items():
        (folder / f"nccl_trace_rank_{rank}.json").write_text(
            content if isinstance(content, str) else json.dumps(content)
        )
    (folder / "job.log").write_text("\n".join(line for rank in lines for line in rank) + "\n")
    return diagnose([folder]).verdict


def all_dumps():
    return {rank: dump() for rank in range(WORLD)}


def all_lines():
    return [watchdog(rank) for rank in range(WORLD)]


@pytest.mark.parametrize("left", ["", json.dumps(dump())[:900], None], ids=["empty", "cut", "missing"])
@pytest.mark.parametrize("ranks", [[3], [1, 2], [0]])
def test_a_rank_without_a_dump_that_its_own_line_places_inside_is_not_absent(tmp_path, left, ranks):
    dumps = {rank: content for rank, content in all_dumps().items() if rank not in ranks}
    if left is not None:
        dumps |= dict.fromkeys(ranks, left)
    said = verdict(tmp_path, dumps, all_lines())
    assert (said.category, said.strength) == (Category.NETWORK, Strength.POSSIBLE)
    assert not said.culprits.ranks


def test_a_dump_from_before_the_collective_does_not_make_its_rank_absent(tmp_path):
    said = verdict(tmp_path, all_dumps() | {3: dump(497, done=True)}, all_lines())
    assert (said.category, said.culprits.ranks) == (Category.NETWORK, [])


def test_a_rank_that_came_ten_minutes_late_stays_the_one_that_was_waited_for(tmp_path):
    lines = [watchdog(rank, later=0 if rank != 3 else 10) for rank in range(WORLD)]
    said = verdict(tmp_path, all_dumps() | {3: dump(499, done=True)}, lines)
    assert said.culprits.ranks == [3]


def test_a_rank_without_dump_and_line_is_still_the_one_that_is_looked_for(tmp_path):
    dumps = {rank: content for rank, content in all_dumps().items() if rank != 3}
    said = verdict(tmp_path, dumps, [watchdog(rank) for rank in range(WORLD) if rank != 3])
    assert said.category is Category.UNKNOWN
    assert said.culprits.ranks in ([], [3])


def test_a_rank_whose_line_names_another_collective_is_not_put_inside(tmp_path):
    dumps = {rank: content for rank, content in all_dumps().items() if rank != 3}
    lines = [watchdog(rank) if rank != 3 else watchdog(3, op="BROADCAST") for rank in range(WORLD)]
    assert verdict(tmp_path, dumps, lines).category is not Category.NETWORK


def test_of_two_without_dumps_the_one_that_no_line_places_remains(tmp_path):
    dumps = {rank: content for rank, content in all_dumps().items() if rank not in {2, 3}}
    said = verdict(tmp_path, dumps, [watchdog(rank) for rank in range(WORLD) if rank != 3])
    assert said.category is Category.UNKNOWN
    assert 2 not in said.culprits.ranks
    assert "rank 3" in said.summary


def test_who_is_silent_in_the_log_and_waits_by_its_dump_is_no_culprit(tmp_path):
    said = verdict(tmp_path, all_dumps(), [watchdog(rank) for rank in range(WORLD) if rank != 3])
    assert (said.category, said.culprits.ranks) == (Category.NETWORK, [])


def test_who_is_silent_in_the_log_and_waits_by_its_dump_is_acquitted_where_another_dump_is_missing(tmp_path):
    dumps = {rank: content for rank, content in all_dumps().items() if rank != 6}
    said = verdict(tmp_path, dumps, [watchdog(rank) for rank in range(WORLD) if rank != 3])
    assert 3 not in said.culprits.ranks
