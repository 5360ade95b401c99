import pytest
from memory_store import SOURCE, MemoryStore, events_of, places

from firstfault.readers.frames import HEAD
from firstfault.readers.identity import profile_source
from firstfault.readers.traceback import read_text, read_traceback_before, read_tracebacks


def blocks_of(text: str, path: str = "job.log"):
    data = text.encode()
    found = read_tracebacks(MemoryStore(data), SOURCE, places(data, HEAD), profile_source(data, path))
    for block in found:
        span = block.raised.span
        if block.raised.exception.kind:
            assert data[span.offset : span.offset + span.length].decode().startswith(block.raised.exception.kind)
            assert data[: span.offset].count(b"\n") + 1 == span.line
            assert span.offset - data.rfind(b"\n", 0, span.offset) == span.column
    return found


def only(text: str, path: str = "job.log"):
    (block,) = blocks_of(text, path)
    return block.raised.exception, block


SIMPLE = """Traceback (most recent call last):
  File "/app/train.py", line 12, in <module>
    main()
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1501, in _call_impl
    return forward_call(*args)
           ^^^^^^^^^^^^^^^^^^^
ValueError: expected 4 channels
"""


def test_a_plain_traceback():
    exception, block = only("before\n" + SIMPLE + "after\n")
    assert (exception.kind, exception.message) == ("ValueError", "expected 4 channels\nafter")
    assert [f.line for f in exception.frames] == [12, 1501]
    assert exception.user_frame is not None
    assert exception.user_frame.file == "/app/train.py"
    assert exception.complete
    assert not exception.ignored
    assert block.raised.span.line == 8


def test_two_ranks_interleaved_line_by_line_and_within_a_line():
    first, second = blocks_of(
        """[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "/app/t.py", line 3, in f
[rank1]:   File "/app/t.py", line 4, in g
[rank0]:     x()
[rank1]:     y()[rank0]: KeyError: 'zero'
[rank1]: KeyError: 'one'
""",
    )
    assert (first.raised.who.rank, first.raised.exception.message, first.raised.exception.frames[0].function) == (
        0,
        "'zero'",
        "f",
    )
    assert (second.raised.who.rank, second.raised.exception.message, second.raised.exception.frames[0].function) == (
        1,
        "'one'",
        "g",
    )
    assert first.raised.exception.complete


def test_two_processes_mixed_without_prefixes_are_not_taken_for_sure():
    found = blocks_of(
        """Traceback (most recent call last):
  File "/app/t.py", line 3, in <module>
    Traceback (most recent call last):
run(x,  File "/app/t.py", line 3, in <module>

  File "/app/t.py", line 9, in run
    go(
RuntimeError: DataLoader worker (pid 41877) is killed by signal: Bus error.
OSError: [Errno 28] No space left on device
""",
    )
    assert [b.raised.exception.kind for b in found] == ["RuntimeError", "OSError"]
    assert not any(b.raised.exception.complete for b in found)


def test_chains_keep_their_earlier_exceptions():
    exception, block = only(
        """Traceback (most recent call last):
  File "/app/a.py", line 1, in read
    x()
ConnectionResetError: [Errno 104] Connection reset by peer

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/b.py", line 2, in load
    read()
LoadError: could not load

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/c.py", line 3, in <module>
    load()
RuntimeError: no batch
""",
    )
    assert exception.kind == "RuntimeError"
    assert exception.chained_from == (
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "LoadError: could not load",
    )
    assert [f.function for f in exception.frames] == ["<module>"]
    assert [r.span.line for r in block.earlier] == [4, 11]


def test_a_chain_whose_next_frames_were_left_out():
    exception, _ = only(
        """Traceback (most recent call last):
  File "/opt/lib/python3/site-packages/urllib3/response.py", line 754, in _error_catcher
ConnectionResetError: [Errno 104] Connection reset by peer

During handling of the above exception, another exception occurred:

urllib3.exceptions.ProtocolError: ("Connection broken")
""",
    )
    assert exception.kind == "urllib3.exceptions.ProtocolError"
    assert not exception.complete


