"""Tables with a header: whole columns at once give what reading row by row gives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from firstfault.metrics.delimited import _by_columns, _by_polars, _by_rows, header_of
from firstfault.metrics.read import read_source_steps
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.metrics.blocks import Part

HEAD = "epoch,step,train_loss_step,val_loss,lr-AdamW,note"


def told(parts: list[Part]) -> list[tuple[int, dict[str, str]]]:
    rows = [
        (int(line), {name: repr(float(values[i])) for name, values in part.columns.items()})
        for part in parts
        for i, line in enumerate(part.line)
    ]
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("seed", range(20))
def test_columns_give_what_rows_give(seed: int) -> None:
    rng = random.Random(seed)
    cell = (
        lambda: str(rng.random()),
        lambda: "",
        lambda: "nan",
        lambda: f"{rng.random():.3e}",
        lambda: str(rng.randrange(10**17)),
    )
    lines = [",".join(rng.choice(cell)() for _ in range(5)) + ",words" for _ in range(300)]
    lines += [",,,,,"] if seed % 2 else []
    header = header_of(HEAD.encode())
    assert header is not None
    block = ("\n".join(lines) + "\n").encode()
    quick = _by_columns(block, 7, header)
    assert quick
    assert told(quick) == told(_by_rows(block, 7, header))
    pytest.importorskip("polars")
    assert told(_by_columns(block, 7, header, _by_polars)) == told(quick)


@pytest.mark.parametrize("cell", ["-nan", "inf", "-Infinity", "1e400", "4.9e-324", " 2.5", "2.5 ", "+3", ".5", "5.", "0.1e-7", "1_000", "none", "0x10", "1e", "12345678901234567.5"])  # fmt: skip
def test_polars_reads_a_cell_as_rows_do_or_leaves_it_to_them(cell: str) -> None:
    pytest.importorskip("polars")
    header = header_of(HEAD.encode())
    assert header is not None
    block = f"0,1,2.5,,1e-4,\n0,2,{cell},,1e-4,\n".encode()
    quick = _by_columns(block, 1, header, _by_polars)
    assert not quick or told(quick) == told(_by_rows(block, 1, header))


QUOTED = {
    "every cell": ['"0","{n}","2.5","","1e-4","a"', 59],
    "a separator inside": ['0,{n},2.5,,1e-4,"a, b"', 59],
    "a line's end inside": ['0,{n},2.5,,1e-4,"a\nb"', 59],
    "a mark inside": ['0,{n},2.5,,1e-4,"a ""b"" c"', 59],
    "a mark in the middle": ['0,{n},2.5,,1e-4,5" disk', 59],
}


@pytest.mark.parametrize("form", QUOTED)
def test_quotation_marks_cost_no_number(tmp_path: Path, form: str) -> None:
    line, count = QUOTED[form]
    lines = [HEAD, *(str(line).format(n=n) for n in range(1, int(count) + 1))]
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_inputs([tmp_path]) as opened:
        (steps,) = [t for s in opened.sources if (t := read_source_steps(opened.store, s)) is not None]
    assert steps.columns["step"].values.tolist() == [float(n) for n in range(1, int(count) + 1)]
    assert set(steps.columns["loss"].values.tolist()) == {2.5}


@pytest.mark.parametrize(
    "odd", ["1,2,3", "0,5,none,,1e-4,", '0,5,"2.5",,1e-4,"a,b"', "", "0,5,\x00,,1e-4,", "0,5,2.5\r,,1e-4,\r"]
)
def test_one_odd_row_costs_no_other_its_number(tmp_path: Path, odd: str) -> None:
    lines = [
        HEAD,
        *(f"0,{n},{2 + n % 7},,1e-4," for n in range(1, 40)),
        odd,
        *(f"0,{n},{2 + n % 7},,1e-4," for n in range(40, 80)),
    ]
    (tmp_path / "metrics.csv").write_bytes("\n".join(lines).encode())
    with open_inputs([tmp_path]) as opened:
        (steps,) = [t for s in opened.sources if (t := read_source_steps(opened.store, s)) is not None]
    got = dict(zip(steps.line.tolist(), steps.columns["step"].values.tolist(), strict=True))
    assert {line: step for line, step in got.items() if line != 41} == {
        **{n + 1: float(n) for n in range(1, 40)},
        **{n + 2: float(n) for n in range(40, 80)},
    }


def test_a_table_of_a_header_alone_has_no_steps(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(HEAD, encoding="utf-8")
    with open_inputs([tmp_path]) as opened:
        assert [read_source_steps(opened.store, s) for s in opened.sources] == [None]


@pytest.mark.parametrize("comma", [".", ","])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_table_parted_by_semicolons(tmp_path: Path, comma: str, quote: str) -> None:
    rows = [f"{20 * n};9.{n:05d};3.358;{'nan' if n == 30 else '1.200e-05'};14.545" for n in range(1, 60)]
    text = "\n".join(["step;loss;grad_norm;lr;step_time", *rows]) + "\n"
    text = "\n".join(";".join(f"{quote}{c}{quote}" for c in row.split(";")) for row in text.splitlines())
    (tmp_path / "metrics.csv").write_text(text.replace(".", comma) + "\n", encoding="utf-8")
    with open_inputs([tmp_path]) as opened:
        (steps,) = [t for s in opened.sources if (t := read_source_steps(opened.store, s)) is not None]
    assert steps.columns["step"].values.tolist() == [20.0 * n for n in range(1, 60)]
    assert steps.columns["loss"].values.tolist() == [float(f"9.{n:05d}") for n in range(1, 60)]
    assert [n for n, v in enumerate(steps.columns["lr"].values.tolist(), 1) if v != v] == [30]
