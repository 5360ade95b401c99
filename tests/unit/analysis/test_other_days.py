"""Old lines of a kernel log, a requeued job in one file, and file names that are not the host: none of them is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from incident import event, scene_of

from firstfault.model.evidence import EARLIER
from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

STEPS = "".join(f"[rank0] 2026-03-04T10:0{n}:00+00:00 INFO step {n}/1000 loss 2.{n}\n" for n in range(1, 6))
ERROR = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/app/train.py", line 412, in <module>\n'
    "[rank2]: KeyError: 'labels'\n"
)


def verdict(folder: Path, **files: str) -> Verdict:
    for name, text in files.items():
        (folder / name.replace("__", "-").replace("_log", ".log")).write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("day", ["Wed Feb 18 03:14:22 2026", "Tue Mar 10 03:14:22 2026", "Tue Mar  4 10:05:20 2025"])
def test_an_xid_of_another_day_is_not_this_jobs(tmp_path: Path, day: str) -> None:
    kernel = f"[{day}] NVRM: Xid (PCI:0000:5d:00): 79, pid=822, name=python, GPU has fallen off the bus.\n" * 2
    found = verdict(tmp_path, train_log=STEPS + ERROR, dmesg__n01_log=kernel)
    assert found.category is not Category.GPU_CUDA
    assert found.culprits.hosts == []


def test_one_of_the_same_hours_is(tmp_path: Path) -> None:
    kernel = (
        "[Wed Mar  4 11:04:50 2026] NVRM: Xid (PCI:0000:5d:00): 79, pid=822, name=python, GPU has fallen off the bus.\n"
    )
    failed = (
        "[rank0]: Traceback (most recent call last):\n"
        + ERROR.split("\n")[1].replace("rank2", "rank0")
        + "\n[rank0]: RuntimeError: CUDA error: unspecified launch failure\n"
    )
    assert verdict(tmp_path, train_log=STEPS + failed, dmesg__n01_log=kernel).category is Category.GPU_CUDA


def requeued(later: str) -> str:
    first = "".join(f"[rank0] 2026-03-04 10:0{n}:00,100 INFO step {n}/1000 loss 2.{n}\n" for n in range(1, 6))
    stop = "slurmstepd: error: *** JOB 5 ON n01 CANCELLED AT 2026-03-04T10:06:00 DUE TO TIME LIMIT ***\n"
    again = "".join(f"[rank0] 2026-03-04 {later}:0{n}:00,100 INFO step {n}/1000 loss 2.{n}\n" for n in range(4, 9))
    return first + stop + again + ERROR.replace("rank2", "rank0")


def test_a_requeued_job_in_one_file_is_judged_by_its_last_attempt(tmp_path: Path) -> None:
    (tmp_path / "slurm-5.out").write_text(requeued("12"), encoding="utf-8")
    diagnosis = diagnose([tmp_path])
    assert len(diagnosis.attempts) == 2
    assert diagnosis.verdict.category is Category.SOFTWARE


def test_steps_within_the_grace_time_are_no_new_attempt(tmp_path: Path) -> None:
    text = requeued("10").replace(ERROR.replace("rank2", "rank0"), "")
    (tmp_path / "slurm-5.out").write_text(text, encoding="utf-8")
    diagnosis = diagnose([tmp_path])
    assert len(diagnosis.attempts) == 1
    assert diagnosis.verdict.category is Category.INFRASTRUCTURE


def test_the_host_that_lines_state_counts_more_than_the_name_of_the_file(tmp_path: Path) -> None:
    text = (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/app/train.py", line 9, in <module>\n'
        "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\ntrain.py FAILED\n"
        "------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        "  time      : 2026-03-04_10:05:30\n  host      : dgx-07\n  rank      : 3 (local_rank: 3)\n"
        "  exitcode  : 1 (pid: 5522)\n  error_file: <N/A>\n"
    )
    found = verdict(tmp_path, node__1_log=text)
    assert (found.culprits.ranks, found.culprits.hosts) == ([3], ["dgx-07"])


def test_an_earlier_run_of_a_container_explains_nothing_of_the_present_one():
    old = event("host.disk", 3, source=1, host="n1", fields={EARLIER: "last state"})
    scene = scene_of(old, event("code.crash", 9, rank=2))
    assert [s.nature.key for s in scene.suspects] == ["code.crash"]
    assert [s.nature.key for s in scene.acquitted] == ["host.disk"]


def test_a_pods_description_of_an_earlier_run_is_not_the_cause_of_todays_error(tmp_path):
    card = (
        "Name: w-0\nContainers:\n  a:\n    State:          Running\n      Started:      Wed, 04 Mar 2026 09:59:00 +0000\n"
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
        "      Finished:     Tue, 03 Mar 2026 22:00:00 +0000\n"
    )
    found = verdict(tmp_path, **{"train.log": STEPS + ERROR, "describe.txt": card})
    assert found.category is Category.SOFTWARE