def test_an_exception_of_a_loader_worker_is_the_original_one():
    exception, block = only(
        """[rank2]: Traceback (most recent call last):
[rank2]:   File "/app/train.py", line 9, in <module>
[rank2]:     for b in loader: pass
[rank2]: KeyError: Caught KeyError in DataLoader worker process 5.
[rank2]: Original Traceback (most recent call last):
[rank2]:   File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 374, in _worker_loop
[rank2]:     data = fetcher.fetch(index)
[rank2]:   File "/app/data.py", line 6, in __getitem__
[rank2]:     raise KeyError("caption")
[rank2]: KeyError: 'caption'
""",
    )
    assert exception.in_worker
    assert block.raised.who.worker == 5
    assert block.raised.who.rank == 2
    assert exception.message == "'caption'"
    assert exception.user_frame is not None
    assert exception.user_frame.function == "__getitem__"
    assert exception.chained_from == ("KeyError: Caught KeyError in DataLoader worker process 5.",)


def test_a_spawned_process_that_raised():
    exception, _ = only(
        """Traceback (most recent call last):
  File "/app/t.py", line 8, in <module>
    mp.spawn(f, nprocs=2)
torch.multiprocessing.spawn.ProcessRaisedException: 

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/app/t.py", line 4, in f
    raise RuntimeError("worker failed")
RuntimeError: worker failed

""",  # noqa: W291
    )
    assert (exception.kind, exception.message) == ("RuntimeError", "worker failed")
    assert exception.user_frame is not None
    assert exception.user_frame.function == "f"


def test_messages_of_several_lines_belong_to_their_rank():
    exception, block = only(
        """[rank1]: Traceback (most recent call last):
[rank1]:   File "/app/t.py", line 4, in f
[rank1]:     dist.barrier()
[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, unhandled system error
[rank2]: hello
[rank1]: ncclSystemError: System call failed.
[rank1]: Last error:
[rank1]: Error while creating shared memory segment /dev/shm/nccl-xT0aPk (size 7340384)
[rank1]:[W520 11:42:02.114093381 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group() was not called
""",
    )
    assert exception.kind == "torch.distributed.DistBackendError"
    assert exception.message.count("\n") == 3
    assert "destroy_process_group" not in exception.message
    assert "hello" not in exception.message
    assert sorted(block.raised.lines) == [4, 6, 7, 8]


def test_a_logger_that_heads_every_line():
    exception, block = only(
        """2024-05-11 03:22:09,871 - job - ERROR - Traceback (most recent call last):
2024-05-11 03:22:09,872 - job - ERROR -   File "/app/t.py", line 4, in f
2024-05-11 03:22:09,872 - job - INFO - something else
2024-05-11 03:22:09,872 - job - ERROR -     g()
2024-05-11 03:22:10,001 - job - ERROR - ValueError: bad
2024-05-11 03:22:10,002 - job - INFO - going on
""",
    )
    assert (exception.kind, exception.message, len(exception.frames)) == ("ValueError", "bad", 1)
    assert block.raised.span.line == 5


def test_another_printer_of_the_same_rank_ends_a_message():
    exception, _ = only(
        """[rank1]: Traceback (most recent call last):
[rank1]:   File "/app/t.py", line 4, in f
[rank1]: ValueError: first line
[rank1]:
[rank1]: second line
[rank: 1] Child process with PID 31044 terminated with code 1.
""",
    )
    assert exception.message == "first line\nsecond line"


def test_a_very_long_message_is_bounded():
    text = (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/a.py", line 4, in f\n[rank1]: ValueError: x\n'
    )
    exception, _ = only(text + "[rank1]: " + "y" * 60 + "\n" + ("[rank1]: " + "z" * 90 + "\n") * 400)
    assert len(exception.message) <= 4096


def test_a_bar_glued_to_a_traceback():
    exception, block = only(
        "  7%|7  | 66/100 [02:18<30:20, 4.96it/s]Traceback (most recent call last):\r  8%|8 | 67/100 [02:19<30:19, 4.96it/s]\n"
        '  File "/app/t.py", line 3, in <module>\n    g()\nValueError: x\n',
    )
    assert exception.kind == "ValueError"
    assert exception.user_frame is not None
    assert block.first_line == 1


def test_a_cut_traceback_says_so():
    exception, block = only('Traceback (most recent call last):\n  File "/app/t.py", line 3, in f\n    g()\n')
    assert (exception.kind, exception.complete) == ("", False)
    assert block.raised.span.line == 1
    assert exception.user_frame is not None


