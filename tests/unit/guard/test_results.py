"""Result files of any age beside each other: what is absent is `-`, never 0, and no file stops the table."""

import json

import pytest

from firstfault.guard.results import read_results
from firstfault.pipelines.publish import publish_results


def table(path):
    return [line.split() for line in publish_results(read_results(str(path)), width=200).splitlines()]


def test_old_and_new_and_adapters_files_stand_in_one_table(tmp_path):
    """The first wrote `grad_norm_mean`, the adapter of another library has none, the new schema nests."""
    (tmp_path / "old.json").write_text(json.dumps({"name": "ddp", "loss": 2.5, "grad_norm_mean": 0.5}))
    (tmp_path / "zero.json").write_text(
        json.dumps({"name": "zero2", "loss": 2.25, "grad_norm_mean": None, "status": "ok"})
    )
    (tmp_path / "new.json").write_text(
        json.dumps({"schema": "bench/2", "trial": "fsdp", "metrics": {"loss": 0, "tokens_per_s": 1200}})
    )
    assert table(tmp_path) == [
        ["trial", "state", "tokens_per_s", "loss", "grad_norm_mean"],
        ["fsdp", "-", "1200", "0", "-"],
        ["ddp", "-", "-", "2.5", "0.5"],
        ["zero2", "ok", "-", "2.25", "-"],
    ]


def test_a_column_that_a_file_names_without_a_value_is_shown_absent(tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a", "loss": null}')
    assert table(tmp_path) == [["trial", "state", "loss"], ["a", "-", "-"]]


def test_a_trial_of_the_guard_without_fields_of_today_is_read(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "trial.json").write_text('{"schema": "firstfault.trial/0", "name": "t", "state": "valid"}')
    (tmp_path / "t" / "result.json").write_text('{"loss": NaN}')
    assert table(tmp_path) == [["trial", "state", "loss"], ["t", "valid", "nan"]]


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "3", "\x00\xff", '[{"name": 5, "metrics": "x"}]', '{"a": {"b": {"c": {"d": 1}}}}']
)
def test_no_file_stops_the_table(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    (tmp_path / "good.json").write_text('{"name": "good", "loss": 1}')
    assert ["good", "-"] in [row[:2] for row in table(tmp_path)]


def test_lines_are_rows(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"run": "a", "loss": 1}\n{"run": "b", "eval": {"acc": 0.5}}\n')
    assert table(tmp_path / "r.jsonl") == [
        ["trial", "state", "loss", "eval.acc"],
        ["a", "-", "1", "-"],
        ["b", "-", "-", "0.5"],
    ]


def test_results_are_given_as_json_with_what_is_absent_kept_apart(tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a", "loss": NaN, "lr": null}')
    (tmp_path / "b.json").write_text('{"name": "b", "tokens_per_s": 5}')
    (tmp_path / "c.json").write_text("no json")
    told = json.loads(publish_results(read_results(str(tmp_path)), "json"))
    assert told["schema"] == "firstfault.results/1"
    assert told["columns"] == ["tokens_per_s", "loss", "lr"]
    assert [(r["name"], r["values"]) for r in told["rows"]] == [
        ("a", {"loss": "nan", "lr": None}),
        ("b", {"tokens_per_s": 5}),
        ("c.json", {}),
    ]
    assert told["rows"][2]["note"] == "it is no JSON"


def test_the_table_speaks_chinese(tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a", "loss": 1}')
    (tmp_path / "c.json").write_text("no json")
    text = publish_results(read_results(str(tmp_path)), width=200, language="zh")
    assert text.split("\n")[0].split() == ["试验", "状态", "loss", "说明"]
    assert "it is no JSON" not in text


def test_a_format_without_results_to_show_is_refused(capfd):
    from firstfault.cli.main import run

    assert run(["guard", "--format", "json", "--", "true"]) == 2
    assert "--show" in capfd.readouterr().err
