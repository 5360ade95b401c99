"""A barrier that a program lets fail where its data is uneven is no hang; one that nobody took for that is."""

from __future__ import annotations

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

BARRIER = [
    "[E ProcessGroupGloo.cpp:138] Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
    "[E ProcessGroupGloo.cpp:138] [Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms",
]
JOIN = [
    "2026-05-04 01:23:29,533 INFO Detected uneven workload distribution: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms",
    "Break current worker to manually join all workers, world_size 4, current rank 0, current local_rank 0",
]
STEP = "2026-05-04 01:22:58,110 DEBUG TRAIN Batch 0/1700 loss 40.900000 lr 0.00040000 rank 0"


def told(folder, lines):
    (folder / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([folder]).verdict


def test_a_log_that_ends_at_a_join_by_hand_blames_nobody(tmp_path):
    verdict = told(tmp_path, [STEP, *BARRIER, *JOIN])
    assert verdict.culprits.ranks == []
    assert verdict.category is Category.UNKNOWN


def test_the_same_barrier_without_a_join_names_the_rank_that_did_not_come(tmp_path):
    assert told(tmp_path, [STEP, *BARRIER]).culprits.ranks == [2]


def test_a_barrier_long_after_a_join_counts(tmp_path):
    steps = [STEP.replace("01:22:58", f"02:{m:02d}:00") for m in range(60)] * 2
    assert told(tmp_path, [STEP, *BARRIER, *JOIN, *steps, *BARRIER]).culprits.ranks == [2]
