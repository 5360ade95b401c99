"""Stack dumps of every tool: real outputs, one process in `load_batch`; and of a job whose rank 2 opens a FIFO in its loader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.evidence import SourceId
from firstfault.model.words import SourceKind
from firstfault.readers.identity import profile_source
from firstfault.readers.sniff import sniff
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


CUT = b"""Timeout (0:02:00)!
Thread 0x00007f60be4b51b0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait
  File "/env/lib/python3.12/site-packages/tqdm/_monitor.py", line 60 in run
  File "/usr/lib/python3.12/threading.py", line 1075 in _bootstrap_inner

Thread 0x00007f380167fa97 (most recent call first):
  File "/env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 3986 in all_gather_into_tensor
  File "/srv/run/main.py", line 281 in train_step
"""


@pytest.mark.parametrize("lines", range(2, 9))
def test_a_dump_that_lost_its_end_does_not_make_another_thread_the_main_one(lines: int) -> None:
    data = b"".join(CUT.splitlines(keepends=True)[:lines])
    assert all(dump.main is None for dump in dumps("rank0.txt", data))
    for cut in range(len(data)):
        assert all(dump.main is None for dump in dumps("rank0.txt", data[:cut]))


def test_the_last_thread_is_the_main_one_where_it_ends_in_the_program() -> None:
    (dump,) = dumps("rank0.txt", CUT)
    assert dump.main is not None
    assert dump.main.frames[0].frame.function == "all_gather_into_tensor"


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


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: timed out waiting for rank 5 to join",
        "step 10 | loss 2.0 on rank 0",
        "the node is slow",
        "lost the connection to host cn-7",
        'Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".',
    ],
)
def test_a_sentence_that_mentions_a_rank_or_host_heads_nothing(line: str) -> None:
    body = (HERE / "faulthandler-dump-later.txt").read_bytes()
    plain = [(d.who.rank, d.who.host) for d in dumps("all.txt", body + b"\n" + body)]
    assert [(d.who.rank, d.who.host) for d in dumps("all.txt", body + b"\n" + line.encode() + b"\n" + body)] == plain


@pytest.mark.parametrize(
    ("heading", "rank", "host"),
    [
        ("--- stack of rank 12 on host cn-4 ---", 12, "cn-4"),
        ("host: cn-4, global rank 3", 3, "cn-4"),
        ("py-spy dump for rank 7:", 7, None),
        ("Rank 2", 2, None),
        ("firstfault stacks: rank 6, pid 44, attempt 0, host cn-9; asked for", 6, "cn-9"),
        ("firstfault stacks: process, pid 44, attempt 0, host cn-9; asked for", None, "cn-9"),
    ],
)
def test_headings_of_many_forms_say_whose_the_dump_is(heading: str, rank: int | None, host: str | None) -> None:
    body = (HERE / "faulthandler-dump-later.txt").read_bytes()
    first = dumps("all.txt", heading.encode() + b"\n" + body)[0]
    assert (first.who.rank, first.who.host) == (rank, host)


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
        assert dump.threads or dump.refused


def functions(dump) -> list[str]:
    assert dump.main is not None
    return [f.frame.function for f in dump.main.frames]


def test_gdb_tells_the_main_thread_and_the_process() -> None:
    (dump,) = dumps("gdb-rank0.txt")
    assert (dump.tool, dump.who.rank, dump.who.pid) == ("gdb", 0, 23994)
    assert len(dump.threads) == 13
    assert [t.name for t in dump.threads if t.main] == ["python"]
    assert any("c10d::Work::wait" in f for f in functions(dump))
    assert all(f.native for t in dump.threads for f in t.frames)
    (other,) = dumps("gdb-rank2.txt")
    assert functions(other)[0] == "__libc_open64"


@pytest.mark.parametrize(
    ("name", "inner"), [("gdb-pybt-rank0.txt", "all_reduce"), ("gdb-pybt-rank2.txt", "read_shard")]
)
def test_frames_of_python_from_gdb(name: str, inner: str) -> None:
    (dump,) = dumps(name)
    assert functions(dump)[0] == inner
    assert functions(dump)[-1] == "<module>"
    assert dump.main is not None
    assert [f.native for f in dump.main.frames] == [False] * len(dump.main.frames)


def test_gdb_without_threads_and_an_old_py_bt() -> None:
    one = (
        b"Attaching to process 512\n#0  0x00007f0a9f365c8f in __read (fd=3) at ../sysdeps/unix/read.c:26\n"
        b"#1  0x00007f0a9f365c8f in _io_FileIO_read_impl () from /opt/python/lib/libpython3.8.so.1.0\n"
        b"#2  Frame 0x5581a0, for file /home/user/train/data.py, line 88, in read_record (self=<Shard(n=4) at remote 0x7f>, i=3)\n"
        b"    record = self.file.read(size)\n"
    )
    (dump,) = dumps("rank3.txt", one)
    assert functions(dump) == ["__read", "_io_FileIO_read_impl", "read_record"]
    assert (dump.who.rank, dump.who.pid) == (3, 512)
    assert dump.main is not None
    assert [(f.frame.file, f.frame.line) for f in dump.main.frames][2] == ("/home/user/train/data.py", 88)
    (python,) = dumps(
        "rank3.txt", b'Traceback (most recent call first):\n  File "data.py", line 88, in read_record\n    x = 1\n'
    )
    assert functions(python) == ["read_record"]


def test_two_processes_one_after_the_other_in_gdb() -> None:
    data = (HERE / "gdb-pybt-rank0.txt").read_bytes() + (HERE / "gdb-pybt-rank2.txt").read_bytes()
    assert [functions(d)[0] for d in dumps("all.txt", data)] == ["all_reduce", "read_shard"]
    assert [d.who.pid for d in dumps("all.txt", data)] == [23994, 23996]


def test_eu_stack() -> None:
    (dump,) = dumps("eu-stack-rank0.txt")
    assert (dump.tool, dump.who.pid, dump.who.rank) == ("eu-stack", 23994, 0)
    assert any(f.startswith("c10d::Work::wait(") for f in functions(dump))
    (other,) = dumps("eu-stack-rank2.txt")
    assert functions(other)[0] == "__open"
    assert sum(t.main for t in other.threads) == 1


@pytest.mark.parametrize("name", ["debug-server-stacks.txt", "debug-server-stacks.html", "debug-server-pyspy.html"])
def test_the_debug_server_of_torch(name: str) -> None:
    found = dumps(name)
    assert [d.who.rank for d in found] == [0, 1, 2]
    assert {d.who.host for d in found} == {"node-a"}
    assert [functions(d)[0].rsplit(".", 1)[-1] for d in found] == ["all_reduce", "all_reduce", "read_shard"]


def test_a_rank_that_gave_the_debug_server_no_stack() -> None:
    found = dumps("debug-server-partial.txt")
    assert [(d.who.rank, d.refused) for d in found] == [(0, "Error: 408"), (1, ""), (2, "")]
    assert found[0].main is None


def test_a_fatal_signal_of_pytorch() -> None:
    data = (
        b"SIGABRT(6), PID: 4711, Thread 4750: \n"
        b" frame #0: c10::FatalSignalHandler::stacktraceSignalHandler(bool) + 0x22 (0x7f12 in /opt/venv/lib/libc10.so)\n"
        b"frame #1: <unknown function> + 0x42520 (0x7f1 in /lib/x86_64-linux-gnu/libc.so.6)\n"
        b"frame #2: c10d::ProcessGroupNCCL::heartbeatMonitor() + 0x1a4 (0x7f2 in /opt/venv/lib/libtorch_cuda.so)\n"
        b"SIGABRT(6), PID: 4711, Thread 4711: \n"
        b" frame #0: c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >) + 0x8 (0x7f2 in /opt/venv/lib/libtorch_cpu.so)\n"
        b"<omitting python frames>\n"
        b"frame #4: __libc_start_main + 0x80 (0x7f3 in /lib/x86_64-linux-gnu/libc.so.6)\n"
    )
    (dump,) = dumps("rank1.log", data)
    assert (dump.tool, dump.who.pid, dump.cause) == ("c10", 4711, "SIGABRT(6)")
    assert len(dump.threads) == 2
    assert functions(dump)[0].startswith("c10d::Work::wait(")


@pytest.mark.parametrize("compact", [False, True])
def test_each_thread_of_json_is_cited_by_its_own_line(compact: bool) -> None:
    data = (HERE / "pyspy-rank0.json").read_bytes()
    threads = json.loads(data)
    # A thread without a name before one with a name: counting the names would join them wrongly.
    nameless = {k: v for k, v in threads[0].items() if k != "thread_name"}
    nameless["frames"] = [{"name": "spin", "filename": "/home/user/a.py", "line": 3}]
    data = json.dumps([nameless, *threads], indent=None if compact else 2).encode()
    (dump,) = dumps("pyspy-rank0.json", data)
    for thread in dump.threads:
        if thread.name is not None:
            assert f'"{thread.name}"' in thread.text
        for frame in thread.frames:
            assert f'"{frame.frame.function}"' in frame.text
            span = frame.span
            assert data[span.offset : span.offset + span.length].decode() == frame.text
            assert data[: span.offset].count(b"\n") + 1 == span.line
    assert dump.threads[0].frames[0].frame.function == "spin"


@pytest.mark.parametrize("path", sorted(HERE.iterdir()), ids=lambda p: p.name)
def test_every_dump_is_known_for_one(path: Path) -> None:
    data = path.read_bytes()
    kind = sniff(data[:65536], data[-16384:], path.name).kind
    assert kind is (SourceKind.LOG if path.name == "torchrun-sigsegv-faulthandler.txt" else SourceKind.STACKS)
