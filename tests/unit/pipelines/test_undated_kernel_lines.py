"""A kernel's line in seconds since the start of its machine is of any day: beside a rank's own error it is a rival, told once."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

WAIT = (
    "[rank{r}]:[E611 10:10:05.{r}00000001 ProcessGroupNCCL.cpp:683] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 60000{r} milliseconds before timing out.\n"
    "[rank{r}]:[E611 10:10:05.{r}10000001 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog "
    "at work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8\n"
)
RAISED = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/proj/fit.py", line 61, in main\n'
    "[rank2]:     next(it)\n"
    '[rank2]:   File "/proj/parts.py", line 9, in take\n'
    "[rank2]:     use(p)\n"
    "[rank2]: {error}\n"
)
XID = "NVRM: Xid (PCI:0000:9d:00): 79, pid=5121, name=python, GPU has fallen off the bus."
KERNEL = [
    XID,
    "NVRM: GPU 0000:9d:00.0: GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:9d:00): 48, pid=5121, name=python, DBE (double bit error) ECC Error",
]
OWN = [
    ("FileNotFoundError: [Errno 2] No such file or directory: '/data/parts/00099.tar'", Category.DATA),
    ("KeyError: 'labels'", Category.SOFTWARE),
    ("ValueError: could not convert string to float: 'n/a'", Category.SOFTWARE),
]


def job(folder, line, *, error=None):
    for r in range(4):
        text = WAIT.format(r=r) if r != 2 or error is None else RAISED.format(error=error)
        (folder / f"r{r}.log").write_text(f"2026-06-11 09:50:00 rank {r} host gq1\n" + text, encoding="utf-8")
    head = "[    0.000000] Linux version 5.15.0\n"
    tail = "[918233.100000] nvidia 0000:9d:00.0: reset done\n"
    (folder / "dmesg").write_text(head + f"[ 8123.456789] {line}\n" + tail, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("line", KERNEL)
@pytest.mark.parametrize(("error", "category"), OWN)
def test_the_ranks_own_error_is_told_and_the_machines_is_a_rival(tmp_path, line, error, category):
    verdict = job(tmp_path, line, error=error)
    assert verdict.category is category
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.first_failed.ranks == [2]
    assert error.split(":")[0] in verdict.summary


def test_one_line_is_no_rival_of_itself(tmp_path):
    verdict = job(tmp_path, XID, error="KeyError: 'labels'")
    assert verdict.summary.count("fallen off the bus") == 1


def test_one_line_beside_nothing_else_is_no_rival_of_itself(tmp_path):
    verdict = job(tmp_path, XID)
    assert verdict.summary.count("fallen off the bus") <= 1


@pytest.mark.parametrize("line", KERNEL[:2])
@pytest.mark.parametrize(
    "error",
    [
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ],
)
def test_an_error_that_the_device_brings_about_stays_the_devices(tmp_path, line, error):
    assert job(tmp_path, line, error=error).category is Category.GPU_CUDA


def test_an_error_that_says_nothing_of_its_own_leaves_the_machine_first(tmp_path):
    assert job(tmp_path, XID, error="RuntimeError: worker failed").category is Category.GPU_CUDA
