"""A rate that drifts with the lengths of its texts is no throughput that dropped; one that drifts and falls at once is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.metrics.robust import falls_at_once
from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

STEP = "step {i} | loss: 2.5 | tps: {rate:.1f}\n"
KEEP, ASTRAY = (0.9, 0.97, 0.99), (0.04, 0.08, 0.15)
RUNS = 45


def _drifting(seed: int, count: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(70_000 + seed)
    keep, astray = KEEP[seed % 3], ASTRAY[seed // 3 % 3]
    level = np.empty(count)
    level[0] = rng.normal(0, astray)
    for at, push in enumerate(rng.normal(0, astray * np.sqrt(1 - keep * keep), count - 1), 1):
        level[at] = keep * level[at - 1] + push
    return np.exp(level)


def _drops(folder: Path, rate: NDArray[np.float64]) -> list[float | None]:
    folder.mkdir()
    text = "".join(STEP.format(i=i, rate=6000 * r) for i, r in enumerate(rate, 1))
    (folder / "train.log").write_text(text, encoding="utf-8")
    return [p.step for p in metrics_of([str(folder)]).view.points if p.kind == "throughput_drop"]


def test_at_most_one_of_many_drifting_rates_is_taken_for_a_drop(tmp_path: Path) -> None:
    told = [n for n in range(RUNS) if _drops(tmp_path / str(n), _drifting(n, 180 + 7 * n))]
    assert len(told) <= 1, told


def test_most_drifting_rates_that_fall_at_once_are_told_at_their_step(tmp_path: Path) -> None:
    found = 0
    for n in range(RUNS):
        rate = _drifting(n, 180 + 7 * n)
        at = len(rate) * 3 // 5
        rate[at:] /= 1.6
        found += any(step is not None and abs(step - 1 - at) <= 2 for step in _drops(tmp_path / str(n), rate))
    assert found >= RUNS * 9 // 10, found


@pytest.mark.parametrize("at", [0, 3, 40, 77, 80])
def test_a_place_near_an_end_is_asked_about_without_harm(at: int) -> None:
    level = np.r_[np.zeros(40), -np.ones(40)]
    assert falls_at_once(level, at, {3: 4.0, 8: 3.6}) is (at in {3, 40, 77})


def test_too_few_values_fall_nowhere() -> None:
    assert not falls_at_once(np.array([1.0, 0.0]), 1, {3: 4.0, 8: 3.6})
