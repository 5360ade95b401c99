"""Waits apart in time: the one that killed the job is told apart from those that ended by themselves."""

from __future__ import annotations

import random

import pytest
from hang_simulation import parse, stalled

from firstfault.analysis.questions import hang
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.parts import Part
from firstfault.model.words import Category

FIRST = "[rank{r}]:[E415 08:00:00.000000001 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=500, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds before timing out."
STATE = "[rank{r}]:[E415 08:00:00.000000001 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog at work sequence id: 500 PG status: last enqueued work: 500, last completed work: 499"


def test_a_wait_that_ended_hours_before_is_no_part_of_the_hang():
    """Rank 3 held up number 500, at 8; all went on. At half past ten rank 9 holds up number 7727, and the job dies."""
    files = stalled(16, "2.6", {9}).lines(random.Random(1))
    for rank in range(16):
        if rank != 3:
            files[rank // 8] = [FIRST.format(r=rank), STATE.format(r=rank), *files[rank // 8]]
    scene = parse(files)
    assert scene.hang is not None
    assert len(scene.hang.recovered) >= 15
    assert scene.hang.op == "ALLREDUCE"
    answer = hang.ask(scene)
    assert answer is not None
    assert answer.culprits.ranks == (9,)
    assert answer.category is Category.DATA_LOADING_STALL
    assert "7727" in answer.summary
    assert 3 in hang_state(scene).waiting


def test_an_earlier_wait_of_ranks_that_never_spoke_again_is_kept():
    """Those of the first wait began no other: their processes were gone, so the first wait is the first fault."""
    files = {0: [FIRST.format(r=r) for r in (0, 1)] + [STATE.format(r=r) for r in (0, 1)]}
    later = FIRST.replace("08:00", "10:00").replace("SeqNum=500", "SeqNum=501")
    files[1] = [later.format(r=r) for r in (8, 9)]
    scene = parse(files)
    assert scene.hang is not None
    assert not scene.hang.recovered
    assert scene.hang.began == pytest.approx(scene.hang.detected - 600.011)


def test_waits_that_meet_in_time_are_one():
    files = stalled(16, "2.6", {9}).lines(random.Random(1))
    scene = parse(files)
    assert scene.hang is not None
    assert scene.hang.recovered == ()


def test_counters_that_went_on_take_an_earlier_work_back():
    """Without a time on the lines (2.3): number 500 ran out and ended after all, number 900 did not."""
    work = "[rank{r}]:[E ProcessGroupNCCL.cpp:563] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={s}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds before timing out."
    state = "[rank{r}]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank {r}] Timeout at NCCL work: {s}, last enqueued NCCL work: {s}, last completed NCCL work: {c}."
    lines = [x for s in (500, 900) for r in (0, 1) for x in (work.format(r=r, s=s), state.format(r=r, s=s, c=s - 1))]
    cells = hang_state(parse({0: lines})).groups[0].cells
    assert {c.at for c in cells.values()} == {900}


STOPPED = "W0415 09:40:00.000000 281322 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 40006 closing signal SIGTERM"
KILLED = "E0415 09:40:00.000000 281322 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 5 (pid: 40005) of binary: /opt/venv/bin/python3"


def test_a_rank_reported_dead_before_the_time_outs_died_and_one_told_to_stop_was_ended():
    job = stalled(16, "2.6", {5, 6}, quiet={5, 6}, extra=[(5, KILLED), (6, STOPPED)])
    parts = hang_state(parse(job.lines(random.Random(1)))).parts
    assert parts[5] is Part.DIED
    assert parts[6] is Part.TERMINATED
    assert {parts[r] for r in range(16) if r not in {5, 6}} == {Part.INITIATOR}
