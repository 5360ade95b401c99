"""A run that starts again from an older checkpoint: its steps are held against the same ones before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path


def resumed(folder: Path, back: int, *, worse: float = 1.0) -> list[tuple[str, float | None]]:
    rng = np.random.default_rng(back)
    rows = []
    for run, steps in enumerate([range(1, 601), range(601 - back, 800)]):
        for i in steps:
            loss = (2.1 + 8 * math.exp(-i / 100)) * (1 + rng.normal() / 50) * (worse if run else 1.0)
            norm = (0.4 + 8 * math.exp(-i / 60)) * math.exp(rng.normal() / 8)
            rows.append(f"step: {i} | loss: {loss:.4f} | grad_norm: {norm:.3f}")
    (folder / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [(p.kind, p.step) for p in metrics_of([folder]).view.points]


@pytest.mark.parametrize("back", [1, 20, 100, 300, 500])
def test_a_healthy_resume_is_no_rise(tmp_path: Path, back: int) -> None:
    assert resumed(tmp_path, back) == []


@pytest.mark.parametrize("back", [100, 300])
def test_a_resume_that_is_worse_than_the_same_steps_before_is_a_rise(tmp_path: Path, back: int) -> None:
    points = resumed(tmp_path, back, worse=1.45)
    assert points[0][0] == "loss_rise"
    assert points[0][1] == pytest.approx(601 - back, abs=2)
