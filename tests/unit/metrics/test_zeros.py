"""Single zeros, as skipped steps print them, switch off no detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path


def kinds(folder: Path, rows: list[str]) -> list[tuple[str, float | None]]:
    (folder / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [(p.kind, p.step) for p in metrics_of([folder]).view.points]


@pytest.mark.parametrize("zeros", [(), (40,), (40, 41, 250)])
def test_a_norm_that_jumps_beside_norms_of_zero(tmp_path: Path, zeros: tuple[int, ...]) -> None:
    norm = {271: 45.0} | dict.fromkeys(zeros, 0.0)
    rows = [f"step: {i}, loss: 2.{i % 10}, grad_norm: {norm.get(i, 0.5 + i % 7 / 50):.3f}" for i in range(1, 400)]
    assert kinds(tmp_path, rows) == [("grad_spike", 271)]


@pytest.mark.parametrize("zeros", [(), (33,)])
def test_a_rate_that_drops_beside_a_rate_of_zero(tmp_path: Path, zeros: tuple[int, ...]) -> None:
    rate = dict.fromkeys(range(200, 400), 740) | dict.fromkeys(zeros, 0)
    rows = [f"step: {i} | loss: 2.{i % 10} | tps: {rate.get(i, 1000) + i % 7}" for i in range(1, 400)]
    assert kinds(tmp_path, rows) == [("throughput_drop", 200)]


@pytest.mark.parametrize("odd", ["0", "nan"])
def test_a_batch_that_grows_by_plan_where_one_row_tells_no_size(tmp_path: Path, odd: str) -> None:
    rows = [
        f"step {i} | loss: 2.{i % 10} | global_batch_size: {odd if i == 77 else 64 if i < 150 else 256} | step_time: {(1 if i < 150 else 4) + i % 5 / 50:.3f}"
        for i in range(1, 300)
    ]
    assert kinds(tmp_path, rows) == []
