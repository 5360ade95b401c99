"""Groups of one name and one number that are several: torch 2.4 numbers them in each process by itself."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

LINES = """2026-05-07 09:00:00,000 INFO rank: {rank} world_size: {world} host: h{node}
[rank{rank}]:[E507 10:10:06.428465855 ProcessGroupNCCL.cpp:607] [Rank {inner}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=311, OpType={op}, NumelIn={numel}, NumelOut=1024, Timeout(ms)=600000) ran for 6000{rank:02d} milliseconds before timing out.
[rank{rank}]:[E507 10:10:06.299927801 ProcessGroupNCCL.cpp:1664] [PG 1 (DATA_PARALLEL_GROUP) Rank {inner}] Exception (either an error or timeout) detected by watchdog at work: 311, last enqueued NCCL work: 311, last completed NCCL work: 310.
"""


def told(folder, world, size, stride, silent, op="_REDUCE_SCATTER_BASE"):
    for rank in range(world):
        inner = rank // stride % size
        text = LINES.format(
            rank=rank, inner=inner, world=world, node=rank // 4, op=op, numel=1024 * (size if "SCATTER" in op else 1)
        )
        (folder / f"rank_{rank}.log").write_text(text.split("\n", 1)[0] + "\n" if rank in silent else text)
    return diagnose([folder]).verdict


@pytest.mark.parametrize(
    ("world", "size", "stride", "silent"),
    [
        (16, 4, 2, {6, 7}),  # both of a pair, in two groups
        (16, 4, 2, {8, 9, 10, 11}),  # a machine
        (16, 4, 4, {5}),
        (8, 2, 2, {1, 3}),  # a whole group
    ],
)
def test_all_silent_ranks_are_named_in_their_groups(tmp_path, world, size, stride, silent):
    assert set(told(tmp_path, world, size, stride, silent).culprits.ranks) == silent


def test_an_all_reduce_does_not_tell_the_size_and_the_numbers_do(tmp_path):
    assert set(told(tmp_path, 16, 4, 2, {6, 7}, op="ALLREDUCE").culprits.ranks) == {6, 7}


def test_one_group_of_distinct_numbers_is_left_as_it_is(tmp_path):
    verdict = told(tmp_path, 4, 4, 1, {2})
    assert verdict.culprits.ranks == [2]
    assert "group 1 (DATA_PARALLEL_GROUP)" in verdict.summary
