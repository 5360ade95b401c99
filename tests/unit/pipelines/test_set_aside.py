"""Lines that are no origin by their place or their time: what came after an exit, after the own order to stop, of another run."""

from __future__ import annotations

import json

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

WORLD = "2026-05-07 09:00:00,000 INFO rank: {r} world_size: 4 host: gx1\n"
WAIT = (
    "[rank{r}]:[E507 10:10:05.07528{r} ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    "[rank{r}]:[E507 10:10:05.39522{r} ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by "
    "watchdog at work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8\n"
)
FRAMES = 'Traceback (most recent call last):\n  File "/w/train.py", line 61, in main\n    x()\n'
DONE = "2026-05-07 10:20:00,000 INFO train: Training completed\n"
STEPS = "".join(f"2026-05-07 09:{m:02d}:00,000 INFO train: step {m} loss 2.5\n" for m in range(1, 59))


def said(folder, files, **options):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return diagnose([folder], DiagnoseOptions(engine="inline", **options)).verdict


def raised(kind, message, rank):
    return "".join(f"[rank{rank}]: {line}\n" for line in f"{FRAMES}{kind}: {message}".splitlines())


def waiting(*absent):
    return {f"rank{r}.log": WORLD.format(r=r) + ("" if r in absent else WAIT.format(r=r)) for r in range(4)}


LISTING = "LAST SEEN   TYPE      REASON         OBJECT       MESSAGE\n"
AWAY = "{age:12}Warning   NodeNotReady   node/gx1     Node is not ready\n"
BACK = "{age:12}Normal    NodeReady      node/{node}     Node {node} status is now: NodeReady\n"


@pytest.mark.parametrize(
    ("away", "back", "node", "over"),
    [
        ("4h", "3h58m", "gx1", True),
        ("35m", "34m", "gx1", True),
        ("4h", "3h40m", "gx1", False),
        ("9h", "9h", "gx1", False),
        ("4h", "4h2m", "gx1", False),
        ("4h", "3h58m", "gx2", False),
    ],
)
def test_a_node_that_was_back_before_its_pods_were_taken_is_no_reason_for_a_wait(tmp_path, away, back, node, over):
    events = LISTING + AWAY.format(age=away) + BACK.format(age=back, node=node)
    found = said(tmp_path, waiting(2) | {"events.txt": events})
    assert (found.category is Category.INFRASTRUCTURE) is not over
    assert (found.culprits.ranks == [2]) is over


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.batch. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.extern. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: *** STEP 77.0 ON gx1 CANCELLED AT 2026-05-07T12:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    ],
)
def test_what_stands_below_the_exit_of_a_task_did_not_end_it(tmp_path, line):
    text = raised("AssertionError", "micro batch 3 does not divide 8", 2)
    text += f"srun: error: gx1: task 2: Exited with exit code 1\n{line}\n"
    found = said(tmp_path, {"slurm-77.out": text})
    assert (found.category, found.first_failed.ranks) == (Category.SOFTWARE, [2])


def test_an_exit_of_another_task_says_nothing_of_it(tmp_path):
    text = raised("AssertionError", "micro batch 3 does not divide 8", 2)
    text += "srun: error: gx1: task 3: Exited with exit code 1\n"
    text += (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"
    )
    assert said(tmp_path, {"slurm-77.out": text}).strength is Strength.POSSIBLE


PREEMPTED = "slurmstepd: error: *** JOB 77 ON gx1 CANCELLED AT 2026-05-07T10:00:00 DUE TO PREEMPTION ***\n"
FULL = f"{FRAMES}OSError: [Errno 28] No space left on device: '/ckpt/last'\n"
TOLD = "2026-05-07 10:00:00,100 WARNING train: SIGTERM received, saving\n"
FAILED = "2026-05-07 10:00:20,000 ERROR train: save failed\n"


def test_what_a_process_meets_after_it_was_told_to_stop_is_no_origin(tmp_path):
    log = WORLD.format(r=0) + STEPS + TOLD + FAILED + FULL
    found = said(tmp_path, {"rank0.log": log, "slurm-77.err": PREEMPTED})
    assert found.category is Category.INFRASTRUCTURE


