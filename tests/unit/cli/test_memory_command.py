"""`firstfault memory`: the place that grows, sums at the failed request, JSON by its schema's name, and inputs without any."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from allocator import GIB, MIB, Allocator, OutOfMemory, frame, pickled, stack
from click.testing import CliRunner

from firstfault.cli.memory import command

if TYPE_CHECKING:
    from pathlib import Path

KEPT = stack(("/srv/app/metrics.py", 57, "remember"), ("/srv/app/train.py", 93, "step"))
STEP = stack(("/srv/app/model.py", 41, "forward"), ("/srv/app/train.py", 88, "step"))
BACKWARD = [frame("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr&)")]


def run(*arguments: str):
    return CliRunner().invoke(command, [*arguments, "--exit-zero"], standalone_mode=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    device = Allocator(8 * GIB)
    try:
        while True:
            now = [device.alloc(50 * MIB, STEP) for _ in range(6)]
            device.alloc(40 * MIB, KEPT)
            now.append(device.alloc(30 * MIB, BACKWARD))
            for address in now:
                device.release(address)
    except OutOfMemory:
        pass
    (tmp_path / "rank4_memory_snapshot.pickle").write_bytes(pickled(device.snapshot(device=1)))
    (tmp_path / "train.log").write_text("step 1/10 loss 2.0\nstep 2/10 loss 1.9\n", encoding="utf-8")
    return tmp_path


def test_what_grows_is_told_with_its_place(job: Path) -> None:
    out = run(str(job)).output
    assert "Device 1 of rank 4 (rank4_memory_snapshot.pickle)" in out
    assert "remember (metrics.py:57); keeps growing" in out
    assert "What to do: Look at /srv/app/metrics.py:57" in out


def test_json(job: Path) -> None:
    found = json.loads(run(str(job), "--format", "json").output)
    assert found["schema"] == "firstfault.memory/1"
    (row,) = found["rows"]
    assert (row["rank"], row["device"], row["use"], row["ooms"]) == (4, 1, "growing", 1)
    assert row["places"][0]["bytes"] == row["places"][0]["kept"] == row["places"][0]["blocks"] * 40 * MIB
    assert sum(p["bytes"] for p in row["places"]) == row["held"]


def test_without_snapshots(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("step 1/10 loss 2.0\nstep 2/10 loss 1.9\n", encoding="utf-8")
    assert "No memory snapshot is in this input" in run(str(tmp_path)).output


def test_nothing_leaves_through_a_frame(tmp_path: Path) -> None:
    device = Allocator(8 * GIB)
    secret = "sk-Ab12Cd34Ef56Gh78Ij90Kl12"
    device.alloc(90 * MIB, stack((f"/srv/app/--api_key={secret}/\x1b[31mx.py", 3, "make")))
    (tmp_path / "snap_rank0.pickle").write_bytes(pickled(device.snapshot()))
    for form in ("text", "json"):
        out = run(str(tmp_path), "--format", form).output
        assert "make" in out
        assert secret not in out
        assert "\x1b" not in out
