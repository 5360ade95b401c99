"""Stack dumps of py-spy, faulthandler and pystack: real outputs of two processes, one of them in `load_batch`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.evidence import SourceId
from firstfault.readers.identity import profile_source
from firstfault.readers.stacks import read_stacks

HERE = Path(__file__).parent / "stacks"
HOME = SourceId(0)


def dumps(name: str, data: bytes | None = None):
    data = (HERE / name).read_bytes() if data is None else data
    return read_stacks(data, HOME, profile_source(data, name), path=name)


@pytest.mark.parametrize(
    "name",
    ["pyspy-rank0.txt", "pyspy-native-rank0.txt", "pyspy-rank0.json", "pystack-rank0.txt", "pystack-native-rank0.txt"],
)
def test_rank_0_is_in_all_reduce(name: str) -> None:
    (dump,) = dumps(name)
    assert dump.who.rank == 0
    assert dump.main is not None
    python = [f.frame.function for f in dump.main.frames if not f.native]
    assert [f for f in python if "wrapper" not in f] == ["all_reduce", "allreduce_grads", "train_step", "<module>"]


@pytest.mark.parametrize("name", ["pyspy-rank1.txt", "pyspy-locals-rank1.txt", "pyspy-rank1.json", "pystack-rank1.txt"])
def test_rank_1_is_in_its_loader(name: str) -> None:
    (dump,) = dumps(name)
    assert dump.who.rank == 1
    assert dump.main is not None
    assert [f.frame.function for f in dump.main.frames] == ["load_batch", "train_step", "<module>"]


def test_every_frame_cites_its_own_line() -> None:
    data = (HERE / "pyspy-rank0.txt").read_bytes()
    (dump,) = dumps("pyspy-rank0.txt")
    lines = data.split(b"\n")
    for thread in dump.threads:
        assert lines[thread.span.line - 1].decode() == thread.text
        for frame in thread.frames:
            assert frame.frame.function in lines[frame.span.line - 1].decode()
            assert data[frame.span.offset : frame.span.offset + frame.span.length].decode() == frame.text


def test_two_processes_in_one_stream_are_two_dumps() -> None:
    first, second = dumps("faulthandler-two-processes.txt")
    assert [d.main.frames[0].frame.function for d in (first, second) if d.main] == ["all_reduce", "load_batch"]


def test_a_timer_says_why_it_dumped() -> None:
    (dump,) = dumps("faulthandler-dump-later.txt")
    assert dump.cause == "Timeout (0:00:02)!"
    assert dump.main is not None
    assert dump.main.frames[0].frame.function == "forward"


def test_a_traceback_behind_a_dump_is_not_of_it() -> None:
    (dump,) = dumps("torchrun-sigsegv-faulthandler.txt")
    assert dump.cause == "Fatal Python error: Segmentation fault"
    assert [f.frame.function for t in dump.threads for f in t.frames] == ["boom", "<module>"]


LABELLED = b"""1: Thread 0x00007f1ac2e66b80 (most recent call first):
0: Thread 0x00007f9ac2e66b80 (most recent call first):
1:   File "/app/data.py", line 7 in read_shard
0:   File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
0:   File "/app/train.py", line 8 in <module>
1:   File "/app/train.py", line 9 in <module>
"""


def test_labels_take_interleaved_dumps_apart() -> None:
    found = {d.who.label: d.main.frames[0].frame.function for d in dumps("job.log", LABELLED) if d.main}
    assert found == {"task 0": "all_reduce", "task 1": "read_shard"}


@pytest.mark.parametrize(
    ("heading", "rank", "host"),
    [
        ("=== rank 3 ===", 3, None),
        ("# node-7: py-spy dump --pid 12", None, "node-7"),
        ("RANK=11 host: cn-4", 11, "cn-4"),
    ],
)
def test_a_heading_says_whose_the_dump_is(heading: str, rank: int | None, host: str | None) -> None:
    body = (HERE / "pyspy-rank1.txt").read_bytes()
    (dump,) = dumps("all.txt", heading.encode() + b"\n" + body)
    assert (dump.who.rank, dump.who.host) == (rank, host)


def test_the_command_line_and_the_name_state_local_ranks() -> None:
    body = (HERE / "pyspy-rank1.txt").read_bytes().replace(b"stacks.py\n", b"stacks.py --local_rank=5\n", 1)
    (dump,) = dumps("pid_14746.txt", body)
    assert dump.who.local_rank == 5
    (dump,) = dumps("0600-local3.txt", (HERE / "pyspy-rank1.txt").read_bytes())
    assert dump.who.local_rank == 3


def test_threads_without_frames_of_python_are_left_out_of_json_too() -> None:
    frame = {"name": "f", "filename": "/srv/a.py", "line": 3}
    threads = [
        {"pid": 7, "thread_name": name, "os_thread_id": number, "frames": frames}
        for number, (name, frames) in enumerate((("idle", []), ("MainThread", [frame]), ("idle too", [])), start=7)
    ]
    raw = json.dumps(threads, indent=1).encode()
    (dump,) = dumps("pyspy-rank0.json", raw)
    (thread,) = dump.threads
    assert thread.text == raw.split(b"\n")[thread.span.line - 1].decode()
    assert "MainThread" in thread.text
    assert dumps("pyspy-rank0.json", json.dumps(threads[:1]).encode()) == []


@given(st.sampled_from(sorted(p.name for p in HERE.iterdir())), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_damage_never_raises(name: str, data: st.DataObject) -> None:
    raw = bytearray((HERE / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    start = data.draw(st.integers(0, len(raw)))
    for dump in dumps(name, bytes(raw[start:])):
        assert dump.threads
