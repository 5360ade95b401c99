"""Several processes that write into one log without their ranks: no row that tells something else is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.metrics.points import alarms, find_points
from firstfault.pipelines.metrics import metrics_of, opened_tables
from firstfault.redact import redact
from firstfault.report.metrics import render_metrics

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.metrics.steps import Steps


def table_of(folder: Path, text: str) -> Steps:
    (folder / "all.log").write_text(text, encoding="utf-8")
    with opened_tables([str(folder)]) as (_, tables, _):
        (table,) = tables
        return table


def rows(*, shuffled: bool, bad: int | None = None, again: int | None = None) -> str:
    """Four processes, 250 steps; the third has NaN for 100 steps, or the run starts again from step 100."""
    rng = np.random.default_rng(7)
    steps = [*range(1, 251)] if again is None else [*range(1, again), *range(100, 251)]
    told = []
    for n, step in enumerate(steps):
        for rank in range(4):
            wrong = bad is not None and rank == 2 and bad <= step < bad + 100
            loss = "nan" if wrong else f"{2 + 6 / (1 + step / 20) + rng.normal() / 50:.4f}"
            told.append(
                (
                    n + (rng.random() * 1.8 if shuffled else 0),
                    f"step {step} | loss {loss} | grad_norm {0.5 + rng.random() / 10:.3f}",
                )
            )
    return "\n".join(line for _, line in sorted(told, key=lambda t: t[0])) + "\n"


@pytest.mark.parametrize("shuffled", [False, True])
def test_each_row_is_kept(tmp_path: Path, *, shuffled: bool) -> None:
    table = table_of(tmp_path, rows(shuffled=shuffled))
    assert table.height == 1000
    assert table.attempt.max() == 1
    assert alarms(find_points([table])) == []


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_nan_of_one_of_them_is_found(tmp_path: Path, *, shuffled: bool) -> None:
    table = table_of(tmp_path, rows(shuffled=shuffled, bad=60))
    assert int(np.isnan(table.columns["loss"].values).sum()) == 100
    assert [(p.kind.value, p.step, p.rows) for p in find_points([table])] == [("nan", 60, 100)]


def test_a_restart_of_all_of_them_is_one(tmp_path: Path) -> None:
    assert table_of(tmp_path, rows(shuffled=True, again=200)).attempt.max() == 2


def test_the_same_value_told_twice_is_one_row(tmp_path: Path) -> None:
    text = "\n".join(f"step {i // 2} | loss {2 + i // 2 % 7 / 10} | grad_norm 0.5" for i in range(2, 200))
    assert table_of(tmp_path, text).height == 99


@pytest.mark.parametrize(
    ("form", "count"),
    [
        ("step {i} | loss: {own:.4f} | lr: 1e-4\n", 4),
        ("epoch: {e} step: {w} loss: {own:.4f}\n", 4),
        ("rank: {r} step {i} | loss: {own:.4f}\n", 0),
        ("step {i} | loss: 2.5 | lr: 1e-4\n", 0),
    ],
)
def test_how_many_processes_write_without_their_ranks_is_told(tmp_path, form, count):
    lines = (
        form.format(i=i, e=i // 50, w=i % 50, r=r, own=2 + r / 100 + i / 1000) for i in range(1, 200) for r in range(4)
    )
    (tmp_path / "train.log").write_text("".join(lines), encoding="utf-8")
    view = metrics_of([str(tmp_path)]).view
    assert [t.unnamed for t in view.tables] == [count]
    text = render_metrics(redact(view, "none"))
    assert ("About 4 processes write into train.log" in text) == bool(count)
    assert ("about 4, unnamed" in text) == bool(count)
