"""Bars that are drawn again and again on one line: their rows stand as in the file, whatever widths their numbers have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from firstfault.metrics.joint import read_together
from firstfault.metrics.points import alarms, find_points
from firstfault.pipelines.metrics import opened_tables

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.metrics.steps import Steps


def bars(count: int, *, end: str = "\r", bad: int | None = None) -> str:
    text = []
    for n in range(1, count + 1):
        loss = "nan" if bad is not None and n >= bad else f"{2 + 8 * math.exp(-n / 60):.3g}"
        text.append(
            f" {100 * n // count:2d}%|####      | {n}/{count} [00:{n % 60:02d}<10:10, {0.8 + n % 7 / 100:.2f}s/it, loss={loss}]"
        )
    return end.join(text) + "\n"


def table_of(path: Path, text: str) -> Steps:
    path.write_text(text, newline="")
    with opened_tables([str(path)]) as (_, tables, _):
        (table,) = tables
        return table


@pytest.mark.parametrize("count", [30, 400, 1200])
def test_rows_of_one_line_stand_in_the_order_of_the_file(tmp_path: Path, count: int) -> None:
    table = table_of(tmp_path / "train.log", bars(count))
    assert table.columns["step"].values.tolist() == list(range(1, count + 1))
    assert set(table.columns) == {"step", "loss", "step_time"}
    assert table.attempt.max() == 1
    assert alarms(find_points([table])) == []


def test_a_bar_reads_as_the_same_lines_do(tmp_path: Path) -> None:
    one = table_of(tmp_path / "bar.log", bars(500))
    many = table_of(tmp_path / "lines.log", bars(500, end="\n"))
    for name, column in many.columns.items():
        assert one.columns[name].values.tolist() == column.values.tolist()


def test_what_lies_far_from_a_new_epoch_is_not_laid_to_it(tmp_path: Path) -> None:
    text = "".join(
        "\r".join(f"Epoch {e}: {n // 2:3d}%|##   | {n}/200 [00:10<00:20, 1.20s/it, loss={'nan' if e and n > 90 else 2.5 + n % 5 / 50}]" for n in range(1, 201)) + "\n"
        for e in range(2)
    )  # fmt: skip
    table = table_of(tmp_path / "bar.log", text)
    points = find_points([table])
    assert [(p.kind.value, p.step) for p in points] == [("nan", 91.0)]
    assert not any("new pass" in r.claim for r in read_together([table], points, []))