def test_an_error_that_stands_above_the_order_is_not_excused_by_it(tmp_path):
    log = WORLD.format(r=0) + STEPS + FAILED.replace("10:00:20", "09:59:10") + FULL + TOLD
    found = said(tmp_path, {"rank0.log": log, "slurm-77.err": PREEMPTED})
    assert found.strength is Strength.POSSIBLE
    assert "space" in found.summary


def test_an_order_that_nobody_outside_gave_excuses_nothing(tmp_path):
    assert (
        said(tmp_path, {"rank0.log": WORLD.format(r=0) + STEPS + TOLD + FAILED + FULL}).category is Category.STORAGE_IO
    )


THREAD = f"Exception in thread Thread-7 (flush):\n{FRAMES}ValueError: I/O operation on closed file.\n"
UPLOAD = (
    "2026-05-07 09:20:30,111 ERROR uploader: upload failed, will try again later\n"
    f'{FRAMES}botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3.example/x"\n'
    "2026-05-07 09:21:31,111 INFO uploader: upload ok\n"
)


@pytest.mark.parametrize("error", [THREAD, UPLOAD], ids=["thread", "caught"])
def test_an_error_that_its_process_outlived_does_not_take_the_end_from_the_run(tmp_path, error):
    late = "2026-05-07 10:20:01,000 INFO bye\n"
    files = {"rank0.log": WORLD.format(r=0) + STEPS + DONE, "rank1.log": WORLD.format(r=1) + error + late}
    assert said(tmp_path, files).category is Category.NONE


def test_an_error_that_is_the_last_word_of_a_rank_does(tmp_path):
    error = f"2026-05-07 10:19:00,000 ERROR main: giving up\n{FRAMES}ValueError: I/O operation on closed file.\n"
    files = {"rank0.log": WORLD.format(r=0) + STEPS + DONE, "rank1.log": WORLD.format(r=1) + error}
    assert said(tmp_path, files).failed is True


KILLED = (
    "May  7 09:58:41 gx1 kernel: {kind}: Killed process 120441 ({name}) total-vm:1234kB, anon-rss:1000kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:65534 pgtables:80kB oom_score_adj:999\n"
)


def test_a_service_that_ran_into_its_own_limit_takes_no_rank_with_it(tmp_path):
    kernel = KILLED.format(kind="Memory cgroup out of memory", name="node_exporter")
    found = said(tmp_path, waiting(2) | {"gx1.kern": kernel})
    assert found.category is Category.UNKNOWN
    assert found.culprits.ranks == [2]


def error_file(seconds):
    stamp = {"py_callstack": f"{FRAMES}ValueError: x\n", "timestamp": str(seconds)}
    return json.dumps({"message": {"message": "ValueError: x", "extraInfo": stamp}})


@pytest.mark.parametrize(("minutes", "old"), [(-98, True), (-180 + 5, False), (5, False)])
def test_an_error_file_that_no_zone_puts_into_the_run_is_of_another(tmp_path, minutes, old):
    nine = 1778144400  # 2026-05-07 09:00:00 UTC
    steps = "".join(STEPS.splitlines(keepends=True)[:9])
    files = {
        "rank0.log": WORLD.format(r=0) + steps + DONE.replace("10:20", "09:10"),
        "none_z/attempt_0/1/error.json": error_file(nine + 60 * minutes),
    }
    assert said(tmp_path, files).failed is not old


SSH = "ssh: Could not resolve hostname gx2: Temporary failure in name resolution\n"
ORTE = (
    "--------------------------------------------------------------------------\n"
    "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n"
    "--------------------------------------------------------------------------\n"
)


def test_a_claim_is_no_less_sure_with_its_reason_than_without(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    without = said(tmp_path / "a", {"mpirun.log": ORTE})
    reason = said(tmp_path / "b", {"mpirun.log": SSH + ORTE})
    assert without.category is reason.category is Category.INFRASTRUCTURE
    assert reason.strength.level >= without.strength.level
