"""A start that failed for no reason that a line tells, and the script beside its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

BARRIER = (
    "RuntimeError: Timed out initializing process group in store based barrier on rank: {r}, for key: "
    "store_based_barrier_key:1 (world_size=8, worker_count=4, timeout=0:30:00)"
)
HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n"
PLAIN = HEAD + "#SBATCH --ntasks-per-node=4\npython fit.py --nodes 2\n"
TORCHRUN = HEAD + "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend c10d --rdzv_endpoint n1:29500 fit.py\n"
RIGHT = HEAD + "#SBATCH --ntasks-per-node=4\nsrun python fit.py --nodes 2\n"


def _logs(folder: Path, *, ran: bool = False) -> None:
    steps = "".join(f"step {i}/400 loss 1.9{i} lr 1e-4\n" for i in range(8)) if ran else ""
    lines = [
        line
        for r in range(4)
        for line in ("Traceback (most recent call last):", '  File "fit.py", line 7, in <module>', BARRIER.format(r=r))
    ]
    (folder / "slurm-11.out").write_text(steps + "\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("script", [PLAIN, TORCHRUN])
def test_a_script_that_starts_one_node_is_offered(tmp_path: Path, script: str) -> None:
    _logs(tmp_path)
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    found = diagnose([tmp_path]).verdict
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert found.trigger is not None
    assert (found.trigger.file, found.trigger.line) == ("job.sh", script.count("\n"))


@pytest.mark.parametrize("script", [RIGHT, None])
def test_without_a_wrong_script_nothing_is_offered(tmp_path: Path, script: str | None) -> None:
    _logs(tmp_path)
    if script is not None:
        (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    assert diagnose([tmp_path]).verdict.category is Category.UNKNOWN


def test_a_script_is_no_reason_for_what_ran(tmp_path: Path) -> None:
    _logs(tmp_path, ran=True)
    (tmp_path / "job.sh").write_text(PLAIN, encoding="utf-8")
    assert diagnose([tmp_path]).verdict.category is not Category.SOFTWARE
