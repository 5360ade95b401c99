"""Elements of an array, neighbour jobs and runs of other days in one folder: each has an end of its own."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions


def told(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline"))


def steps(day, upto, of=200, hour=8):
    return "".join(
        f" [{day} {hour:02d}:{i:02d}:00.100000] iteration {i * 10:8d}/{of:8d} | consumed samples: {i * 2560:12d} | "
        f"elapsed time per iteration (ms): 6000.0 | lm loss: 2.{90 - i}E+00 |\n"
        for i in range(1, upto // 10 + 1)
    )


MEGATRON_END = "[after training is done] datetime: 2026-11-12 09:09:50\n"
PLAIN_END = "epoch 3/3 done\nTraining complete\n"
HUGGING_END = "{'train_runtime': 812.4, 'train_samples_per_second': 9.8, 'train_loss': 2.1, 'epoch': 1.0}\n"
OOM_KILL = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=731.batch. Some of the step tasks have been OOM Killed.\n"
)
BARS = "JobID|JobName|State|ExitCode|NodeList\n"
COLUMNS = "JobID           JobName      State ExitCode\n------------ ---------- ---------- --------\n"


@pytest.mark.parametrize(
    ("files", "word", "name"),
    [
        (
            {
                "slurm-900_1.out": steps("2026-11-12", 200) + MEGATRON_END,
                "slurm-900_2.out": steps("2026-11-12", 150),
                "sacct.txt": BARS
                + "900_1|pre|COMPLETED|0:0|n1\n900_1.batch|batch|COMPLETED|0:0|n1\n"
                + "900_2|pre|TIMEOUT|0:0|n2\n900_2.batch|batch|CANCELLED|0:15|n2\n",
            },
            "time limit",
            "900_2",
        ),
        (
            {
                "pre-4711_3.log": "epoch 1/3 loss 1\n",
                "pre-4711_7.log": HUGGING_END,
                "sacct.txt": COLUMNS
                + "4711_3              pre OUT_OF_ME+    0:125\n4711_7              pre  COMPLETED      0:0\n",
            },
            "memory",
            "4711_3",
        ),
        (
            {
                "train_0.out": PLAIN_END,
                "train_1.out": "epoch 1/3 loss 1\n",
                "sacct.txt": BARS + "20_0|pre|COMPLETED|0:0|n1\n20_1|pre|NODE_FAIL|0:0|n2\n",
            },
            "node failed",
            "20_1",
        ),
        (
            {
                "slurm-730_0.out": PLAIN_END,
                "slurm-730_1.out": "epoch 1/3 loss 1\n" + OOM_KILL,
                "sacct.txt": BARS + "730_0|pre|COMPLETED|0:0|n1\n730_1|pre|OUT_OF_MEMORY|0:125|n2\n",
            },
            "memory",
            "730_1",
        ),
        (
            {
                "slurm-311.out": "epoch 1/3 loss 1\n",
                "slurm-312.out": PLAIN_END,
                "sacct.txt": BARS + "311|pre|TIMEOUT|0:0|n1\n312|pre|COMPLETED|0:0|n2\n",
            },
            "time limit",
            "311",
        ),
    ],
)
def test_the_one_that_failed_is_told_and_the_others_are_said_to_have_ended_well(tmp_path, files, word, name):
    found = told(tmp_path, files)
    verdict = found.verdict
    assert (verdict.failed, verdict.category) == (True, Category.INFRASTRUCTURE)
    assert word in verdict.summary
    assert name in verdict.summary
    assert "ended well" in verdict.summary


def test_of_an_array_that_completed_no_element_failed(tmp_path):
    files = {
        "slurm-900_1.out": PLAIN_END,
        "slurm-900_2.out": PLAIN_END,
        "sacct.txt": BARS + "900_1|pre|COMPLETED|0:0|n1\n900_2|pre|COMPLETED|0:0|n2\n",
    }
    assert told(tmp_path, files).verdict.failed is False


def test_an_element_whose_end_nobody_tells_is_not_said_to_have_ended_well(tmp_path):
    files = {
        "slurm-900_1.out": PLAIN_END,
        "slurm-900_2.out": "epoch 1/3 loss 1\n",
        "sacct.txt": BARS + "900_1|pre|COMPLETED|0:0|n1\n900_2|pre|RUNNING|0:0|n2\n",
    }
    verdict = told(tmp_path, files).verdict
    assert (verdict.failed, verdict.category) == (None, Category.UNKNOWN)


def test_files_of_the_tasks_of_one_job_are_no_elements(tmp_path):
    files = {
        "slurm-900_0.out": PLAIN_END,
        "slurm-900_1.out": "rank 1 up\n",
        "sacct.txt": BARS + "900|pre|COMPLETED|0:0|n[1-2]\n900.0|pre|COMPLETED|0:0|n[1-2]\n",
    }
    found = told(tmp_path, files)
    assert len(found.attempts) == 1
    assert (found.verdict.failed, found.verdict.category) == (False, Category.NONE)


def test_a_job_that_was_run_again_afterwards_came_through(tmp_path):
    files = {
        "slurm-66120.out": steps("2026-11-12", 150),
        "slurm-66388.out": steps("2026-11-14", 200) + MEGATRON_END.replace("11-12", "11-14"),
        "sacct.txt": BARS + "66120|pre|TIMEOUT|0:0|n1\n66388|pre|COMPLETED|0:0|n2\n",
    }
    found = told(tmp_path, files)
    assert len(found.attempts) == 2
    assert found.verdict.failed is False


OOM = (
    'Traceback (most recent call last):\n  File "/a/train.py", line 3, in <module>\n    step()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"
)
MISSING = (
    'Traceback (most recent call last):\n  File "/a/train.py", line 3, in <module>\n    load()\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '/d/val.jsonl'\n"
)
LOSS = "".join(f"2026-11-12 08:00:{i:02d},000 INFO step {2 * i}/100 loss 1.{99 - i}\n" for i in range(1, 51))
FINISHED = "2026-11-12 08:02:00,000 INFO Training finished, 100/100 steps\n"


@pytest.mark.parametrize(
    ("old", "before"),
    [
        ("run-20261110.log", "2026-11-10 08:00:00,000 INFO step 10/100\n" + OOM),
        ("train.log.old", "2026-11-09 17:00:00,000 INFO loading\n2026-11-09 17:00:01,000 ERROR failed\n" + MISSING),
        ("run-1.log", LOSS.replace("11-12", "11-08")[: len(LOSS) // 2] + OOM),
    ],
)
def test_a_failure_of_days_before_is_an_earlier_run(tmp_path, old, before):
    found = told(tmp_path, {old: before, "run-20261112.log": LOSS + FINISHED})
    assert found.verdict.failed is False
    assert [a.number for a in found.attempts] == [1, 2]
    assert not any("not given" in c.reason or "neighbours" in c.reason for c in found.coverage)


def test_a_failure_of_the_same_day_is_no_earlier_run(tmp_path):
    before = "2026-11-12 08:01:30,000 INFO step 96/100\n" + OOM
    found = told(tmp_path, {"run-b.log": before, "run-a.log": LOSS + FINISHED})
    assert found.verdict.failed is not False or found.verdict.strength is not Strength.ESTABLISHED


def test_a_rank_that_was_silent_for_days_is_no_earlier_run(tmp_path):
    rank = "2026-11-09 08:00:00,000 INFO rank 3 up\n" + OOM
    found = told(tmp_path, {"rank3.log": rank, "rank0.log": LOSS})
    assert found.verdict.failed is True


@pytest.mark.parametrize(
    "names",
    [
        ("attempt-1.log", "attempt-2.log"),
        ("train.restart0.out", "train.restart1.out"),
        ("Attempt_9.txt", "Attempt_10.txt"),
    ],
)
def test_files_of_numbered_attempts_are_in_order(tmp_path, names):
    preempted = (
        "[rank0]: up\nslurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-12T07:20:30 DUE TO PREEMPTION ***\n"
    )
    died = LOSS + "[rank5]: " + OOM.replace("\n", "\n[rank5]: ").removesuffix("[rank5]: ")
    found = told(tmp_path, dict(zip(names, (preempted, died), strict=True)))
    assert found.verdict.category is Category.GPU_CUDA
    assert found.verdict.culprits.ranks == [5]
    assert [a.number for a in found.attempts] == [1, 2]


def test_a_name_with_one_attempt_alone_orders_nothing(tmp_path):
    found = told(tmp_path, {"attempt-2.log": LOSS + FINISHED, "gpu.log": "2026-11-12 08:00:00,000 INFO start\n"})
    assert len(found.attempts) == 1
