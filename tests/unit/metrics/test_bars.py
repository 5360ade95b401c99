"""Bars that are drawn again and again on one line: their rows stand as in the file, whatever widths their numbers have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from firstfault.metrics import blocks, read
from firstfault.metrics.joint import read_together
from firstfault.metrics.points import alarms, find_points
from firstfault.pipelines.metrics import opened_tables
from firstfault.readers.open import open_inputs

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


@pytest.mark.parametrize("size", [64, 150, 1000, 1 << 20])
@pytest.mark.parametrize("share", [200, 5000, 1 << 30])
@pytest.mark.parametrize("ends", ["\r", "\n", "\r\n", "\r\r\n\r"])
def test_blocks_may_end_within_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, share: int, ends: str
) -> None:
    monkeypatch.setattr(read, "BLOCK", size)
    monkeypatch.setattr(blocks, "PIECE", size)
    text = "start\n" + bars(150) + bars(90, end=ends) + "no step\rat all\n" + bars(70, end="\r")[:-1]
    (tmp_path / "train.log").write_bytes(text.encode())
    pieces = [(n, m) for n, line in enumerate(text.split("\n"), 1) for m, p in enumerate(line.split("\r")) if "%|" in p]
    found = []
    with open_inputs([str(tmp_path)]) as opened:
        (source,) = opened.sources
        end, line = opened.store.size(source.id), 0
        for start in range(0, end, share):
            parts, count = read.read_range(opened.store, source.id, start, min(start + share, end))
            for part in parts:
                place = part.columns.get(blocks.PLACE, [0] * len(part.line))
                found += zip((part.line + line).tolist(), map(int, place), part.columns["step"].tolist(), strict=True)
            line += count
    assert line == text.count("\n") + 1
    assert [step for _, _, step in sorted(found)] == [*range(1, 151), *range(1, 91), *range(1, 71)]
    if ends != "\r\n":
        assert sorted((n, m) for n, m, _ in found) == pieces
