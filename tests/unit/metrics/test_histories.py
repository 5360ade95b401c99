"""`trainer_state.json` and exported arrays are step tables; the longest of several histories stands for all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path

BAD = 260


def _records(count: int = 40) -> list[dict[str, float]]:
    return [
        {
            "epoch": step / 500,
            "grad_norm": 1.0 + step % 7 / 10,
            "learning_rate": 1e-4,
            "loss": float("nan") if step >= BAD else 2.0 + step % 5 / 100,
            "step": step,
        }
        for step in range(10, 10 * count + 1, 10)
    ]


def _state(records: list[dict[str, float]]) -> str:
    evaluated = {"epoch": 0.2, "eval_loss": 2.5, "eval_runtime": 3.5, "eval_samples_per_second": 80.0, "step": 100}
    told = [
        *records[:10],
        evaluated,
        *records[10:],
        {"epoch": 1.0, "train_loss": 9.9, "train_runtime": 60.0, "step": 400},
    ]
    return json.dumps({"best_metric": None, "epoch": 1.0, "global_step": 400, "log_history": told}, indent=2)


def test_the_history_of_the_trainer_is_a_table(tmp_path: Path) -> None:
    text = _state(_records())
    (tmp_path / "trainer_state.json").write_text(text, encoding="utf-8")
    view = metrics_of([tmp_path]).view
    (table,) = view.tables
    assert (table.rows, table.first_step, table.last_step) == (40, 10, 400)
    assert {"loss", "grad_norm", "lr", "epoch", "val_loss"} <= set(table.columns)
    (point,) = view.points
    assert (point.kind, point.step, point.usual) == ("nan", BAD, 2.0)
    # The line that is shown is that of the loss, in the record of that step.
    lines = text.split("\n")
    assert lines[point.evidence.line - 1] == point.evidence.text
    assert "NaN" in point.evidence.text
    assert f'"step": {BAD}' in lines[point.evidence.line]


def test_an_array_of_records_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps(_records(), indent=1), encoding="utf-8")
    assert [(p.kind, p.step) for p in metrics_of([tmp_path]).view.points] == [("nan", BAD)]


def test_each_checkpoint_holds_the_history_again(tmp_path: Path) -> None:
    for count in (30, 40):
        folder = tmp_path / f"checkpoint-{count * 10}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(_state(_records(count)), encoding="utf-8")
    (tmp_path / "trainer_state.json").write_text(_state(_records()), encoding="utf-8")
    view = metrics_of([tmp_path]).view
    assert [t.rows for t in view.tables] == [40]
    assert len(view.points) == 1


def test_settings_are_no_history(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"step": 5, "loss": "mse", "optim": {"lr": 0.1}}, indent=2), encoding="utf-8"
    )
    (tmp_path / "list.json").write_text(json.dumps([{"name": "a", "size": 3}]), encoding="utf-8")
    assert metrics_of([tmp_path]).view.tables == []


def test_settings_on_one_line_are_no_step(tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text('{"step": 100, "lr": 0.0001, "epoch": 3, "batch_size": 8}\n', encoding="utf-8")
    (tmp_path / "last.json").write_text('{"step": 100, "lr": 0.0001, "loss": 2.5}\n', encoding="utf-8")
    (tmp_path / "log.jsonl").write_text('{"step": 100, "lr": 0.0001}\n', encoding="utf-8")
    assert [t.file for t in metrics_of([str(tmp_path)]).view.tables] == ["last.json", "log.jsonl"]
