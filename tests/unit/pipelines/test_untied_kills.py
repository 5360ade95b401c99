"""A process that the kernel killed and that no line ties to the job does not overrule what the job says of its own end."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

STEP = "2026-06-11T08:{m:02}:00.000000001Z step {m} loss 2.{m}\n"
END = "2026-06-11T08:20:00.000000001Z Training completed. Saving final model.\n"
KILL = "Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:99120kB, anon-rss:90112kB"
HOST_KILL = "Out of memory: Killed process {pid} ({name}) total-vm:99120kB, anon-rss:90112kB"
EVENTS = (
    "LAST SEEN   TYPE      REASON      OBJECT                  MESSAGE\n"
    "14m         Warning   OOMKilling  node/pool-3             {kill}\n"
    "13m         Warning   BackOff     pod/etl-12              Back-off restarting failed container etl in pod etl-12_ml\n"
)
WITNESSES = {
    "events.txt": lambda kill: EVENTS.format(kill=kill),
    "kern.log": lambda kill: f"Jun 11 08:10:00 pool-3 kernel: {kill}\n",
    "dmesg.txt": lambda kill: f"[Thu Jun 11 08:10:00 2026] {kill}\n",
    "dmesg": lambda kill: f"[812345.678901] {kill}\n",
}


def job(folder, *, end=END, more="", **files):
    for rank in range(2):
        text = f"2026-06-11T08:00:00.000000001Z rank: {rank} world_size: 2\n"
        text += "".join(STEP.format(m=m) for m in range(1, 10)) + (more if rank == 1 else "") + end
        (folder / f"fit-worker-{rank}.log").write_text(text, encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("kill", [KILL, HOST_KILL])
@pytest.mark.parametrize("name", ["java", "node", "postgres", "data-exporter"])
def test_another_program_that_was_killed_does_not_overrule_the_end(tmp_path, witness, kill, name):
    text = WITNESSES[witness](kill.format(pid=4411, name=name))
    verdict = job(tmp_path, **{witness: text})
    assert verdict.category is Category.NONE
    assert verdict.failed is False


def test_nor_does_it_overrule_the_schedulers_word(tmp_path):
    row = (
        "JobID        JobName    State      ExitCode\n"
        "------------ ---------- ---------- --------\n"
        "7712         fit        COMPLETED       0:0\n"
    )
    events = WITNESSES["events.txt"](KILL.format(pid=4411, name="java"))
    verdict = job(tmp_path, end="", **{"events.txt": events, "sacct.txt": row})
    assert verdict.category is Category.NONE


@pytest.mark.parametrize("witness", ["events.txt", "dmesg"])
def test_a_program_that_may_run_a_rank_still_counts(tmp_path, witness):
    verdict = job(tmp_path, **{witness: WITNESSES[witness](KILL.format(pid=4411, name="python3"))})
    assert verdict.category is Category.INFRASTRUCTURE


def test_without_an_end_of_the_job_it_still_counts(tmp_path):
    verdict = job(tmp_path, end="", dmesg=WITNESSES["dmesg"](KILL.format(pid=4411, name="java")))
    assert verdict.category is not Category.NONE


def test_a_process_of_whose_pid_the_job_tells_still_counts(tmp_path):
    lost = "2026-06-11T08:09:30.000000001Z RuntimeError: DataLoader worker (pid 4411) is killed by signal: Killed.\n"
    kernel = WITNESSES["kern.log"](KILL.format(pid=4411, name="java"))
    verdict = job(tmp_path, end="", more=lost, **{"kern.log": kernel})
    assert verdict.category is Category.INFRASTRUCTURE
