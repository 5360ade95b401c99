"""A hang of which nobody is known to have stayed away: its earliest line of state is shown, where it is evidence of anything."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

STEPS = "".join(f"[rank0]: 2026-03-04 10:00:0{n} INFO step {n}/900 loss 2.{n}\n" for n in range(6))


def timed_out(rank, second):
    return (
        f"[rank{rank}]:[E304 10:31:0{second}.100200300 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for "
        f"180000{rank} milliseconds before timing out.\n"
    )


def verdict_of(folder, text):
    (folder / "run.log").write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize(("seconds", "line"), [((4, 5), 7), ((5, 4), 8)])
def test_the_earliest_line_of_those_that_waited(tmp_path, seconds, line):
    verdict = verdict_of(tmp_path, STEPS + timed_out(0, seconds[0]) + timed_out(1, seconds[1]))
    assert verdict.category is Category.UNKNOWN
    assert not verdict.culprits.ranks
    assert verdict.trigger is not None
    assert verdict.trigger.line == line


def test_where_all_are_inside_a_line_of_one_that_waited_is_no_evidence(tmp_path):
    world = "".join(
        f"[rank{n}]: [Gloo] Rank {n} is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n"
        for n in (0, 1)
    )
    verdict = verdict_of(
        tmp_path,
        "torchrun --nnodes=1 --nproc_per_node=2 train.py\n" + world + STEPS + timed_out(0, 4) + timed_out(1, 5),
    )
    assert verdict.category is Category.NETWORK
    assert verdict.trigger is None
