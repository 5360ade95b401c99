"""The ring and the names of files, as another process reads them."""

import json
import time

import pytest

from firstfault.recorder import format as layout
from firstfault.recorder.gathering import beat
from firstfault.recorder.ring import LIVE, Ring


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
    ring.item("/data/x.jpg", 7)
    now = time.monotonic_ns()
    ring.seen(now, now - 5, now - 9, "backward")
    ring.seen_call(now - 3, 12, 500, inside=True, name="all_reduce")
    ring.seen_loader(2, 4)
    read = layout.read_ring(path.read_bytes())
    assert read.head == head()
    assert (read.step, read.beats, read.phase, read.call, read.in_call) == (41, 2, "backward", "all_reduce", True)
    assert (read.call_number, read.called, read.depth, read.workers) == (12, 500, 2, 4)
    assert (read.sure, read.changed, read.phase_since) == ("checkpoint", now - 5, now - 9)
    assert (read.item, read.batch) == ("/data/x.jpg", 7)
    assert [n for n, _ in read.history] == [1, 2]
    assert path.stat().st_size == layout.SIZE


def test_what_was_seen_counts_only_while_nothing_has_happened_since(tmp_path):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    now = time.monotonic_ns()
    ring.seen(now, now, now, "optimizer")
    ring.seen_call(now, 1, 0, inside=True, name="barrier")
    assert layout.read_ring(path.read_bytes()).phase == "optimizer"
    ring.step(None)
    read = layout.read_ring(path.read_bytes())
    assert (read.phase, read.in_call, read.call) == ("forward", False, "barrier")


def test_an_old_look_tells_nothing_of_where_the_process_is_now(tmp_path):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    ring.phase("tokenize")
    now = time.monotonic_ns()
    ring.seen(now, now, now, "backward")
    ring.seen_call(now, 1, 0, inside=True, name="barrier")
    read = layout.read_ring(path.read_bytes())
    soon, late = read.at(now + layout.OLD_LOOK_NS // 2), read.at(now + layout.OLD_LOOK_NS)
    assert (soon.phase, soon.in_call) == ("backward", True)
    assert (late.phase, late.in_call) == ("tokenize", False)


def test_times_by_place_are_read_and_old_ones_count_less(tmp_path):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    assert layout.read_ring(path.read_bytes()).looks == 0
    for place, seconds in (("backward", 60), ("augment", 30), ("backward", 100)):
        ring.spent(place, seconds * 10**9, layout.WAITS_SEEN)
    read = layout.read_ring(path.read_bytes())
    assert (read.looks, read.blocking) == (3, layout.WAITS_SEEN)
    assert beat(read, time.time(), time.monotonic_ns()).get("spent") is None  # no step was done
    ring.step(None)
    read = layout.read_ring(path.read_bytes())
    told = beat(read, time.time(), time.monotonic_ns())["spent"]
    assert told == {"looks": 3, "waits_seen": True, "backward": 160.0, "other": 30.0}
    ring.spent("call", 100 * 10**9, layout.WAITS_ELSEWHERE)
    read = layout.read_ring(path.read_bytes())
    assert (read.looks, sum(read.spent)) == (2, 145 * 10**9)


@pytest.mark.parametrize(
    ("said", "stepped", "asked", "given", "phase"),
    [
        (("", 0), 0, 0, 0, ""),
        (("", 0), 5, 0, 0, "forward"),
        (("", 0), 5, 7, 6, "data"),
        (("", 0), 5, 7, 8, "forward"),
        (("evaluation", 3), 5, 7, 8, "evaluation"),
        (("augment", 9), 5, 7, 6, "augment"),
        (("start_up", 3), 0, 0, 0, "start_up"),
        (("start_up", 3), 0, 0, 8, "forward"),
    ],
)
def test_the_phase_is_what_happened_last(said, stepped, asked, given, phase):
    assert layout.sure_phase(*said, stepped, asked, given)[0] == phase


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
    assert (read.beats, read.mono, LIVE.stepped) == (layout.ENTRIES + 5, read.history[-1][1], read.history[-1][1])


@pytest.mark.parametrize("steps", [1, layout.ENTRIES, layout.ENTRIES + 1])
def test_a_step_that_is_just_being_written_counts_and_the_last_time_stays_that_of_the_one_before(tmp_path, steps):
    path = tmp_path / "x.ring"
    ring = Ring(str(path), head())
    for _ in range(steps):
        ring.step(None)
    before = layout.read_ring(path.read_bytes())
    assert LIVE.stepped == before.mono
    ring.words[LIVE.entry] = steps + 1
    read = layout.read_ring(path.read_bytes())
    assert (read.beats, read.mono) == (steps + 1, before.mono)


@pytest.mark.parametrize(
    "raw",
    [b"", layout.MAGIC, b"FFRING01" + bytes(layout.SIZE), b"\xff" * layout.SIZE, layout.MAGIC + b"\xff" * layout.SIZE],
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


INSIDE = 'Original Traceback (most recent call last):\n  File "a.py", line 3, in f\n    read(path)\n'


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            f"Caught OSError in DataLoader worker process 0.\n{INSIDE}OSError: [Errno 5] x\nmore of it\n",
            "OSError: [Errno 5] x",
        ),
        (f"Caught OSError in DataLoader worker process 0.\n{INSIDE}", ""),
        ("Caught OSError in DataLoader worker process 0.", ""),
        (f"Caught OSError in replica 0 on device 0.\n{INSIDE}OSError: x", ""),
        ("no such file", ""),
        ("", ""),
    ],
)
def test_what_a_worker_raised_stands_behind_its_traceback(message, said):
    assert layout.original(message) == said
