"""Where no step time is printed, a tail of slow steps is told by the throughput; skipped steps of each line are not taken for a count."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path

STEP = "step {i} | loss: 2.5 | tps: {rate:.1f}\n"
MEGATRON = " iteration {i:8d}/    4000 | consumed samples: {n:12d} | lm loss: 2.500000E+00 | number of skipped iterations: {k:3d} | number of nan iterations:   0 |\n"


def _points(tmp_path: Path, text: str) -> list[tuple[str, str, float | None]]:
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    return [(p.kind, p.column, p.step) for p in metrics_of([str(tmp_path)]).view.points]


@pytest.mark.parametrize("seed", range(6))
def test_a_tail_of_low_rates_is_told_with_its_first_step(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    rate = [6000 * rng.gauss(1, 0.02) / (rng.uniform(1.9, 3) if i > 250 and (i == 251 or rng.random() < 0.2) else 1) for i in range(1, 501)]  # fmt: skip
    text = "".join(STEP.format(i=i, rate=r) for i, r in enumerate(rate, 1))
    ((kind, column, step),) = _points(tmp_path, text)
    assert (kind, column) == ("step_time_tail", "throughput")
    assert step is not None
    assert abs(step - 251) <= 2
    (finding,) = [p for p in metrics_of([str(tmp_path)]).view.points if p.kind == kind]
    assert finding.value is not None
    assert finding.usual is not None
    assert finding.value < finding.usual
    assert "is low from step" in finding.summary


@pytest.mark.parametrize("seed", range(6))
def test_rates_that_always_were_so_are_no_tail(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = "".join(
        STEP.format(i=i, rate=6000 * rng.gauss(1, 0.02) / (rng.uniform(1.9, 3) if rng.random() < 0.1 else 1))
        for i in range(1, 501)
    )
    assert _points(tmp_path, text) == []


def test_as_many_skipped_steps_in_each_line_are_skipped_steps(tmp_path: Path) -> None:
    text = "".join(MEGATRON.format(i=i * 5, n=i * 1280, k=5 if i >= 120 else 0) for i in range(1, 201))
    assert _points(tmp_path, text) == [("skipped_steps", "skipped", 600.0)]
