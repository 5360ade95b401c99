"""What a diagnosis takes from tables of metrics: the first bad step, and the last one where no log tells a step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

if TYPE_CHECKING:
    from pathlib import Path

STOPPED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/app/train.py", line 210, in <module>
[rank0]:     main()
[rank0]: FloatingPointError: loss is nan, stopping training
"""
HUNG = "[rank0]:[E304 02:14:06.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1986, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800417 milliseconds before timing out.\n"


def _rows(bad: int | None) -> list[dict[str, float]]:
    return [
        {"step": s, "loss": float("nan") if bad is not None and s >= bad else 2.0 + s % 7 / 50}
        for s in range(10, 510, 10)
    ]


def _write(folder: Path, form: str, rows: list[dict[str, float]]) -> None:
    if form == "csv":
        text = "step,loss\n" + "".join(f"{r['step']},{r['loss']}\n" for r in rows)
    elif form == "jsonl":
        text = "".join(json.dumps(r) + "\n" for r in rows)
    else:
        text = json.dumps({"epoch": 1.0, "log_history": rows}, indent=2)
    (folder / {"csv": "metrics.csv", "jsonl": "metrics.jsonl"}.get(form, "trainer_state.json")).write_text(text)


@pytest.mark.parametrize("form", ["csv", "jsonl", "state"])
def test_the_first_bad_step_stands_in_a_table(tmp_path: Path, form: str) -> None:
    _write(tmp_path, form, _rows(460))
    (tmp_path / "rank0.err").write_text(STOPPED, encoding="utf-8")
    summary = diagnose([tmp_path], DiagnoseOptions()).verdict.summary
    assert "First bad step 460, by the records of" in summary


@pytest.mark.parametrize("form", ["csv", "jsonl", "state"])
def test_the_last_step_stands_in_a_table(tmp_path: Path, form: str) -> None:
    _write(tmp_path, form, _rows(None))
    (tmp_path / "rank0.err").write_text(HUNG, encoding="utf-8")
    summary = diagnose([tmp_path], DiagnoseOptions()).verdict.summary
    assert summary.endswith("tell is 500.")
    assert "First bad step" not in summary