def test_swallowed_exceptions_are_ignored_and_fatal_ones_are_not():
    text = """Exception ignored in: <function Iter.__del__ at 0x7f>
Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 3, in __del__
    self._shutdown_workers()
AssertionError: can only test a child process
2026-02-11 20:02:41,377 WARNING: Error while reading 'x', retrying 1/5
Traceback (most recent call last):
  File "/app/x.py", line 3, in read
    g()
OSError: [Errno 5] Input/output error
2026-02-11 20:03:41,377 WARNING: could not reach the tracker
Traceback (most recent call last):
  File "/app/x.py", line 30, in <module>
    main()
OSError: [Errno 5] Input/output error
Traceback (most recent call last):
  File "/usr/lib64/python3.12/multiprocessing/util.py", line 303, in _run_finalizers
    finalizer()
OSError: [Errno 16] Device or resource busy: '.nfs8b2479d0'
Traceback (most recent call last):
  File "/usr/lib/python3.10/multiprocessing/queues.py", line 244, in _feed
    obj = _ForkingPickler.dumps(obj)
BrokenPipeError: [Errno 32] Broken pipe
Traceback (most recent call last):
  File "/usr/lib/python3.10/multiprocessing/queues.py", line 244, in _feed
    obj = _ForkingPickler.dumps(obj)
RuntimeError: unable to write to file </torch_41877_2391770415_0>: No space left on device (28)
"""
    assert [b.raised.exception.ignored for b in blocks_of(text)] == [True, True, False, True, True, False]


def test_groups_of_exceptions_are_taken_apart():
    found = blocks_of(
        """  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 3, in <module>
  |     raise ExceptionGroup("many", [])
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/a.py", line 5, in f
    |     g()
    | ValueError: one
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/app/a.py", line 7, in h
    |     g()
    | TypeError: two
    +------------------------------------
""",
    )
    assert [(b.raised.exception.kind, b.raised.span.line) for b in found] == [
        ("ExceptionGroup", 4),
        ("ValueError", 9),
        ("TypeError", 14),
    ]
    assert [b.raised.exception.frames[0].function for b in found] == ["<module>", "f", "h"]


def test_boxes_and_marked_frames():
    exception, _ = only(
        """╭───────────────────── Traceback (most recent call last) ─────────────────────╮
│ /app/train.py:12 in main                                                     │
│ ❱ 12 │   y = f(x)                                                            │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: shape mismatch
""",
    )
    assert (exception.kind, exception.frames[0].function) == ("RuntimeError", "main")
    exception, _ = only(
        """Traceback (most recent call last):

> File "/app/x.py", line 9, in <module>
    main()
    └ <function main at 0x7f>

ZeroDivisionError: division by zero
""",
    )
    assert (exception.kind, exception.frames[0].line) == ("ZeroDivisionError", 9)


def test_coloured_and_repeated_frames():
    exception, _ = only(
        'Traceback (most recent call last):\n  File \x1b[35m"/app/x.py"\x1b[0m, line \x1b[35m3\x1b[0m, in \x1b[35mf\x1b[0m\n    f()\n    ~^^\n'
        "  [Previous line repeated 996 more times]\n\x1b[1;35mRecursionError\x1b[0m: \x1b[35mtoo deep\x1b[0m\n",
    )
    assert (exception.kind, exception.message) == ("RecursionError", "too deep")
    assert exception.frames[0].line == 3


