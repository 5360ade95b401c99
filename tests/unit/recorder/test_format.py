"""The ring and the names of files, as another process reads them."""

import json
import time

import pytest

from firstfault.recorder import format as layout
from firstfault.recorder.ring import Ring


def head(**changes):
    plain = layout.Head(
        kind=layout.MAIN, pid=4711, started=99, rank=3, local_rank=1, world=8, attempt=2, worker=-1, signal=10, ended=0,
        parent=1, wall=5, host="node-a",
    )  # fmt: skip
    return plain._replace(**changes)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    ring.step(None)
    ring.step(41)
    ring.phase("checkpoint")
    ring.call("all_reduce")
    since = ring.waiting(2, 4)
    ring.item("/data/x.jpg", 7)
    read = layout.read_ring(path.read_bytes())
    assert read.head == head()
    assert (read.step, read.beats, read.phase, read.call, read.in_call) == (41, 2, "checkpoint", "all_reduce", True)
    assert (read.waiting_since, read.depth, read.workers) == (since, 2, 4)
    assert (read.item, read.batch) == ("/data/x.jpg", 7)
    assert [n for n, _ in read.history] == [1, 41]
    assert path.stat().st_size == layout.SIZE


def test_a_wait_that_ended_is_counted(tmp_path):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    since = ring.waiting(0, 1)
    waited = ring.arrived(since, 1, 1)
    ring.call("barrier")
    ring.called()
    read = layout.read_ring(path.read_bytes())
    assert waited >= 0
    assert (read.waiting_since, read.waited, read.batches, read.in_call) == (0, waited, 1, False)
    assert read.called >= 0


def test_nothing_was_done_yet(tmp_path):
    path = tmp_path / "x.ring"
    Ring(str(path), head(rank=-1))
    read = layout.read_ring(path.read_bytes())
    assert (read.step, read.phase, read.call, read.depth, read.item, read.history) == (None, "", "", None, "", ())


def test_history_keeps_the_last_steps(tmp_path):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    for _ in range(layout.ENTRIES + 5):
        ring.step(None)
    read = layout.read_ring(path.read_bytes())
    assert [n for n, _ in read.history] == list(range(6, layout.ENTRIES + 6))


@pytest.mark.parametrize(
    "raw",
    [b"", b"FFRING01", b"FFRING02" + bytes(layout.SIZE), b"\xff" * layout.SIZE, b"FFRING01" + b"\xff" * layout.SIZE],
)
def test_damaged_bytes_are_no_ring(raw):
    assert layout.read_ring(raw) is None


def test_any_bytes_behind_the_magic_are_survived(tmp_path):
    path = tmp_path / "x.ring"
    Ring(str(path), head())
    raw = bytearray(path.read_bytes())
    raw[256:] = b"\xfe" * (layout.SIZE - 256)
    read = layout.read_ring(bytes(raw))
    assert read.head.rank == 3
    assert isinstance(read.phase, str)


def test_a_ring_that_is_there_already_is_not_written_over(tmp_path):
    path = tmp_path / "x.ring"
    path.write_bytes(b"somebody's")
    ring = Ring(str(path), head())
    ring.step(None)
    assert not ring.shared
    assert path.read_bytes() == b"somebody's"


def test_a_long_text_keeps_its_end():
    assert layout.cut("/a/" + "b" * 100 + "/sample-17.jpg", 40).endswith(b"/sample-17.jpg")
    assert len(layout.cut("ü" * 100, 40)) < 40


@pytest.mark.parametrize(("rank", "worker", "own"), [(3, None, None), (None, None, None), (16383, 2, 99), (0, 0, 5)])
def test_names_tell_whose_a_file_is(rank, worker, own):
    stem = layout.name_of(rank, 1, 4711, worker, own)
    read = layout.read_name(stem + layout.STACKS)
    assert (read.rank, read.attempt, read.pid, read.worker) == (rank, 1, 4711, worker)
    assert read.own == (4711 if own is None else own)


def test_other_names_are_nobodys():
    assert layout.read_name("node.jsonl") is None
    assert layout.read_name("rank-3.log") is None


def test_a_line_begins_so_that_it_is_known():
    raw = layout.line(layout.LOG, {"message": "ü\n", "odd": {1, 2}.__class__})
    assert raw.startswith(layout.START.encode())
    assert raw.count(b"\n") == 1
    assert json.loads(raw)["message"] == "ü\n"


def test_a_stamp_has_an_offset():
    assert layout.stamp(time.time())[-6] in "+-"
