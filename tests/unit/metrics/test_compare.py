"""Two runs that differ by what was changed in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.pipelines.compare import compare_runs
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """NCCL version 2.21.5+cuda12.4
torch version: {torch}
using world size: 8, data-parallel size: 4, tensor-model-parallel size: 2, pipeline-model-parallel size: 1
------------------------ arguments ------------------------
  lr .............................................. {lr}
  save ............................................ /ckpt/{save}
  micro_batch_size ................................ 4
-------------------- end of arguments ---------------------
> setting random seeds to {seed} ...
"""


def write(folder: Path, *, torch="2.5.1", lr="0.0003", seed=1234, save="a", noise=1, bad=None, slow=1.0) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(noise)
    rows = []
    for i in range(1, 301):
        loss = 2 + 6 * np.exp(-i / 30) + rng.normal() * 0.01
        if bad is not None and i >= bad:
            loss *= 1.5
        rows.append(
            f" iteration {i:8d}/     300 | elapsed time per iteration (ms): {1000 * slow + i % 7:.1f} | lm loss: {loss:.6E} |"
        )
    text = HEAD.format(torch=torch, lr=lr, seed=seed, save=save) + "\n".join(rows) + "\n"
    (folder / "train.log").write_text(text, encoding="utf-8")
    return folder


def test_nothing_differs_but_where_it_is_saved(tmp_path: Path) -> None:
    found = compare_runs(write(tmp_path / "a"), write(tmp_path / "b", save="b"))
    assert found.same
    assert found.differences == []


def test_what_was_set_comes_before_the_curves(tmp_path: Path) -> None:
    found = compare_runs(
        write(tmp_path / "a"), write(tmp_path / "b", torch="2.6.0", lr="0.003", seed=7, noise=2, bad=100, slow=1.4)
    )
    told = [(d.area, d.what.split(" at ")[0], d.first, d.second) for d in found.differences]
    assert told[:3] == [
        ("versions", "torch", "2.5.1", "2.6.0"),
        ("seeds", "seed", "1234", "7"),
        ("configuration", "lr", "0.0003", "0.003"),
    ]
    curve = next(d for d in found.differences if d.area == "curves")
    assert 98 <= curve.step <= 102
    assert ("pace", "usual step_time", "1.003", "1.403") in told


def test_the_step_up_to_which_two_runs_are_the_same(tmp_path: Path) -> None:
    found = compare_runs(write(tmp_path / "a"), write(tmp_path / "b", bad=200))
    (curve,) = found.differences
    assert (curve.what, curve.step) == ("loss at step 200, the same up to step 199", 200)


def test_other_noise_is_no_difference(tmp_path: Path) -> None:
    assert compare_runs(write(tmp_path / "a"), write(tmp_path / "b", noise=5)).same


def test_files_of_settings(tmp_path: Path) -> None:
    for name, depth in (("a", 12), ("b", 24)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(
            f"model:\n  depth: {depth}\n  width: 512\nseed: 3\noutput_dir: /out/{name}\n", encoding="utf-8"
        )
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert [(d.area, d.what, d.first, d.second) for d in found.differences] == [
        ("configuration", "model.depth", "12", "24")
    ]
    assert found.differences[0].evidence[0].line == 2


def test_a_run_that_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.log").write_text("hello\n", encoding="utf-8")
    with pytest.raises(PipelineError, match="neither steps nor settings"):
        compare_runs(write(tmp_path / "a"), tmp_path / "b")
