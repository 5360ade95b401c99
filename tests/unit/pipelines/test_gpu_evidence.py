"""What tables of GPU counters add to a verdict: a hint, a support, a doubt; never a claim of their own."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

CSV = "timestamp, index, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], ecc.errors.uncorrected.volatile.total\n"
INIT = "n1:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x55d0c8e4f2a{rank} rank {rank} nranks 4 cudaDev {rank} nvmlDev {nvml} busId {bus:x}000 commId 0x2114bc51af4fb978 - Init START\n"
WAITED = "[rank{rank}]:[E304 10:34:12.100000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=1800000) ran for 1800063 milliseconds before timing out.\n"
STEPS = "".join(f"[rank0] 2026-03-04 09:5{n}:00,100 INFO step {n}/900 loss 2.{n}\n" for n in range(5))


def table(still, *, errors=0, gpus=4):
    rows = [
        f"2026/03/04 10:0{s}:00.123, {g}, NVIDIA H100, 00000000:{0x1B + g:02X}:00.0, {0 if g == still and s > 2 else 100} %, 71234 MiB, {errors if s > 2 and g == still else 0}\n"
        for s in range(8)
        for g in range(gpus)
    ]
    return CSV + "".join(rows)


def verdict_of(tmp_path, waiters, csv, *, bus=lambda r: 0x1B + r, nvml=lambda r: r):
    log = "".join(INIT.format(pid=100 + r, rank=r, nvml=nvml(r), bus=bus(r)) for r in range(4)) + STEPS
    (tmp_path / "train.log").write_text(log + "".join(WAITED.format(rank=r) for r in waiters), encoding="utf-8")
    (tmp_path / "gpus.csv").write_text(csv, encoding="utf-8")
    return diagnose([tmp_path])


def test_the_rank_that_stayed_away_is_confirmed_by_its_still_gpu_joined_by_address(tmp_path):
    found = verdict_of(tmp_path, (0, 1, 3), table(1), bus=lambda r: 0x1B + {0: 0, 1: 2, 2: 1, 3: 3}[r])
    assert list(found.verdict.culprits.ranks) == [2]
    assert "No kernel ran on GPU 1 of n1 (rank 2)" in found.verdict.summary
    assert {row.file: str(row.state) for row in found.coverage}["gpus.csv"] == "read"


def test_a_still_gpu_of_another_rank_is_a_doubt(tmp_path):
    found = verdict_of(tmp_path, (0, 1, 3), table(3))
    assert list(found.verdict.culprits.ranks) == [2]
    assert found.verdict.culprits.strength is Strength.POSSIBLE
    assert "But: No kernel ran on GPU 3" in found.verdict.summary


@pytest.mark.parametrize("still", [None, 1])
def test_where_all_are_inside_a_still_gpu_is_at_most_possible(tmp_path, still):
    found = verdict_of(tmp_path, (0, 1, 2, 3), table(still)).verdict
    assert list(found.culprits.ranks) == ([] if still is None else [still])
    assert found.culprits.strength.level <= Strength.POSSIBLE.level
    assert found.strength.level <= Strength.POSSIBLE.level


def test_counters_alone_carry_no_more_than_a_possibility(tmp_path):
    (tmp_path / "train.log").write_text(STEPS + "srun: error: n1: task 0: Exited with exit code 1\n", encoding="utf-8")
    (tmp_path / "gpus.csv").write_text(table(2, errors=7), encoding="utf-8")
    found = diagnose([tmp_path]).verdict
    assert (found.category, found.strength) == (Category.GPU_CUDA, Strength.POSSIBLE)
    assert "GPU 2" in found.summary
    assert found.trigger.text.startswith("2026/03/04 10:03:00.123, 2,")


def test_a_job_that_came_through_is_not_accused_by_its_counters(tmp_path):
    (tmp_path / "train.log").write_text(
        STEPS + "Training completed. Do not forget to share your model\n", encoding="utf-8"
    )
    (tmp_path / "gpus.csv").write_text(table(2, errors=7), encoding="utf-8")
    assert diagnose([tmp_path]).verdict.category is Category.NONE
