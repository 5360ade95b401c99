"""What follows from where the ranks stood: nobody is called stuck for being seen once, and nobody is named by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

WAIT = [
    "all_reduce (torch/distributed/distributed_c10d.py:3252)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "step (train.py:40)",
]
SYNC = ["synchronize (torch/cuda/__init__.py:892)", "step (train.py:41)"]
DATA = [
    "wait (threading.py:324)",
    "get (queue.py:180)",
    "_try_get_data (torch/utils/data/dataloader.py:1133)",
    "epoch (train.py:30)",
]
SAVE = ["save (torch/serialization.py:628)", "save_all (train.py:70)"]
BATON = ["wait (torch/utils/file_baton.py:42)", "load (torch/utils/cpp_extension.py:1308)", "build (train.py:10)"]
OTHER = ["barrier (torch/distributed/distributed_c10d.py:4100)", "evaluate (train.py:90)"]
PACE = ["_helper (mylib/work.py:3)", "step (train.py:44)"]
STOPPED = "srun: interrupt (one more within 1 sec to abort)\nsrun: sending Ctrl-C to StepId=77120.0\n"


def spy(pid: int, frames: list[str], more: list[str] | None = None) -> str:
    text = (
        f'Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {pid} (idle): "MainThread"\n'
    )
    text += "".join(f"    {f}\n" for f in [*frames, "<module> (train.py:99)"])
    if more:
        text += f'Thread {pid + 1} (active): "saver"\n' + "".join(f"    {f}\n" for f in more)
    return text


def verdict(folder: Path, stacks: dict[int, str], log: str = STOPPED) -> Verdict:
    (folder / "job.out").write_text("step 10/100 loss 2.1\nstep 20/100 loss 2.0\n" + log, encoding="utf-8")
    for rank, text in stacks.items():
        (folder / f"rank{rank}.txt").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


def test_one_rank_in_its_loader_while_the_rest_wait(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, DATA if r == 2 else SYNC if r == 3 else WAIT) for r in range(8)})
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.SUPPORTED)
    assert found.culprits.ranks == [2]


def test_a_checkpoint_on_one_rank_names_it_and_claims_no_reason(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, SAVE if r == 0 else WAIT) for r in range(4)})
    assert found.culprits.ranks == [0]
    assert found.strength is Strength.POSSIBLE


def test_two_threads_in_collectives(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + 10 * r, OTHER, WAIT) for r in range(2)})
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert found.culprits.ranks == []


@pytest.mark.parametrize(("odd", "named"), [({3}, [3]), ({2, 3}, [])])
def test_different_calls_are_a_mismatch(tmp_path: Path, odd: set[int], named: list[int]) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, OTHER if r in odd else WAIT) for r in range(4)})
    assert (found.category, found.strength) == (Category.COLLECTIVE_MISMATCH, Strength.POSSIBLE)
    assert found.culprits.ranks == named


def test_all_at_one_lock(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, BATON) for r in range(4)})
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert found.culprits.ranks == []


def test_all_in_one_call_tells_nobody_apart(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, WAIT) for r in range(4)}, log="")
    assert found.category is Category.UNKNOWN
    assert found.culprits.ranks == []


def test_somebody_looked_at_a_job_that_computes(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, PACE) for r in range(4)}, log="")
    assert found.category is Category.UNKNOWN
    assert found.failed is None


def test_an_error_of_its_own_stays_the_first_fault(tmp_path: Path) -> None:
    log = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 12, in <module>\n[rank1]: ValueError: bad shape\n'
    plain = verdict(tmp_path / "a", {}, log) if (tmp_path / "a").mkdir() is None else None
    beside = (
        verdict(tmp_path / "b", {r: spy(100 + r, DATA if r == 2 else WAIT) for r in range(4)}, log)
        if (tmp_path / "b").mkdir() is None
        else None
    )
    assert plain is not None
    assert beside is not None
    assert (beside.category, beside.culprits.ranks) == (plain.category, plain.culprits.ranks)


def test_a_single_dump_names_nobody(tmp_path: Path) -> None:
    assert verdict(tmp_path, {2: spy(102, DATA)}).culprits.ranks == []
