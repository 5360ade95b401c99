"""Trainers that name the step in one line and each metric in a line below it, as OLMo and OLMo-core do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path

HEADS = (
    "[2024-04-17 09:{m:02}:{s:02}] INFO     [olmo.train:816, rank=0] [step={step}/739328]",
    "2024-04-17 09:{m:02}:{s:02}.123\thost-1:0\tolmo.train:967\tINFO\t[step={step}/739328,epoch=0]",
    "2024-04-17 09:{m:02}:{s:02} INFO [olmo_core.train.callbacks.console_logger:68] [step={step:,}/739,328,epoch=1,eta=5h11m]",
)
LOSSES = ("train/CrossEntropyLoss", "train/CrossEntropyLoss", "train/CE loss")


@pytest.mark.parametrize("form", range(len(HEADS)))
def test_metrics_below_the_step_belong_to_it(tmp_path: Path, form: int) -> None:
    lines = []
    for step in range(990, 1100):
        second = (step - 990) * 12
        loss = "nan" if step >= 1060 else f"{2.5 + step % 7 / 100:.4f}"
        lines += [
            HEADS[form].format(m=second // 60, s=second % 60, step=step),
            f"    optim/total_grad_norm={1 + step % 3 / 10:.2f}",
            f"    {LOSSES[form]}={loss}",
            "    train/Perplexity=76,631",
            "    throughput/device/tokens_per_second=45,538",
            "    System/Peak GPU Memory (MB)=43,309",
        ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    view = metrics_of([tmp_path]).view
    (table,) = view.tables
    assert (table.rows, table.first_step, table.last_step) == (110, 990, 1099)
    assert {"loss", "grad_norm", "throughput", "memory", "time"} <= set(table.columns)
    assert [(p.kind, p.step) for p in view.points] == [("nan", 1060)]


def test_a_pause_is_told_by_its_line_where_no_step_time_is_printed(tmp_path: Path) -> None:
    for word, kinds in (("Saving model checkpoint to /out/checkpoint-60", {"checkpoint_pause"}), ("", {"stall"})):
        lines = []
        for step in range(1, 121):
            second = step + (200 if step >= 60 else 0)
            lines += [word] * (step == 60 and bool(word))
            lines.append(
                f"2025-03-04 01:{second // 60:02}:{second % 60:02} step: {step} loss: 2.{step % 7} tps: 8,0{step % 9}0"
            )
        (tmp_path / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = {p.kind for p in metrics_of([tmp_path]).view.points}
        assert found == kinds, word
