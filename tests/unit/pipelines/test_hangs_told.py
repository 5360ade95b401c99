"""Hangs as jobs tell them: lines are those that torch 2.13 and torch_npu wrote, and the truth is what was done to each job."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.ranks import rank_table

STEPS = "".join(f"2026-12-01 12:42:01,{n}00 [rank 0/4] INFO step {n} loss 3.000\n" for n in range(5))
BARRIER = """\
[rank0]:[E1201 12:42:02.023474902 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 2 failed to pass monitoredBarrier in 10000 ms
[rank0]:[E1201 12:42:02.023523513 ProcessGroupGloo.cpp:67] [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 10000 ms
"""
API = "30141 torch/distributed/elastic/multiprocessing/api.py"
TOLD = "".join(
    f"W1201 12:42:02.15{n}000 {API}:1028] Sending process 3016{n} closing signal SIGTERM\n" for n in (0, 1, 3)
)
ENDED = """\
[{place}]:
  time      : 2026-12-01_12:42:02
  host      : localhost
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 3016{rank})
  error_file: <N/A>
  traceback : Signal {by} ({name}) received by PID 3016{rank}
"""


def launcher(code: int, rank: int, others: int) -> str:
    text = f"E1201 12:42:02.264000 {API}:1002] failed (exitcode: {code}) local_rank: {rank} (pid: 3016{rank}) of binary: python\n"
    text += "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\njob.py FAILED\nFailures:\n"
    for place, other in enumerate((r for r in range(4) if r != rank), start=1):
        text += ENDED.format(place=place, rank=other, code=others, by=-others, name="SIGTERM")
    return (
        text
        + "Root Cause (first observed failure):\n"
        + ENDED.format(place=0, rank=rank, code=code, by=-code, name="SIGKILL")
    )


def verdict(folder, text):
    (folder / "job.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


def test_a_rank_that_was_killed_is_not_late_in_the_barrier_that_its_end_broke(tmp_path):
    said = verdict(tmp_path, STEPS + BARRIER + TOLD + launcher(-9, 2, -15))
    assert (said.category, said.culprits.ranks) == (Category.INFRASTRUCTURE, [2])
    table = rank_table([tmp_path], DiagnoseOptions())
    assert {r.rank: str(r.part) for r in table.ranks}[2] != "terminated"


def test_a_late_rank_that_is_killed_with_the_rest_is_late(tmp_path):
    forced = f"W1201 12:42:32.150000 {API}:1028] Sending process 30162 closing signal SIGTERM\n"
    said = verdict(tmp_path, STEPS + BARRIER + TOLD + forced + launcher(-9, 2, -15))
    assert (said.category, said.culprits.ranks) == (Category.UNKNOWN, [2])


def test_what_a_rank_said_in_the_second_of_the_report_is_what_it_said_last(tmp_path):
    done = "2026-12-01 12:42:02,799 [rank 2/4] INFO no more batches\n"
    said = verdict(
        tmp_path, STEPS + done + BARRIER + f"[rank0]: RuntimeError: {BARRIER.splitlines()[1].split('] ', 1)[1]}\n"
    )
    assert said.category is Category.COLLECTIVE_MISMATCH
    assert said.culprits.ranks == [2]


def test_who_alone_draws_a_bar_through_a_wait_of_gloo_is_at_work(tmp_path):
    bars = "".join(f"\rEvaluating:  {n}%|##  | {n}/100 [00:{n:02d}<00:40,  1.0s/it]" for n in range(11))
    waits = "".join(
        f"[rank{r}]: Traceback (most recent call last):\n"
        f'[rank{r}]:   File "/srv/job.py", line 28, in <module>\n'
        f"[rank{r}]:     dist.all_reduce(t)\n"
        f"[rank{r}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 10000ms for recv operation to complete\n"
        for r in (1, 2, 3)
    )
    said = verdict(tmp_path, STEPS + bars + waits)
    assert (said.category, said.strength, said.culprits.ranks) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE, [0])
    assert "for 10 s (" in said.summary


@pytest.mark.parametrize("code", ["", ", error code:507048", ", error code:107020"])
def test_a_stream_that_waits_for_a_collective_is_no_fault_of_a_core(tmp_path, code):
    text = "world_size: 8\n"
    for rank in (5, 7):
        text += f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/srv/job.py", line 2, in <module>\n'
        text += f"[rank{rank}]: RuntimeError: ACL stream synchronize failed{code}\n"
        text += "EI0002: 2026-03-14-09:33:20.100.200 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [6].\n"
    assert verdict(tmp_path, text).category is not Category.GPU_CUDA


STATE = (
    "[rank{rank}]:[E314 09:12:20.000000001 ProcessGroupNCCL.cpp:629] [Rank {inner}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    "[rank{rank}]:[E314 09:12:20.000000001 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID {group} Rank {inner}]  failure detected by watchdog "
    "at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {before}\n"
)


def stuck(rank, inner, group, seq, op="ALLREDUCE"):
    return STATE.format(rank=rank, inner=inner, group=group, seq=seq, op=op, before=seq - 1)


def test_all_inside_two_groups_are_not_told_to_be_in_one(tmp_path):
    waits = [stuck(0, 0, "1(tp)", 50), stuck(1, 1, "1(tp)", 50), stuck(2, 0, "2(dp)", 60), stuck(3, 1, "2(dp)", 60)]
    said = verdict(tmp_path, "world_size: 4\n" + "".join(waits))
    assert "All 4 ranks (4 of 4) were inside collectives of 2 groups" in said.summary
    assert said.culprits.ranks == []


def test_who_waits_to_receive_is_not_inside_a_collective_of_others(tmp_path):
    waits = [
        stuck(0, 0, "1(tp)", 50),
        stuck(1, 1, "1(tp)", 50),
        stuck(2, 0, "2(pp)", 60, "RECV"),
        stuck(3, 1, "2(pp)", 61, "RECV"),
    ]
    said = verdict(tmp_path, "world_size: 4\n" + "".join(waits))
    assert "All 4 ranks" not in said.summary


@pytest.mark.parametrize(
    ("group", "purpose"),
    [
        ("EXPERT", "expert group"),
        ("ep", "expert group"),
        ("mesh_tp", "tensor-parallel group"),
        ("EXPERT_DATA_PARALLEL_GROUP", None),
    ],
)
def test_the_words_of_a_group_tell_what_it_is_for(tmp_path, group, purpose):
    waits = "".join(stuck(r, r, f"7({group})", 50, "ALLTOALL_BASE") for r in range(4))
    summary = verdict(tmp_path, "world_size: 4\n" + waits).summary
    assert (purpose in summary) if purpose else ("an expert group" not in summary.lower())


def test_a_rank_that_may_be_the_speaker_of_a_line_without_a_rank_is_not_silent(tmp_path):
    works = "".join(
        f"[E ProcessGroupNCCL.cpp:474] [Rank {inner}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
        f"NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 6000{ran} milliseconds before timing out.\n"
        for inner, seq, ran in [(0, 50, 11), (1, 50, 12), (0, 90, 13), (1, 90, 14)]
    )
    (tmp_path / "job.log").write_text(
        "world_size: 8\n> initialized tensor model parallel with size 2\n" + works + launcher(-6, 0, -15),
        encoding="utf-8",
    )
    parts = {r.rank: r.part for r in rank_table([tmp_path], DiagnoseOptions()).ranks}
    assert parts[0] is None
    assert "silent" not in {str(p) for p in parts.values()}
