"""Several processes give the answer of one, whatever happens to them."""

from __future__ import annotations

import os
import signal

import pytest

from firstfault.model.words import CoverageState
from firstfault.readers.open import open_inputs
from firstfault.scan import executors, pool, stretch, tasks
from firstfault.scan.engines import EngineError
from firstfault.scan.executors import ScanError
from firstfault.scan.run import scan
from firstfault.signatures.library import load_library

LIBRARY = load_library()
OOM = b"[rank%d]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB.\n"


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Six files of some hundred lines, cut into tasks of a few kilobytes."""
    monkeypatch.setattr(tasks, "SMALLEST", 4096)
    monkeypatch.setattr(tasks, "LARGEST", 4096)
    for number in range(6):
        lines = [b"step %d loss %d\n" % (i, i * 7 % 13) for i in range(900)]
        for i in range(0, 900, 90):
            lines[i] = OOM % (i % 4, i)
        (tmp_path / f"rank{number}.log").write_bytes(b"".join(lines).rstrip(b"\n"))
    return tmp_path


def run(logs, executor, **options):
    with open_inputs([logs]) as opened:
        return scan(opened, LIBRARY, executor=executor, **options)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_processes_give_the_answer_of_one(logs, workers):
    seen = []
    alone = run(logs, "inline")
    assert run(logs, "processes", workers=workers, progress=seen.append).sources == alone.sources
    assert sum(seen) == sum(s.bytes for s in alone.sources)
    assert all(s.lines == 900 for s in alone.sources)
    assert alone.sources[0].tallies["gpu.out_of_memory", b"r0"] == 5


def test_large_files_are_split_at_line_starts(logs):
    with open_inputs([logs]) as opened:
        found = tasks.split(opened.store, opened.sources, 2)
        stretches = [s for task in found for s in task]
        assert len(stretches) > len(opened.sources)
        for one in stretches:
            assert one.start == 0 or opened.store.read(one.source, one.start - 1, 1) == b"\n"


def test_a_line_longer_than_any_task(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "SMALLEST", 4096)
    monkeypatch.setattr(tasks, "LARGEST", 4096)
    (tmp_path / "a.log").write_bytes(b"first\n" + b"x" * 50_000 + OOM % (1, 2) + b"step\n" * 3000)
    results = [run(tmp_path, "processes", workers=2).sources, run(tmp_path, "inline").sources]
    assert results[0] == results[1]
    assert [(h.line, h.column) for h in results[0][0].hits][:1] == [(2, 50_039)]


def test_new_processes_without_fork(logs, monkeypatch):
    monkeypatch.setattr(pool, "_methods", lambda: ["spawn"])
    monkeypatch.setattr(tasks, "SMALLEST", 1 << 20)
    monkeypatch.setattr(tasks, "LARGEST", 1 << 20)
    monkeypatch.setattr(tasks, "_BATCH", 3)
    assert run(logs, "processes", workers=2).sources == run(logs, "inline").sources


@pytest.fixture
def forked(monkeypatch):
    """Workers are forked whatever else runs here: a replaced function reaches them in no other way."""
    monkeypatch.setattr(pool.threading, "active_count", lambda: 1)


@pytest.mark.usefixtures("forked")
def test_a_worker_that_is_killed_costs_no_answer(logs, monkeypatch):
    real, parent = stretch.scan_stretch, os.getpid()

    def killed(store, one, *args, **kwargs):
        if os.getpid() != parent and one.path == "rank3.log":
            os.kill(os.getpid(), signal.SIGKILL)
        return real(store, one, *args, **kwargs)

    alone = run(logs, "inline")
    monkeypatch.setattr(executors, "scan_stretch", killed)
    result = run(logs, "processes", workers=2)
    assert result.sources == alone.sources
    assert result.complete


@pytest.mark.usefixtures("forked")
def test_a_fault_of_our_own_in_a_worker_is_raised_with_its_traceback(logs, monkeypatch):
    def wrong(*_args, **_kwargs):
        raise ZeroDivisionError("made up")

    monkeypatch.setattr(executors, "scan_stretch", wrong)
    with pytest.raises(ScanError, match="made up"):
        run(logs, "processes", workers=2)


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_an_interrupt_gives_what_is_known(logs, executor):
    calls = []

    def interrupt(_number):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt

    result = run(logs, executor, workers=2, progress=interrupt)
    whole = run(logs, "inline")
    assert not result.complete
    assert any(s.damage for s in result.sources)
    for part, all_of_it in zip(result.sources, whole.sources, strict=True):
        assert part.bytes <= all_of_it.bytes
        assert {(h.line, h.offset) for h in part.hits if h.ordinal >= 0} <= {
            (h.line, h.offset) for h in all_of_it.hits
        } | {(h.line, h.offset) for h in part.hits if h.count < 6}


def test_wrong_names_are_told(logs):
    with pytest.raises(EngineError, match="no executor"):
        run(logs, "threads")
    with pytest.raises(EngineError, match="no engine"):
        run(logs, "inline", engine="grep")


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(OOM % (0, 1) * 100)
    with open_inputs([path]) as opened:
        assert opened.coverage[0].state is CoverageState.READ
        os.truncate(path, 1000)
        found = scan(opened, LIBRARY).sources[0]
    assert found.damage == "became shorter while it was read"
    assert found.bytes == 1000


def test_a_flood_is_counted_exactly_and_kept_small(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(OOM % (i % 2, i) for i in range(40_000)))
    found = run(tmp_path, "inline").sources[0]
    assert found.tallies == {("gpu.out_of_memory", b"r0"): 20_000, ("gpu.out_of_memory", b"r1"): 20_000}
    assert [h.line for h in found.hits if h.key == b"r0"] == [1, 3, 5, 7, 39_997, 39_999]
    assert found.hits[-1].fields["requested"] == "39999.00 MiB"
