"""Every recorded job: the verdict from its dumps against what was done to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.cli.flight_recorder import command
from firstfault.pipelines.diagnose import diagnose

HERE = Path(__file__).parent
FOLDERS = sorted(p.parent for p in HERE.glob("*/truth.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_all_that_were_disturbed_are_named_and_no_victim(folder):
    truth = json.loads((folder / "truth.json").read_text())
    found = diagnose([folder / "dumps"])
    verdict = found.verdict
    assert verdict.culprits.ranks == (truth["culprits"] if truth["named"] else [])
    assert verdict.category in truth["categories"]
    assert verdict.failed is (True if truth["named"] else None)
    assert found.verification.withdrawn == []
    assert found.verification.claims == found.verification.reread
    assert all(row.state == "read" for row in found.coverage)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_the_view_says_the_same(folder):
    truth = json.loads((folder / "truth.json").read_text())
    said = CliRunner().invoke(command, [str(folder / "dumps"), "--format", "json"], standalone_mode=False)
    view = json.loads(said.stdout)
    assert view["verdict"]["culprits"]["ranks"] == (truth["culprits"] if truth["named"] else [])
    assert view["missing"] == []


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f.name.startswith("moe16")], ids=lambda f: f.name)
def test_without_the_dumps_of_the_disturbed_nobody_else_is_named(folder, tmp_path):
    truth = json.loads((folder / "truth.json").read_text())
    for file in (folder / "dumps").iterdir():
        if int(file.name.rsplit("_", 1)[1]) not in truth["culprits"]:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    verdict = diagnose([tmp_path]).verdict
    assert verdict.failed
    assert set(verdict.culprits.ranks) <= set(truth["culprits"])
    assert verdict.culprits.strength in {"possible", "unknown"}


def test_the_name_of_a_file_does_not_matter_where_the_content_tells_the_rank(tmp_path):
    folder = HERE / "moe16-lock-gil"
    for file in (folder / "dumps").iterdir():
        (tmp_path / f"{int(file.name.rsplit('_', 1)[1]) * 7919 % 104729:x}.bin").write_bytes(file.read_bytes())
    assert diagnose([tmp_path]).verdict.culprits.ranks == [9, 14]
