"""Witnesses that tell different ends of one job: an order that was survived, a good status, a platform's word, an end marker."""

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

CRASH = (
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/app/fit.py", line 31, in step',
    "[rank3]:     loss.backward()",
    "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "srun: error: cn4: task 3: Exited with exit code 1",
)
SLURM = "slurmstepd: error: *** STEP {job} ON cn4 CANCELLED AT 2026-11-12T{at} DUE TO {why} ***"
ORDERS = [
    SLURM.format(job="771.0", at="08:07:30", why="TIME LIMIT"),
    SLURM.format(job="771.0", at="08:07:30", why="PREEMPTION"),
    SLURM.format(job="771.0", at="08:07:30", why="NODE FAILURE"),
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    "=>> PBS: job killed: walltime 3605 exceeded limit 3600",
]


def steps(first, last, begin, every=20, total=None):
    """Stamped steps; `begin` is the second of the day of the first one."""
    lines = []
    for n, step in enumerate(range(first, last + 1, 10)):
        at = begin + every * n
        of = "" if total is None else f"/{total}"
        clock = f"{at // 3600:02}:{at % 3600 // 60:02}:{at % 60:02}"
        lines.append(f"2026-11-12 {clock},250 - fit - INFO - step {step}{of} loss 2.{step:04}")
    return lines


EIGHT = 8 * 3600


def told(folder, **files):
    for name, lines in files.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt").replace("_log", ".log").replace("_out", ".out")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return diagnose([folder])


@pytest.mark.parametrize("order", ORDERS)
def test_who_loaded_a_checkpoint_behind_an_order_to_stop_was_started_again(tmp_path, order):
    lines = [
        *steps(10, 220, EIGHT),
        order,
        "2026-11-12 08:16:40,000 - fit - INFO - Loading checkpoint from /ckpt/step-200",
        *steps(210, 300, EIGHT + 1010),
        *CRASH,
    ]
    found = told(tmp_path, job_out=lines)
    assert len(found.attempts) == 2
    assert found.verdict.category is Category.GPU_CUDA
    assert found.verdict.culprits.ranks == (3,) or found.verdict.culprits.ranks == [3]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_to_stop_that_is_the_last_of_a_job_is_its_end(tmp_path, order):
    verdict = told(tmp_path, job_out=[*steps(10, 220, EIGHT), order]).verdict
    assert verdict.category is Category.INFRASTRUCTURE
    assert verdict.strength is Strength.ESTABLISHED


def test_steps_in_the_grace_time_are_no_other_start(tmp_path):
    lines = [*steps(10, 220, EIGHT), ORDERS[1], *steps(230, 260, EIGHT + 460)]
    found = told(tmp_path, job_out=lines)
    assert len(found.attempts) == 1
    assert found.verdict.category is Category.INFRASTRUCTURE


def test_an_order_above_the_first_step_ended_something_else(tmp_path):
    order = SLURM.format(job="771.0", at="08:00:00", why="TIME LIMIT")
    found = told(tmp_path, job_out=[order, "pre-check was slow, going on", *steps(10, 400, EIGHT + 30), *CRASH])
    assert found.verdict.category is Category.GPU_CUDA


def test_an_order_above_a_start_that_made_few_steps_may_be_its_own(tmp_path):
    order = SLURM.format(job="771.0", at="08:00:00", why="PREEMPTION")
    found = told(tmp_path, job_out=[order, *steps(10, 50, EIGHT + 5)])
    assert found.verdict.category is Category.INFRASTRUCTURE


def test_an_order_after_which_steps_went_on_for_longer_than_any_grace_time_ended_nothing(tmp_path):
    order = SLURM.format(job="771.4", at="08:02:10", why="TIME LIMIT")
    found = told(tmp_path, job_out=[*steps(10, 70, EIGHT), order, *steps(80, 500, EIGHT + 140), *CRASH])
    assert found.verdict.category is Category.GPU_CUDA
    assert found.verdict.culprits.ranks == [3]


def test_a_lost_peer_after_a_long_grace_time_still_follows_from_the_order(tmp_path):
    order = SLURM.format(job="771.0", at="08:02:10", why="PREEMPTION")
    lost = "[rank3]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
    found = told(tmp_path, job_out=[*steps(10, 70, EIGHT), order, *steps(80, 500, EIGHT + 140), lost])
    assert found.verdict.category is Category.INFRASTRUCTURE


COMPLETED = (
    "JobID|JobName|State|ExitCode",
    "88121|sft|COMPLETED|0:0",
    "88121.batch|batch|COMPLETED|0:0",
)


def caught(*error):
    return [
        "2026-11-12 08:21:30,100 - fit - ERROR - training aborted by exception, shutting down cleanly",
        "Traceback (most recent call last):",
        '  File "/app/loop.py", line 201, in run',
        "    batch = self.step()",
        *error,
        "2026-11-12 08:21:33,100 - fit - INFO - cleanup done",
    ]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total capacity of 79.11 GiB", "gpu_cuda"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/a.pt'", "storage_io"),
        ("KeyError: 'caption'", "software"),
    ],
)  # fmt: skip
def test_a_good_status_does_not_outweigh_an_error_that_left_planned_steps_undone(tmp_path, error, category):
    lines = [*steps(10, 640, EIGHT, total=2000), *caught(error)]
    verdict = told(tmp_path, train_log=lines, sacct_txt=COMPLETED).verdict
    assert verdict.failed is True
    assert verdict.category == Category(category)
    assert verdict.strength is Strength.POSSIBLE