def test_a_traceback_quoted_in_one_json_line():
    data = (
        b'{"timestamp":"2026-01-15T14:31:06Z","message":"Traceback (most recent call last):\\n  File \\"/app/x.py\\", line 3, in f\\n'
        b"    g()\\nKeyError: 'a'\\n\"}\n"
    )
    (block,) = read_tracebacks(MemoryStore(data), SOURCE, [(1, 0)], profile_source(data, "x"))
    exception = block.raised.exception
    assert (exception.kind, exception.message, exception.frames[0].line) == ("KeyError", "'a'", 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"rank":3,"msg":"uncaught","exc_info":', ""),
        ('"exc_info":', ',"rank":3,"message":"uncaught"'),
        ('"rank":3,"event":"uncaught","exception":', ""),
        ('"rank":3,"message":"uncaught","error.stack_trace":', ',"host":"n1"'),
        ('"rank":3,"message":"uncaught \\"Traceback\\"","error":{"stack":', "}"),
    ],
)
def test_a_traceback_in_a_field_beside_the_message(before, after):
    quoted = (
        '"Traceback (most recent call last):\\n  File \\"/app/x.py\\", line 3, in f\\n    g()\\nValueError: bad width"'
    )
    (block,) = blocks_of(f"{{{before}{quoted}{after}}}\n")
    exception = block.raised.exception
    assert (exception.kind, exception.message, exception.frames[0].line) == ("ValueError", "bad width", 3)
    assert block.raised.who.rank == 3


def test_the_level_of_a_record_tells_whether_its_traceback_was_caught():
    quoted = (
        '"Traceback (most recent call last):\\n  File \\"/app/x.py\\", line 3, in f\\n    g()\\nValueError: bad width"'
    )
    for level, caught in (("warning", True), ("critical", False)):
        record = f'{{"exc_info":{quoted},"rank":3,"level":"{level}","message":"skipping bad sample 7"}}\n'
        (block,) = blocks_of(record)
        assert block.raised.exception.ignored is caught


def test_ranks_inside_the_text_of_a_record():
    exception, _ = only(
        '{"message":"[rank1]: Traceback (most recent call last):\\n[rank1]:   File \\"/app/x.py\\", line 3, in f\\n'
        '[rank1]: ValueError: bad","stream":"stderr","time":"2026-01-15T14:31:05Z"}\n',
    )
    assert (exception.kind, exception.message) == ("ValueError", "bad")


def test_a_traceback_kept_as_text():
    exception = read_text(
        "Traceback (most recent call last):\n  File \"/app/x.py\", line 3, in f\n    g()\nKeyError: 'a'\n", SOURCE
    )
    assert exception is not None
    assert (exception.kind, exception.message, exception.frames[0].line) == ("KeyError", "'a'", 3)
    assert read_text("no traceback", SOURCE) is None


def test_one_json_object_a_line():
    exception, block = only(
        '{"log":"Traceback (most recent call last):\\n","stream":"stderr","time":"2026-01-15T14:31:05.1Z"}\n'
        '{"log":"  File \\"/app/x.py\\", line 3, in f\\n","stream":"stderr","time":"2026-01-15T14:31:05.1Z"}\n'
        '{"log":"ValueError: bad\\n","stream":"stderr","time":"2026-01-15T14:31:05.1Z"}\n',
    )
    assert (exception.kind, exception.message, block.raised.span.line) == ("ValueError", "bad", 3)


def test_a_last_line_finds_its_traceback_backwards():
    data = ("noise\n" * 50 + SIMPLE).encode()
    number, offset = places(data, b"ValueError: ")[0]
    block = read_traceback_before(MemoryStore(data), SOURCE, offset, number, key=b"", profile=profile_source(data, "x"))
    assert block is not None
    assert block.raised.exception.frames[0].line == 12
    bare = b"noise\nValueError: x\n"
    assert read_traceback_before(MemoryStore(bare), SOURCE, 6, 2, key=b"", profile=profile_source(bare, "x")) is None


def test_many_ranks_at_once_are_read_in_one_pass():
    ranks = range(64)
    lines = [f"[rank{r}]: Traceback (most recent call last):" for r in ranks]
    for step in range(12):
        lines += [f'[rank{r}]:   File "/app/t.py", line {step + 1}, in f{step}' for r in ranks]
    lines += [f"[rank{r}]: ValueError: from {r}" for r in ranks]
    found = blocks_of("\n".join(lines) + "\n")
    assert sorted(b.raised.who.rank for b in found) == list(ranks)
    assert all(len(b.raised.exception.frames) == 12 and b.raised.exception.complete for b in found)
    assert len(events_of("\n".join(lines) + "\n")) == 64


def test_heads_without_end_do_not_cost_their_square():
    found = blocks_of("Traceback (most recent call last):\n" * 400 + SIMPLE)
    assert len(found) <= 401
    assert found[-1].raised.exception.frames[0].line == 12
