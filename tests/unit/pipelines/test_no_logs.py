"""Folders that hold only what tells of a moment: the answer says what it shows, no surer than it is, and which command shows all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from allocator import GIB, MIB, Allocator, OutOfMemory, pickled, stack
from memory_example import KEEPS, WHERE, example

from firstfault.model.words import ActionKind, Category, CoverageState, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

if TYPE_CHECKING:
    from firstfault.model.diagnosis import Diagnosis

ROOT = Path(__file__).parents[3]
OPEN = (None, Category.UNKNOWN, Strength.UNKNOWN, [], [])
"""Failed or not, category, strength, culprits and first failed of what decides nothing."""
READS = """Process 4242: python train.py --local_rank=5
Python v3.11.4 (/usr/bin/python3.11)

Thread 4242 (active): "MainThread"
    read_shard (srv/app/shards.py:31)
    __getitem__ (srv/app/data.py:77)
    train (srv/app/train.py:88)
    <module> (srv/app/train.py:141)
"""


def full(seed: int = 0) -> bytes:
    """A snapshot of a process that ran out, of which no place grows."""
    device = Allocator(16 * GIB)
    try:
        for _ in range(400):
            device.alloc((100 + seed) * MIB, stack(("/srv/app/model.py", 9, "build")))
    except OutOfMemory:
        return pickled(device.snapshot())
    raise AssertionError("it never ran out")


def verdict_of(folder: Path) -> tuple[bool | None, Category, Strength, list[int], list[int]]:
    verdict = diagnose([folder]).verdict
    return verdict.failed, verdict.category, verdict.strength, verdict.culprits.ranks, verdict.first_failed.ranks


def steps(found: Diagnosis) -> str:
    return "\n".join(found.verdict.action.steps)


def test_the_example_is_what_its_builder_makes_and_its_line_is_named():
    assert WHERE.read_bytes() == example()
    found = diagnose([WHERE.parent])
    assert verdict_of(WHERE.parent) == OPEN
    assert "Device 1 of rank 1 ran out of memory" in found.verdict.summary
    leak = next(f for f in KEEPS if f["filename"] != "??")
    assert f"{leak['name']} (metrics.py:{leak['line']}) keeps growing" in found.verdict.summary
    assert "firstfault memory PATH" in steps(found)


def test_a_failed_request_is_told_with_whose_it_is_and_decides_nothing(tmp_path):
    for rank in range(4):
        (tmp_path / f"rank{rank}_memory_snapshot.pickle").write_bytes(full(rank))
    verdict = diagnose([tmp_path]).verdict
    assert verdict_of(tmp_path) == OPEN
    assert "Device 0 of rank 0 ran out of memory" in verdict.summary
    assert "2 more devices ran full too" in verdict.summary
    assert "build (model.py:9)" in verdict.summary


def test_a_snapshot_without_a_failed_request_decides_nothing(tmp_path):
    device = Allocator(16 * GIB)
    for _ in range(20):
        device.alloc(100 * MIB, KEEPS)
    (tmp_path / "rank3_memory_snapshot.pickle").write_bytes(pickled(device.snapshot()))
    found = diagnose([tmp_path])
    assert verdict_of(tmp_path) == OPEN
    assert "no request failed" in found.verdict.summary
    assert "remember_output (metrics.py:57)" in found.verdict.summary


def test_one_stack_is_shown_and_decides_nothing(tmp_path):
    (tmp_path / "local5.txt").write_text(READS)
    found = diagnose([tmp_path])
    assert verdict_of(tmp_path) == OPEN
    assert "read_shard (shards.py:31)" in found.verdict.summary
    assert "firstfault stacks PATH" in steps(found)


def test_with_the_log_beside_it_the_log_decides(tmp_path):
    (tmp_path / "rank3_memory_snapshot.pickle").write_bytes(full())
    (tmp_path / "rank3.log").write_text(
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/srv/app/train.py", line 4, in <module>\n'
        "[rank3]:     main(cfg)\n[rank3]: KeyError: 'no_such_field'\n"
    )
    assert verdict_of(tmp_path)[1] is Category.SOFTWARE


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("held", ["nothing", "another"])
def test_a_storage_folder_without_daemon_logs_is_told(tmp_path, inside, held):
    job = tmp_path / "job"
    shutil.copytree(ROOT / "tests/generated/rank_oom/logs", job)
    store = (job if inside else tmp_path) / "store"
    store.mkdir()
    if held == "another":
        (store / "minio.log").write_text("API: SYSTEM()\nTime: 09:12:44 UTC 05/31/2026\nError: drive not found\n")
    found = diagnose([job], DiagnoseOptions(storage=(str(store),)))
    rows = [r for r in found.coverage if "no log of a storage daemon" in r.reason]
    assert [(r.file, r.state) for r in rows] == [("store/", CoverageState.MISSING)]
    assert ("1 other file lies there" in rows[0].reason) is (held == "another")
    bare = diagnose([job])
    assert (found.verdict.category, found.verdict.culprits) == (bare.verdict.category, bare.verdict.culprits)
    assert bare.verdict.action.kind is not ActionKind.NONE


@pytest.mark.parametrize("packed", [False, True])
def test_a_storage_folder_with_daemon_logs_is_not(tmp_path, packed):
    case = ROOT / "tests/cases/aistore-get-batch-incomplete/logs"
    store = tmp_path / "store"
    store.mkdir()
    if packed:
        shutil.make_archive(str(store / "all"), "gztar", case / "ais_logs")
    else:
        shutil.copytree(case / "ais_logs", store / "deep" / "down")
    logs = [p for p in case.iterdir() if p.is_file()]
    found = diagnose(logs, DiagnoseOptions(storage=(str(store), str(store))))
    assert found.storage is not None
    assert not [r for r in found.coverage if r.state is CoverageState.MISSING]