def test_a_good_status_outweighs_an_error_behind_the_last_planned_step(tmp_path):
    error = "BrokenPipeError: [Errno 32] Broken pipe"
    lines = [*steps(10, 640, EIGHT, total=640), *caught(error)]
    verdict = told(tmp_path, train_log=lines, sacct_txt=COMPLETED).verdict
    assert verdict.failed is False


DONE = [*steps(10, 100, EIGHT, total=100), "2026-11-12 08:03:25,000 - fit - INFO - Training complete"]
SHORT = steps(10, 70, EIGHT, total=100)


@pytest.mark.parametrize(
    "word",
    [
        ["NAME      READY   STATUS      RESTARTS   AGE", "fit-0   0/1     Completed   0          2h", "fit-1   0/1     Error       0          2h"],
        ["Warning  BackoffLimitExceeded  3m  job-controller  Job has reached the specified backoff limit"],
        ['{"type": "Failed", "status": "True", "reason": "PyTorchJobFailed", "message": "PyTorchJob fit is failed because 1 Worker replica(s) failed."}'],
        ["[launch] rank 0: exit 0", "[launch] rank 1: exit 2", "[launch] job finished with exit code 2"],
        ["Status message: Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):", "Job 'raysubmit_x' failed"],
        ["trainer-0 exited with code 0", "trainer-1 exited with code 137"],
        ["005 (7712.000.000) 2026-11-12 08:03:24 Job terminated.", "\t(0) Abnormal termination (signal 9)"],
        ["AzureMLCompute job failed", "\texit_codes: 1"],
    ],
)  # fmt: skip
def test_the_word_of_who_runs_the_job_that_it_failed_outweighs_one_end_marker(tmp_path, word):
    verdict = told(tmp_path, rank0_log=DONE, rank1_log=SHORT, platform_txt=word).verdict
    assert verdict.failed is True


@pytest.mark.parametrize(
    "word",
    [
        ["NAME      READY   STATUS      RESTARTS   AGE", "fit-0   0/1     Completed   0          2h", "fit-1   0/1     Completed   0          2h"],
        ["PyTorchJob fit is restarting because 1 Worker replica(s) failed."],
        ["[launch] rank 1: exit 0", "[launch] job finished with exit code 0"],
        ["Job 'raysubmit_x' succeeded"],
        ["trainer-0 exited with code 0", "trainer-1 exited with code 0"],
        ["\t(1) Normal termination (return value 0)"],
    ],
)  # fmt: skip
def test_a_good_word_of_who_runs_the_job_leaves_a_good_end(tmp_path, word):
    verdict = told(tmp_path, rank0_log=DONE, rank1_log=DONE, platform_txt=word).verdict
    assert verdict.failed is False


@pytest.mark.parametrize(
    "begun",
    [
        "2026-11-12 08:40:00,100 - fit - INFO - Saving checkpoint to /ckpt/step-100",
        " [2026-11-12 08:40:00.123456] saving checkpoint at iteration     100 to /ckpt/a in torch_dist format",
        "2026-11-12 08:40:00,100 - fit - INFO - Saving model checkpoint to /ckpt/checkpoint-100",
    ],
)
def test_a_log_that_breaks_off_in_the_save_behind_the_last_step_tells_no_end(tmp_path, begun):
    whole = told(tmp_path / "a", job_log=steps(10, 100, EIGHT, total=100)).verdict
    assert (whole.failed, whole.category) == (False, Category.NONE)
    broken = told(tmp_path / "b", job_log=[*steps(10, 100, EIGHT, total=100), begun]).verdict
    assert (broken.failed, broken.category) == (None, Category.UNKNOWN)
    untold = told(tmp_path / "c", job_log=[begun, *steps(10, 100, EIGHT, total=100), begun]).verdict
    assert (untold.failed, untold.category) == (False, Category.NONE)


KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=31.batch. Some of the step tasks have been OOM Killed."


@pytest.mark.parametrize(
    ("line", "category"),
    [
        (KILLED, "infrastructure"),
        ("Nov 12 08:02:21 cn4 kernel: Memory cgroup out of memory: Killed process 4411 (python) total-vm:9kB, anon-rss:9kB", "infrastructure"),
        ("cn4:4411:4411 [1] NCCL WARN Cuda failure 2 'out of memory'", "gpu_cuda"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("names", [("fold-a_log", "fold-b_log"), ("slurm-30_0_out", "slurm-30_1_out")])
def test_an_end_marker_is_no_word_of_a_log_that_stops_short_at_a_fault(tmp_path, line, category, names):
    verdict = told(tmp_path, **{names[0]: DONE, names[1]: [*SHORT, line]}).verdict
    assert verdict.failed is True
    assert verdict.category == Category(category)


def test_a_fault_that_a_log_outlived_leaves_the_good_end(tmp_path):
    verdict = told(tmp_path, a_log=DONE, b_log=[*SHORT, KILLED, *DONE[7:]]).verdict
    assert verdict.failed is False
