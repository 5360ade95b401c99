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
    assert "nccl_trace_rank_0: not read" in said.err
    assert "what to do" in said.err


def test_the_table_names_who_is_waited_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run(["flight-recorder", str(RECORDED / "moe16-lock-gil" / "dumps")])
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(("37 ", "38 "))]
    assert [row.split("  ")[-1].strip() for row in rows] == ["9 (absent)", "14 (absent)"]
    assert max(map(len, out.splitlines())) <= 100


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
