"""Rows of the Hugging Face Trainer that tell an epoch alone: their steps follow from its start lines, or they have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from firstfault.metrics.epochs import plan_of
from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.metrics import MetricsView

START = (
    "***** Running training *****\n  Num examples = {examples:,}\n  Num Epochs = {epochs:,}\n  Instantaneous batch size per device = 4\n"
    "  Total train batch size (w. parallel, distributed & accumulation) = {batch}\n  Gradient Accumulation steps = {accumulated}\n"
    "  Total optimization steps = {total:,}\n  Number of trainable parameters = 1,234,567\n"
)


class _Run(NamedTuple):
    """A run, with the step and epoch of each optimisation step as the Trainer counts them."""

    start: str
    steps: list[tuple[int, float]]


def _run(
    examples: int, batch: int, accumulated: int, epochs: int, *, stop: int | None = None, rest: bool = False
) -> _Run:
    batches = -(-examples // (batch // accumulated))
    each = -(-batches // accumulated) if rest else batches // accumulated
    total = stop or each * epochs
    steps = [(e * each + s, e + min(s * accumulated / batches, 1.0)) for e in range(epochs) for s in range(1, each + 1)]
    told = -(-total // each)
    start = START.format(examples=examples, epochs=told, batch=batch, accumulated=accumulated, total=total)
    return _Run(start, [s for s in steps if s[0] <= total])


def _short(epoch: float) -> str:
    return f"'{epoch:.4g}'"


def _rounded(epoch: float) -> str:
    return str(round(epoch, 2))


def _view(folder: Path, start: str, rows: list[str]) -> MetricsView:
    (folder / "train.log").write_text(start + "\n".join(rows) + "\n", encoding="utf-8")
    return metrics_of([str(folder)]).view


def _rows(run: _Run, every: int, form: object, bad: int) -> list[str]:
    rng = np.random.default_rng(every)
    loss = {s: "nan" if s >= bad else f"{2 + rng.normal(0, 0.02):.4f}" for s, _ in run.steps}
    return [
        f"{{'loss': {loss[s]}, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'epoch': {form(e)}}}"  # type: ignore[operator]
        for s, e in run.steps
        if s % every == 0
    ]


@pytest.mark.parametrize("form", [_rounded, _short, repr])
@pytest.mark.parametrize(
    ("run", "every"),
    [
        (_run(8000, 64, 4, 3), 5),
        (_run(8000, 64, 4, 3), 1),
        (_run(10_007, 32, 8, 4), 10),
        (_run(10_007, 32, 8, 4, rest=True), 10),
        (_run(200_000, 64, 1, 1), 10),
        (_run(51_200, 128, 16, 2, stop=600), 10),
    ],
)  # fmt: skip
def test_the_first_bad_step_follows_from_the_epoch(run: _Run, every: int, form: object, tmp_path: Path) -> None:
    bad = run.steps[-1][0] * 3 // 5 // every * every
    view = _view(tmp_path, run.start, _rows(run, every, form, bad))
    point = next(p for p in view.points if p.kind == "nan" and p.column == "loss")
    epoch = dict(run.steps)[bad]
    assert point.step == bad
    assert "by its epoch" in point.summary
    assert str(form(epoch)) in point.evidence.text  # type: ignore[operator]
    (table,) = view.tables
    assert table.last_step == max(s for s, _ in run.steps if s % every == 0)
    assert table.attempts == 1


def test_an_evaluation_is_of_the_step_before_it(tmp_path: Path) -> None:
    run = _run(8000, 64, 4, 3)
    rows = _rows(run, 5, repr, 999)
    rows = [r for n, row in enumerate(rows) for r in ([row, "{'eval_loss': 2.5, 'epoch': " + row.split("'epoch': ")[1]] if n % 5 == 4 else [row])]  # fmt: skip
    (table,) = _view(tmp_path, run.start, rows).tables
    assert (table.first_step, table.last_step, table.attempts, table.unnamed) == (5, 375, 1, 0)
    assert table.rows == 75


@pytest.mark.parametrize(
    "start",
    [
        "",
        _run(8000, 64, 4, 3).start.replace("Num examples", "Number of samples"),
        _run(8000, 64, 4, 3).start + _run(16_000, 64, 4, 3).start,
        _run(8000, 64, 4, 3).start.replace("= 375", "= 3,750"),
        _run(52_000, 128, 16, 2, stop=600).start,
        _run(8000, 64, 4, 3).start.replace("Num Epochs = 3", "Num Epochs = 9,223,372,036,854,775,807"),
    ],
    ids=["none", "no examples", "two plans", "a total that does not fit", "an epoch of 406 or 407 steps", "a stream"],
)
def test_without_a_plan_that_agrees_with_itself_there_is_no_step(start: str, tmp_path: Path) -> None:
    assert plan_of(start.encode()) is None
    view = _view(tmp_path, start, _rows(_run(8000, 64, 4, 3), 5, repr, 200))
    assert view.tables[0].first_step is None
    assert [p.step for p in view.points if p.kind == "nan"] == [None]


def test_epochs_too_coarse_for_uneven_rows_give_no_step(tmp_path: Path) -> None:
    run = _run(200_000, 64, 1, 1)
    rows = [row for n, row in enumerate(_rows(run, 10, _rounded, 9999)) if (n % 7 and n % 3) or n > 200]
    assert _view(tmp_path, run.start, rows).tables[0].first_step is None


def test_a_run_that_began_again_gives_no_step(tmp_path: Path) -> None:
    run = _run(8000, 64, 4, 3)
    rows = _rows(run, 5, repr, 9999)
    assert _view(tmp_path, run.start, rows[:40] + rows[30:]).tables[0].first_step is None
