"""`firstfault flight-recorder`: exit codes, formats, and what is said where no dump can be used."""

import json
import os
from pathlib import Path

import pytest

from firstfault.cli.main import run

RECORDED = Path(__file__).resolve().parents[2] / "recorded"


@pytest.mark.parametrize(
    ("folder", "code"), [("moe16-lock-gil", 1), ("gloo-world-optype-bad0", 1), ("gloo-world-p2p-bad3", 3)]
)
def test_exit_codes(folder, code, capsys):
    assert run(["flight-recorder", str(RECORDED / folder / "dumps")]) == code
    assert run(["flight-recorder", "--exit-zero", str(RECORDED / folder / "dumps")]) == 0
    assert capsys.readouterr().out


def test_what_is_no_dump_is_said(tmp_path, capsys):
    (tmp_path / "train.log").write_text("step 1\n")
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x02}q\x00X\x09\x00\x00\x00pg_configq\x01")
    assert run(["flight-recorder", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "nccl_trace_rank_0: damaged, not read: it is cut off" in said.err
    assert "what to do" in said.err


def test_a_log_is_said_to_be_something_else(tmp_path, capsys):
    (tmp_path / "train.log").write_text("step 1\n")
    assert run(["flight-recorder", str(tmp_path / "train.log")]) == 2
    said = capsys.readouterr().err
    assert "read, as something else" in said
    assert "no file was found" not in said


def test_the_table_names_who_is_waited_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run(["flight-recorder", str(RECORDED / "moe16-lock-gil" / "dumps")])
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(("37 ", "38 "))]
    assert [row.split("  ")[-1].strip() for row in rows] == ["9 (absent)", "14 (absent)"]
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("folder", "issued", "rest"),
    [
        ("gloo-world-missing-bad2", "4-5", ["all_reduce 5", "0-1, 3", "2 (absent)"]),
        ("gloo-world-shape-bad0", "5", ["no states recorded"]),
        ("gloo-world-slow-bad1", "5", ["no states recorded"]),
    ],
)
def test_the_table_of_gloo_names_who_never_came_and_else_says_that_no_states_are_recorded(
    folder, issued, rest, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "100")
    run(["flight-recorder", str(RECORDED / folder / "dumps")])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("0 default_pg")]
    assert [cell.strip() for cell in row.split("  ") if cell.strip()] == ["0 default_pg", "4", issued, *rest]


def test_json_is_stable_and_holds_the_difference(capsys):
    folder = str(RECORDED / "gloo-world-shape-bad0" / "dumps")
    run(["flight-recorder", folder, "--format", "json"])
    first = capsys.readouterr().out
    run(["flight-recorder", folder, "--format", "json"])
    assert capsys.readouterr().out == first
    view = json.loads(first)
    assert view["schema"] == "firstfault.flight_recorder/1"
    assert (view["difference"]["kind"], view["difference"]["odd"]) == ("size", [0])
    assert view["redaction"] == "secrets"


def test_share_takes_names_out(capsys, tmp_path):
    folder = str(RECORDED / "gloo-world-shape-bad0" / "dumps")
    run(["flight-recorder", folder, "--share"])
    assert "/home/user/" not in capsys.readouterr().out
    assert run(["flight-recorder", folder, "--share", "--raw"]) == 2
    assert run(["flight-recorder", folder, "--output", os.fspath(tmp_path / "view.txt")]) == 1
    assert "First difference" in (tmp_path / "view.txt").read_text(encoding="utf-8")


def copied(folder, to):
    for file in (RECORDED / folder / "dumps").iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def test_a_damaged_file_stands_in_the_foot_and_in_the_coverage(tmp_path, capsys):
    folder = copied("moe16-lock-gil", tmp_path)
    whole = (folder / "_dump_3").read_bytes()
    (folder / "_dump_3").write_bytes(whole[: len(whole) // 2])
    run(["flight-recorder", str(folder), "--format", "json"])
    view = json.loads(capsys.readouterr().out)
    rows = {row["file"]: row for row in view["coverage"]}
    assert (rows["_dump_3"]["state"], rows["_dump_3"]["reason"]) == ("damaged", "not read: it is cut off")
    assert view["missing"] == [3]
    run(["flight-recorder", str(folder)])
    out = " ".join(capsys.readouterr().out.split())
    assert "no dump of rank 3" in out
    assert "_dump_3 (not read: it is cut off)" in out


def test_its_lines_are_read_again_and_its_form_is_published(capsys):
    import jsonschema

    from firstfault.report import schema

    run(["flight-recorder", str(RECORDED / "moe16-lock-gil" / "dumps"), "--format", "json"])
    view = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(json.loads(schema.published("flight-recorder"))).validate(view)
    assert view["verification"]["claims"] == view["verification"]["reread"] > 0
    assert view["verification"]["withdrawn"] == []
    assert [e["file"] for e in view["key_entries"]][:2] == ["_dump_9", "_dump_14"]


def test_the_verdict_is_that_of_the_whole_input(tmp_path, capsys):
    folder = copied("gloo-world-shape-bad0", tmp_path)
    run(["diagnose", str(folder), "--format", "json"])
    whole = json.loads(capsys.readouterr().out)
    run(["flight-recorder", str(folder), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == whole["verdict"]


def test_an_attempt_that_is_not_that_of_the_dumps_is_refused(tmp_path, capsys):
    folder = copied("gloo-world-shape-bad0", tmp_path)
    assert run(["flight-recorder", str(folder), "--attempt", "1"]) == 1
    assert run(["flight-recorder", str(folder), "--attempt", "7"]) == 2
    assert "--attempt" in capsys.readouterr().err


def test_groups_with_nothing_unfinished_are_shown_on_demand(capsys):
    folder = str(RECORDED / "moe16-lock-gil" / "dumps")
    run(["flight-recorder", folder])
    short = capsys.readouterr().out
    run(["flight-recorder", folder, "--all"])
    whole = capsys.readouterr().out
    assert "25 groups with nothing unfinished" in short
    assert "nothing unfinished (`--all`)" not in whole
    assert len(whole.splitlines()) >= len(short.splitlines()) + 24
