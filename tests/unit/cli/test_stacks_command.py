"""`firstfault stacks`: one row a place, the odd one first, the tree, JSON by its schema's name, and inputs without stacks."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from click.testing import CliRunner

from firstfault.cli.stacks import command
from firstfault.report import schema

REAL = Path(__file__).parents[1] / "readers" / "stacks"


def run(*arguments: str):
    return CliRunner().invoke(command, [*arguments, "--exit-zero"], standalone_mode=False)


def two_ranks(tmp_path: Path) -> Path:
    for name in ("pyspy-rank0.txt", "pyspy-rank1.txt"):
        (tmp_path / name).write_bytes((REAL / name).read_bytes())
    return tmp_path


def test_rows_and_tree(tmp_path: Path) -> None:
    out = run(str(two_ranks(tmp_path))).output
    assert "all_reduce (distributed_c10d.py:3252)" in out
    assert "load_batch (stacks.py:5)" in out
    assert "pyspy-rank1.txt:5" in out
    assert "<module> (stacks.py:15)  [0-1]" in out


def test_json(tmp_path: Path) -> None:
    found = json.loads(run(str(two_ranks(tmp_path)), "--format", "json").output)
    assert found["schema"] == "firstfault.stacks/1"
    jsonschema.Draft202012Validator(json.loads(schema.published("stacks"))).validate(found)
    assert {tuple(p["ranks"]): p["doing"] for p in found["places"]} == {(0,): "collective", (1,): "data"}
    assert all(p["evidence"][0]["file"].startswith("pyspy-rank") for p in found["places"])
    assert found["tree"][0] == {"depth": 0, "frame": "<module> (stacks.py:15)", "ranks": [0, 1], "others": []}


def test_without_stacks(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("step 1/10 loss 2.0\nstep 2/10 loss 1.9\n", encoding="utf-8")
    assert "No stack dump is in this input" in run(str(tmp_path)).output


def test_nothing_leaves_through_a_frame(tmp_path: Path) -> None:
    text = (REAL / "pyspy-rank1.txt").read_text(encoding="utf-8")
    (tmp_path / "pyspy-rank1.txt").write_text(
        text.replace("stacks.py\n", "stacks.py --api_key=sk-Ab12Cd34Ef56Gh78Ij90Kl12\n", 1), encoding="utf-8"
    )
    (tmp_path / "pyspy-rank0.txt").write_bytes((REAL / "pyspy-rank0.txt").read_bytes())
    for form in ("text", "json"):
        assert "sk-Ab12" not in run(str(tmp_path), "--format", form).output
