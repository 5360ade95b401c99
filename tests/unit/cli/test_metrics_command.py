"""`firstfault metrics` and `firstfault compare`: text, JSON by its schema, export, and what goes wrong in words."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import jsonschema
import pytest
from click.testing import CliRunner

from firstfault.cli.compare import command as compare
from firstfault.cli.metrics import command
from firstfault.pipelines.errors import PipelineError
from firstfault.report.metrics import sparkline
from firstfault.report.schema import published

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    rows = [
        f"step {i} | loss: {'nan' if i >= 80 else f'2.{i % 10}'} | grad_norm: 0.{50 + i % 9}" for i in range(1, 120)
    ]
    (folder / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def run(*arguments: str):
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


def test_text(job: Path) -> None:
    done = run(str(job))
    assert done.return_value == 1
    assert "The loss is no number from step 80 on, to the end; before it was" in done.output
    assert "train.log:80" in done.output
    assert "×" in done.output
    assert run(str(job), "--exit-zero").return_value == 0


def test_json_follows_its_schema(job: Path) -> None:
    found = json.loads(run(str(job), "--format", "json").output)
    jsonschema.validate(found, json.loads(published("metrics")))
    assert found["schema"] == "firstfault.metrics/1"
    assert found["points"][0]["evidence"]["text"].startswith("step 80 | loss: nan")
    assert found["curves"][0]["y"][-1] is None


def test_export(job: Path, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    run(str(job), "--export", str(tmp_path / "t.parquet"))
    frame = polars.read_parquet(tmp_path / "t.parquet")
    assert frame["step"].to_list() == list(range(1, 120))
    assert frame["source"].unique().to_list() == ["train.log"]
    with pytest.raises(PipelineError, match="no form in which a table is written"):
        CliRunner().invoke(
            command, [str(job), "--export", str(tmp_path / "t.xyz")], standalone_mode=False, catch_exceptions=False
        )


def test_no_metrics(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("hello\n", encoding="utf-8")
    with pytest.raises(PipelineError, match="no training metrics there could be used"):
        CliRunner().invoke(command, [str(tmp_path)], standalone_mode=False, catch_exceptions=False)


def test_compare(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.log").write_text((job / "train.log").read_text().replace("nan", "2.5"), encoding="utf-8")
    done = CliRunner().invoke(compare, [str(other), str(job)], standalone_mode=False)
    assert done.return_value == 1
    assert "loss at step 80, the same up to step 79: 2.5 -> nan" in done.output
    found = json.loads(
        CliRunner().invoke(compare, [str(other), str(job), "--format", "json"], standalone_mode=False).output
    )
    jsonschema.validate(found, json.loads(published("compare")))
    assert CliRunner().invoke(compare, [str(job), str(job)], standalone_mode=False).return_value == 0


def test_a_sparkline_shows_the_highest_of_each_stretch_and_what_is_no_number() -> None:
    assert sparkline([1.0, 1.0, 9.0, 1.0, 1.0, 1.0, None, None], 4) == "▁█▁×"
    assert sparkline([], 10) == ""
    assert sparkline([2.0, 2.0], 10) == "▁▁"


def test_the_report_is_printed_where_no_picture_can_be_drawn(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "firstfault.report.plot", raising=False)
    done = run(str(job), "--plot", str(job.parent / "p.svg"))
    assert "The loss is no number from step 80 on" in done.output
    assert isinstance(done.exception, PipelineError)
    assert done.exception.what == "curves cannot be drawn without matplotlib"
