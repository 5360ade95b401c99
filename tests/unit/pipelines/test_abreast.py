"""Many files are read by several processes as one process would read them."""

from __future__ import annotations

import os

import msgspec
import pytest

from firstfault.pipelines import abreast, beforehand, site
from firstfault.pipelines.beforehand import shown_of
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers.open import open_inputs
from firstfault.scan.stretch import STOPPED
from firstfault.signatures.library import load_library

LINE = (
    "[rank{r}]:[E811 21:37:26.2321{r:02}190 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=905, OpType=ALLREDUCE, NumelIn=314, NumelOut=314, Timeout(ms)=600000) ran for 600027 milliseconds before "
    "timing out.\n"
)


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """A job of 70 ranks of which one never came, and a log so large that it is split."""
    monkeypatch.setattr(abreast, "ENOUGH", 1)
    monkeypatch.setattr(abreast, "processors", lambda: 2)
    for rank in range(70):
        head = f"2025-08-11 21:27:05,632 - INFO - [rank {rank}] rank={rank} world_size=70 host=node-{rank:02}\n"
        text = head if rank == 41 else head + LINE.format(r=rank)
        (tmp_path / f"rank-{rank:02}.log").write_text(text, encoding="utf-8")
    return tmp_path


def told(logs, engine, progress=None):
    return msgspec.json.encode(diagnose([logs], DiagnoseOptions(engine=engine), progress=progress))


def test_the_answer_is_that_of_one_process(logs):
    seen = []
    alone = told(logs, "inline")
    assert told(logs, "auto", seen.append) == alone
    assert b'"ranks":[41]' in alone
    assert sum(seen) > 0


def test_a_file_that_is_split_is_scanned_before(logs, monkeypatch):
    (logs / "rank-00.log").write_text(LINE.format(r=0) + "nothing\n" * 4000, encoding="utf-8")
    alone = told(logs, "inline")
    monkeypatch.setattr(abreast, "UNDIVIDED", 8000)
    assert told(logs, "auto") == alone


def test_few_or_small_files_are_read_in_turn(logs, monkeypatch):
    monkeypatch.setattr(abreast, "_abreast", lambda *_: pytest.fail("shared out"))
    monkeypatch.setattr(abreast, "ENOUGH", 1 << 30)
    told(logs, "auto")
    monkeypatch.setattr(abreast, "ENOUGH", 1)
    monkeypatch.setattr(abreast, "FEWEST", 71)
    told(logs, "auto")


@pytest.mark.parametrize("engine", ["auto", "inline"])
def test_an_interrupt_gives_what_is_known_so_far(logs, monkeypatch, engine):
    read_source = abreast.read_source
    asked = []

    def interrupted(*values):
        asked.append(1)
        if len(asked) > 8:
            raise KeyboardInterrupt
        return read_source(*values)

    monkeypatch.setattr(abreast, "read_source", interrupted)
    monkeypatch.setattr(site, "read_source", interrupted)
    diagnosis = diagnose([logs], DiagnoseOptions(engine=engine))
    stopped = [row for row in diagnosis.coverage if row.reason == STOPPED]
    assert 0 < len(stopped) < 70
    assert diagnosis.ranks.seen > 0


def test_what_a_copy_works_out_beforehand_is_what_is_worked_out_here(logs, monkeypatch):
    alone = told(logs, "inline")
    monkeypatch.setattr(beforehand, "FEWEST", 1)
    monkeypatch.setattr(beforehand, "processors", lambda: 2)
    taken = []
    monkeypatch.setattr(beforehand, "shown_of", lambda scene: taken.append(scene) or shown_of(scene))
    assert told(logs, "auto") == alone
    assert not taken  # in this process


def test_a_copy_that_dies_costs_no_answer(logs, monkeypatch):
    alone = told(logs, "inline")
    monkeypatch.setattr(beforehand, "FEWEST", 1)
    monkeypatch.setattr(beforehand, "processors", lambda: 2)
    monkeypatch.setattr(beforehand, "_serve", lambda *_: os._exit(9))
    assert told(logs, "auto") == alone


def test_equal_fields_of_many_ranks_are_one_object(logs):
    with open_inputs([logs]) as opened:
        found = abreast.gather(opened, load_library(()), DiagnoseOptions())
    waits = [e for r in found.read for e in r.events if e.signature == "framework.world_size"]
    assert len(waits) > 1
    assert len({id(e.fields["world_size"]) for e in waits}) == 1
