"""Answers in a given time: what is read by then, what is said of the rest."""

from __future__ import annotations

import io
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from firstfault.model import until
from firstfault.model.words import Category, CoverageState
from firstfault.pipelines.asked import checked
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions

if TYPE_CHECKING:
    from pathlib import Path

STEP = "iteration {:8d}/ 1000 | consumed samples: 100 | elapsed time per iteration (ms): 200.0 | loss: 2.0 |\n"
BROKEN = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/w/train.py", line 3, in <module>\n'
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def long_log(path: Path, end: str) -> None:
    """Some megabytes of steps, then an end."""
    path.write_text("".join(STEP.format(n) for n in range(1, 60_001)) + end, encoding="utf-8")


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_what_there_is_no_time_for_is_damaged_by_it(engine: str, tmp_path: Path) -> None:
    long_log(tmp_path / "a.log", BROKEN)
    found = diagnose([tmp_path], DiagnoseOptions(engine=engine, deadline=1e-6))  # type: ignore[arg-type]
    assert {row.reason for row in found.coverage} == {until.OVER}
    assert found.verdict.category is Category.UNKNOWN


class Late:
    """A clock that jumps by an hour at one look at it."""

    def __init__(self, at: int) -> None:
        self.looks = 0
        self.at = at

    def monotonic(self) -> float:
        self.looks += 1
        return 3600.0 * (self.looks > self.at)


def test_a_file_is_left_off_between_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long_log(tmp_path / "a.log", BROKEN)
    size = (tmp_path / "a.log").stat().st_size
    reached = []
    for at in range(2, 40):
        monkeypatch.setattr(until, "time", Late(at))
        found = diagnose([tmp_path], DiagnoseOptions(engine="inline", deadline=10))
        row = next((r for r in found.coverage if r.state is CoverageState.DAMAGED), None)
        if row is None and reached:
            break
        if row is not None:
            reached.append(row.bytes)
            assert found.verdict.category is Category.UNKNOWN
            assert "1 of 1 files was not read to the end" in found.verdict.summary.replace("\n", " ") or not row.bytes
    assert any(0 < read < size for read in reached)
    assert found.verdict.category is Category.GPU_CUDA  # with time enough


def test_an_input_that_never_ends_is_left(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, BROKEN.encode())
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb"):
        found = diagnose(["-"], DiagnoseOptions(engine="inline", deadline=2), stdin=stream)
    assert found.verdict.category is Category.GPU_CUDA
    assert "best answer so far" in found.verdict.summary


def test_it_needs_neither_signals_nor_the_main_thread(tmp_path: Path) -> None:
    long_log(tmp_path / "a.log", BROKEN)
    found = []
    asked = DiagnoseOptions(deadline=1e-6)
    thread = threading.Thread(target=lambda: found.append(diagnose([tmp_path], asked)))
    thread.start()
    thread.join()
    assert {row.reason for row in found[0].coverage} == {until.OVER}


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(PipelineError, match="no time"):
        checked(DiagnoseOptions(deadline=seconds))


def test_the_stages_follow_each_other() -> None:
    now = time.monotonic()
    asked = until.stages(100)
    moments = [asked.opening.at, asked.scanning.at, asked.reading.at, asked.beside.at]
    assert None not in moments
    assert moments == sorted(moments)  # type: ignore[type-var]
    assert all(now < at < now + 101 for at in moments if at is not None)
    assert not until.stages(None).opening.over()
    assert until.NEVER.left is None


def test_nothing_is_said_of_time_where_there_was_enough() -> None:
    found = diagnose(["-"], DiagnoseOptions(deadline=600), stdin=io.BytesIO(BROKEN.encode()))
    assert found == diagnose(["-"], stdin=io.BytesIO(BROKEN.encode()))
