"""What the scheduler's record says of the job's end counts as if it had been handed in; other jobs' records count nothing."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

MEGATRON = (
    "".join(
        f"[2026-03-04 10:00:{s:02d}] iteration {i:8d}/     500 | consumed samples: {i * 64:12d} | lm loss: 2.{90 - i}E+00 |\n"
        for i, s in enumerate(range(0, 48, 4), 1)
    )
    + "[after training is done] datetime: 2026-03-04 10:01:40\n"
)
HUGGING = (
    "".join(f"{{'loss': 2.{9 - i}, 'grad_norm': 0.4, 'learning_rate': 2e-05, 'epoch': 0.{i}}}\n" for i in range(1, 6))
    + "{'train_runtime': 812.4, 'train_samples_per_second': 9.8, 'train_loss': 2.1, 'epoch': 1.0}\n"
)
LIGHTNING = (
    "".join(f"Epoch {i}: 100%|##########| 40/40 [00:10<00:00, 4.0it/s, loss=0.{9 - i}]\n" for i in range(4))
    + "`Trainer.fit` stopped: `max_epochs=4` reached.\n"
)
STOPS = MEGATRON.rpartition("[after")[0]
HEAD = (
    "JobID           JobName      State ExitCode    Elapsed\n------------ ---------- ---------- -------- ----------\n"
)


def verdict_of(folder, files, **options):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline", **options)).verdict


SCONTROL = "JobId={job} JobName=pre\n   UserId=u(1) GroupId=g(1)\n   JobState={state} Reason={reason} Dependency=(null)\n   Requeue=1 Restarts=0 ExitCode={code}\n"
SEFF = "Job ID: 481516\nCluster: main\nState: FAILED (exit code 1)\nNodes: 4\n"
MAIL = "Subject: Slurm Job_id=481516 Name=pre Failed, Run time 02:11:00, FAILED, ExitCode 1\n"
PBS = "Job Id: 480.head\n    Job_Name = pre\n    job_state = F\n    Exit_status = 1\n"
GRID = "jobname      pre\nfailed       0\nexit_status  2\n"
CONDOR = "005 (480.000.000) 2026-03-04 11:00:00 Job terminated.\n\t(1) Normal termination (return value 1)\n"
LSF = "\n------------------------------------------------------------\nSender: LSF System <lsf@n1>\nExited with exit code 1.\n\nResource usage summary:\n"
FLUX = "flux-job: task(s) exited with exit code 3\n"


@pytest.mark.parametrize(
    "files",
    [
        {"sacct.txt": HEAD + "481516              pre     FAILED      1:0   02:11:00\n", "run.log": MEGATRON},
        {"sacct.txt": "JobID|State|ExitCode\n481516|FAILED|1:0\n481516.batch|FAILED|1:0\n", "run.log": HUGGING},
        {"sacct.csv": "JobID,ExitCode,State\n481516,2:0,FAILED\n", "run.log": LIGHTNING},
        {"job.txt": SCONTROL.format(job=7, state="FAILED", reason="NonZeroExitCode", code="1:0"), "run.log": LIGHTNING},
        {"seff.txt": SEFF, "run.log": HUGGING},
        {"mail.txt": MAIL, "run.log": MEGATRON},
        {"qstat.txt": PBS, "run.log": MEGATRON},
        {"qacct.txt": GRID, "run.log": LIGHTNING},
        {"condor.log": CONDOR, "run.log": HUGGING},
        {"run.log": MEGATRON + LSF},
        {"run.log": HUGGING + FLUX},
    ],
    ids=lambda f: next(iter(f)),
)
def test_a_record_of_a_failure_beside_a_log_that_says_done_is_a_failure_of_unknown_reason(tmp_path, files):
    found = verdict_of(tmp_path, files)
    assert (found.failed, found.category) == (True, Category.UNKNOWN)
    assert [*found.culprits.ranks, *found.culprits.hosts, *found.first_failed.ranks] == []
    for name in files:
        if name != "run.log":
            (tmp_path / name).unlink()
    (tmp_path / "run.log").write_text(files["run.log"].replace(LSF, "").replace(FLUX, ""))
    assert verdict_of(tmp_path, {}).failed is False, "the log alone says that the run ended well"


@pytest.mark.parametrize("state", ["TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"])
@pytest.mark.parametrize("text", [MEGATRON, HUGGING])
def test_a_record_that_names_a_reason_beside_a_log_that_says_done_is_only_a_possibility(tmp_path, state, text):
    found = verdict_of(tmp_path, {"sacct.txt": f"{HEAD}481516   pre   {state}   0:0   02:11:00\n", "run.log": text})
    assert (found.failed, found.category, found.strength) == (True, Category.INFRASTRUCTURE, Strength.POSSIBLE)


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        ("481516   pre   FAILED   1:0   02:11:00\n", True),
        ("481516   pre   FAILED   0:9   02:11:00\n", True),
        ("481516   pre   CANCELLED+   0:0   02:11:00\n", True),
        ("481516   pre   RUNNING   0:0   02:11:00\n", None),
        ("481516   pre   COMPLETED   0:0   02:11:00\n", False),
    ],
)
def test_a_row_decides_how_a_log_ended_that_merely_stops(tmp_path, row, failed):
    found = verdict_of(tmp_path, {"sacct.txt": HEAD + row, "run.log": STOPS})
    assert (found.failed, found.category) == (failed, Category.NONE if failed is False else Category.UNKNOWN)


OTHER = "481999   eval   FAILED   1:0   00:11:00\n"
MINE = "481516   pre   COMPLETED   0:0   02:11:00\n"


@pytest.mark.parametrize(
    "files",
    [
        {"sacct.txt": HEAD + OTHER, "slurm-481516.out": MEGATRON},
        {"sacct.txt": HEAD + OTHER, "run.log": "SLURM_JOB_ID=481516\n" + MEGATRON},
        {"sacct.txt": HEAD + MINE + OTHER, "slurm-481516.out": MEGATRON},
        {"sacct.txt": HEAD + MINE + OTHER, "pre_481516.log": HUGGING},
        {"sacct.txt": HEAD + MINE + OTHER, "run.log": LIGHTNING},
        {"sacct.txt": HEAD + "481516_1 p FAILED 1:0 1\n481516_2 p COMPLETED 0:0 1\n", "slurm-481516_2.out": HUGGING},
        {
            "jobs.txt": SCONTROL.format(job=481999, state="FAILED", reason="NonZeroExitCode", code="1:0")
            + "\n"
            + SCONTROL.format(job=481516, state="COMPLETED", reason="None", code="0:0"),
            "slurm-481516.out": MEGATRON,
        },
        {
            "sacct.txt": HEAD + "481516   pre   FAILED   1:0   00:11:00\n481516   pre   COMPLETED   0:0   02:11:00\n",
            "slurm-481516.out": MEGATRON,
        },
    ],
)
def test_rows_of_other_jobs_tasks_and_starts_say_nothing_of_this_one(tmp_path, files):
    assert verdict_of(tmp_path, files).failed is False


def test_the_row_of_the_failed_task_of_an_array_counts(tmp_path):
    rows = HEAD + "481516_1 p FAILED 1:0 1\n481516_2 p COMPLETED 0:0 1\n"
    assert verdict_of(tmp_path, {"sacct.txt": rows, "slurm-481516_1.out": HUGGING}).failed is True


def test_the_word_that_is_handed_in_counts_more_than_the_record(tmp_path):
    files = {"sacct.txt": HEAD + "481516   pre   FAILED   1:0   02:11:00\n", "run.log": MEGATRON}
    assert verdict_of(tmp_path, files, job_state="COMPLETED").failed is False


def test_a_cause_in_the_log_counts_more_than_the_state(tmp_path):
    raised = '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/w/t.py", line 9, in <module>\n[rank3]:     main()\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.02 GiB is free.\n'
    row = HEAD + "481516   pre   FAILED   1:0   02:11:00\n"
    found = verdict_of(tmp_path, {"sacct.txt": row, "run.log": STOPS + raised})
    assert (found.category, found.strength, list(found.culprits.ranks)) == (
        Category.GPU_CUDA,
        Strength.ESTABLISHED,
        [3],
    )


@pytest.mark.parametrize(
    "line",
    [
        "5 tests FAILED in 0:12",
        "12 shards COMPLETED at 10:20",
        "3 | upload | FAILED | retry 2 at 10:02",
        "481516 samples FAILED the filter, 9:1 kept",
        "1024 rows TIMEOUT after 2:30",
    ],
)
def test_a_line_that_counts_something_is_no_row_of_accounting(tmp_path, line):
    assert verdict_of(tmp_path, {"run.log": STOPS + line + "\n"}).failed is None
    assert verdict_of(tmp_path, {"run.log": line + "\n" + MEGATRON}).failed is False


def test_a_row_without_the_head_of_its_table_counts(tmp_path):
    assert verdict_of(tmp_path, {"row.txt": "481516|pre|FAILED|1:0\n", "run.log": MEGATRON}).failed is True
    assert verdict_of(tmp_path, {"run.log": MEGATRON + "481516    pre     FAILED      1:0\n"}).failed is True


@pytest.mark.parametrize(
    ("steps", "failed"),
    [
        ("481516.0   python   FAILED   1:0   02:10:00\n", None),
        ("481516.0   python   FAILED   1:0   02:10:00\n481516.1   python   COMPLETED   0:0   00:10:00\n", False),
        ("481516.0   python   COMPLETED   0:0   02:10:00\n", False),
        ("481516.0   python   COMPLETED   0:0   1\n481516.1   python   OUT_OF_ME+   0:125   1\n", None),
    ],
)
def test_a_scripts_good_end_says_nothing_where_its_last_step_failed(tmp_path, steps, failed):
    rows = (
        f"{HEAD}481516   pre   COMPLETED   0:0   02:11:00\n481516.batch   batch   COMPLETED   0:0   02:11:00\n{steps}"
    )
    assert verdict_of(tmp_path, {"sacct.txt": rows, "run.log": STOPS}).failed is failed
    assert verdict_of(tmp_path, {"sacct.txt": rows, "run.log": MEGATRON}).failed is False
