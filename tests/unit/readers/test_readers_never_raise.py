"""Whatever the bytes and wherever they are cut: no reader raises, and what it cites is really there."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import SOURCE, MemoryStore, events_of, places

from firstfault.readers.banners import read_banners, read_error_json
from firstfault.readers.frames import HEAD
from firstfault.readers.identity import body_starts, locate, profile_source, stream_key
from firstfault.readers.lines import lines_back, lines_from
from firstfault.readers.progress import find_progress, last_progress
from firstfault.readers.sourcename import read_name
from firstfault.readers.traceback import read_text

FRAGMENTS = [
    b"[rank3]: ", b"[default1]:", b"[1,3]<stderr>:", b" 3: ", b"node-b: ", b"2023-12-17 16:40:02 10.0.3.21: ", b"trainer_1  | ",
    b"(RayTrainWorker pid=12, ip=10.0.0.1) ", b"\x1b[36m", b"\x1b[0m", b"[E513 13:25:57.714781669 ProcessGroupNCCL.cpp:616] ",
    b"[PG ID 3 PG GUID 9(tp) Rank 1] ", b"W1129 14:18:16.233000 13120 torch/a.py:1028] ", b"[NeMo W 2026-01-15 14:31:23 x:3] ",
    b"2026-02-11 20:02:41,377 WARNING: Error while reading, retrying 1/5", b'{"log":"', b'\\n","stream":"stderr","time":"2026-01-15T14:31:05Z"}',
    b"Traceback (most recent call last):", b"Original Traceback (most recent call last):", b'  File "/app/a.py", line 3, in f', b"    g()",
    b"ValueError: x", b"KeyError: Caught KeyError in DataLoader worker process 5.", b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    b"During handling of the above exception, another exception occurred:", b"The above exception was the direct cause of the following exception:",
    b"  + Exception Group Traceback (most recent call last):", b"  | ", b"  +-+---------------- 1 ----------------", b"Exception ignored in: <x>",
    b" 50%|##| 5/10 [00:01<00:01, 1.0it/s]", b"step: 10 loss: 3", b"Root Cause (first observed failure):", b"[0]:", b"  rank      : 1 (local_rank: 1)",
    b"  exitcode  : -9 (pid: 12)", b"  time      : 2026-11-29_14:18:40", b"  traceback : Traceback (most recent call last):", b"==============================",
    b"\n", b"\n", b"\n", b"\r", b"\x00", b"\xff", b" ", b"May 14 03:52:17 gpu-h12 kernel: ", b"I 05:22:19.114502 ", b"99/99/2024 10:00:00 ", b"[ 8123.456789] ",
    b"-- Process 1 terminated with the following error:", b"exits with return code = -9", b"\xe2\x94\x81\xe2\x94\x81 4/4 ",
]  # fmt: skip
TEXT = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=12), max_size=60).map(b"".join)
PATHS = st.sampled_from(["a.log", "attempt_0/3/stderr.log", "rank_3.log", "error-4711-node017-3.out"])


def check(data: bytes, path: str) -> None:
    profile = profile_source(data, path)
    store = MemoryStore(data)
    for event in events_of(data, path, modified=1.7e9):
        span = event.span
        assert 0 <= span.offset <= len(data)
        assert data[: span.offset].count(b"\n") + 1 == span.line
        assert span.offset - (data.rfind(b"\n", 0, span.offset) + 1) + 1 == span.column
        if event.exception is not None and event.exception.kind:
            assert event.exception.kind.rsplit(".", 1)[-1].encode("utf-8", "replace") in data
        if event.when.known:
            assert event.when.earliest <= event.when.latest
    for progress in find_progress(data, SOURCE, profile=profile):
        assert data[: progress.sample.offset].count(b"\n") + 1 == progress.sample.line
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    last = last_progress(store, SOURCE, lines, profile)
    if last is not None:
        assert data[: last.sample.offset].count(b"\n") + 1 == last.sample.line
    for failure in read_banners(store, SOURCE, places(data, b"Root Cause"), profile):
        assert data[: failure.span.offset].count(b"\n") + 1 == failure.span.line
    read_error_json(data, SOURCE, profile)


@settings(max_examples=150, deadline=None)
@given(TEXT, PATHS)
def test_any_mixture_of_real_fragments(data, path):
    check(data, path)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(data):
    profile = profile_source(data, "x")
    starts = body_starts(data, profile)
    assert starts[0] == 0
    assert list(starts) == sorted(set(starts))
    assert all(0 <= s <= len(data) for s in starts)
    for position in range(0, len(data) + 1, 7):
        found = locate(data, position, profile)
        assert 0 <= found.body <= len(data)
        assert found.key == stream_key(data, position, profile)
    check(data, "x")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_path_and_any_text(text):
    read_name(text)
    read_text("Traceback (most recent call last):\n" + text, SOURCE)
    read_error_json(json.dumps({"message": text}).encode(), SOURCE, profile_source(b"", text))


SAMPLE = b"""[default0]:[rank0]: Traceback (most recent call last):
[default1]:[rank1]: Traceback (most recent call last):
[default0]:[rank0]:   File "/app/t.py", line 3, in f
[default1]:[rank1]:   File "/app/t.py", line 4, in g\r 50%|##| 5/10 [00:01<00:01, 1.0it/s]
[default0]:[rank0]: ValueError: Caught ValueError in DataLoader worker process 5.
[default0]:[rank0]: Original Traceback (most recent call last):
[default1]:[rank1]: KeyError: 'one'
[default0]:[rank0]:   File "/app/d.py", line 4, in g
[default0]:[rank0]: ValueError: x
Failures:
[1]:
  rank      : 2 (local_rank: 2)
  exitcode  : -9 (pid: 7)
"""


def test_cutting_anywhere_never_raises():
    assert HEAD in SAMPLE
    for cut in range(len(SAMPLE)):
        check(SAMPLE[:cut], "a.log")


@settings(max_examples=100, deadline=None)
@given(TEXT, st.integers(1, 2000))
def test_lines_forwards_and_backwards_agree(data, limit):
    store = MemoryStore(data)
    forward = list(lines_from(store, SOURCE, 0, 1, len(data) + 1))
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [x.text for x in forward] == [x.removesuffix(b"\r") for x in expected]
    for line in forward[-3:]:
        back = lines_back(store, SOURCE, line.offset, line.number, 5, max_bytes=limit)
        assert back == forward[line.number - 1 - len(back) : line.number - 1]
