"""A run that was resumed ends where the one that went on does, by checkpoints that torch writes here and now."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.pipelines.checkpoint import compare_checkpoints, verify_checkpoint

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
JOB = Path(__file__).parent / "jobs" / "checkpoints" / "sharded.py"


def save(ranks: int, *words: object) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(JOB)]
    # The writer takes a visible GPU for its own, whoever uses it.
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    subprocess.run([*torchrun, *map(str, words)], check=True, capture_output=True, timeout=540, env=environ)


@pytest.mark.parametrize("ranks", [2, 4])
def test_continuous_against_resumed(tmp_path: Path, ranks: int) -> None:
    save(ranks, tmp_path / "half", 0, 2)
    save(ranks, tmp_path / "resumed", 2, 4, tmp_path / "half")
    save(ranks, tmp_path / "whole", 0, 4)
    found = verify_checkpoint(tmp_path / "whole")
    assert (found.state, found.step, found.world_size, found.problems) == ("complete", 4, ranks, [])
    assert compare_checkpoints(tmp_path / "whole", tmp_path / "resumed").verdict == "exact"
    assert compare_checkpoints(tmp_path / "whole", tmp_path / "half").verdict == "different"
    (tmp_path / "resumed" / "rng_state_1.pth").unlink()
    assert compare_checkpoints(tmp_path / "whole", tmp_path / "resumed").verdict == "functional"
