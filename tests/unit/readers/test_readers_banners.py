import json

import pytest
from memory_store import SOURCE, MemoryStore, places

from firstfault.model.evidence import Event, Span, Who
from firstfault.readers.banners import failure_of_event, read_banners, read_error_json
from firstfault.readers.identity import profile_source

BANNER = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-29_14:18:41
  host      : node-a.example.com
  rank      : 2 (local_rank: 2)
  exitcode  : -15 (pid: 13563)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 13563
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_14:18:40
  host      : node-a.example.com
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 13564)
  error_file: /home/user/logs/none__abc/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/app/train.py", line 7, in main
      raise ValueError("bad sample at index 42")
  ValueError: bad sample at index 42

============================================================
"""


def failures(text: str, path: str = "job.log", needle: bytes = b"Root Cause"):
    data = text.encode()
    found = read_banners(MemoryStore(data), SOURCE, places(data, needle), profile_source(data, path))
    for failure in found:
        span = failure.span
        assert data[span.offset : span.offset + span.length].startswith((b"exitcode", b"rank"))
        assert data[: span.offset].count(b"\n") + 1 == span.line
    return found


def test_a_banner_gives_each_entry():
    other, root = failures("noise\n" + BANNER)
    assert other.who == Who(rank=2, local_rank=2, host="node-a.example.com", pid=13563)
    assert (other.exit_code, other.root, other.message) == (-15, False, "Signal 15 (SIGTERM) received by PID 13563")
    assert root.who == Who(rank=1, local_rank=1, host="node-a.example.com", pid=13564)
    assert (root.exit_code, root.root, root.message) == (1, True, "ValueError: bad sample at index 42")
    assert other.when.earliest is not None
    assert root.when.earliest is not None
    assert other.when.earliest - root.when.earliest == 1


def test_banners_of_two_nodes_mixed_by_srun_labels():
    sample = [f"{n}: W1129 14:18:16.233000 13120 torch/distributed/run.py:757] ****" for n in (0, 1)]
    second = (
        BANNER.replace("node-a", "node-b")
        .replace("rank      : 1 ", "rank      : 9 ")
        .replace("rank      : 2 ", "rank      : 10 ")
    )
    mixed = [
        f"{n}: {line}"
        for pair in zip(BANNER.split("\n"), second.split("\n"), strict=True)
        for n, line in enumerate(pair)
    ]
    found = failures("\n".join(sample + mixed))
    assert sorted((f.who.rank, f.who.host, f.root) for f in found) == [
        (1, "node-a.example.com", True),
        (2, "node-a.example.com", False),
        (9, "node-b.example.com", True),
        (10, "node-b.example.com", False),
    ]


def test_a_cut_banner_gives_what_is_left():
    cut = BANNER[: BANNER.index("  exitcode  : 1 ")]
    other, root = failures(cut)
    assert other.exit_code == -15
    assert (root.who.rank, root.exit_code, root.root) == (1, None, True)


def test_the_old_banner():
    (root,) = failures(
        """*****************************************
            train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-06-09_19:18:02
  rank: 1 (local_rank: 1)
  exitcode: -9 (pid: 123)
  error_file: <N/A>
  msg: "Signal 9 (SIGKILL) received by PID 123"
=======================================
Other Failures:
  <NO_OTHER_FAILURES>
*****************************************
""",
    )
    assert (root.who.rank, root.who.pid, root.exit_code, root.root) == (1, 123, -9, True)
    assert root.message == "Signal 9 (SIGKILL) received by PID 123"


def test_two_banners_are_kept_apart_and_each_entry_comes_once():
    assert len(failures(BANNER + "x\n" * 3 + BANNER)) == 4


@pytest.mark.parametrize(
    ("text", "local_rank", "pid", "code"),
    [
        (
            "['/opt/venv/bin/python', '-u', 'train.py', '--local_rank=1', '--x'] exits with return code = -9",
            1,
            None,
            -9,
        ),
        ("failed (exitcode: -6) local_rank: 0 (pid: 41284) of binary: /opt/env/bin/python", 0, 41284, -6),
        ("[rank: 1] Child process with PID 31044 terminated with code 1. Forcefully terminating", None, 31044, 1),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
            None,
            None,
            -9,
        ),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 9", None, None, 9),
        ("subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGKILL: 9>.", None, None, -9),
        ("subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.", None, None, 1),
    ],
)
def test_single_exit_lines(text, local_rank, pid, code):
    event = Event(signature="launcher.x", span=Span(SOURCE, 0, 1, 1, 1), text=text)
    failure = failure_of_event(event)
    assert failure is not None
    assert (failure.who.local_rank, failure.who.pid, failure.exit_code) == (local_rank, pid, code)


def test_other_lines_are_no_exits():
    event = Event(
        signature="launcher.x", span=Span(SOURCE, 0, 1, 1, 1), text="Sending process 1 closing signal SIGTERM"
    )
    assert failure_of_event(event) is None


def error_json(**extra) -> bytes:
    stack = (
        'Traceback (most recent call last):\n  File "/app/train.py", line 7, in main\n    x()\nValueError: bad sample\n'
    )
    message = {
        "message": "ValueError: bad sample",
        "extraInfo": {"py_callstack": stack, "timestamp": "1795961895"},
        **extra,
    }
    return json.dumps({"message": message}).encode()


def test_error_json():
    data = error_json(errorCode=3)
    found = read_error_json(data, SOURCE, profile_source(b"", "none_x/attempt_1/3/error.json"))
    assert found is not None
    failure, exception = found
    assert failure.who.local_rank == 3
    assert (failure.exit_code, failure.message, failure.when.zone) == (3, "ValueError: bad sample", "Z")
    assert failure.when.earliest == 1795961895
    assert exception is not None
    assert (exception.kind, exception.frames[0].line) == ("ValueError", 7)


def test_error_json_of_other_shapes():
    profile = profile_source(b"", "error.json")
    legacy = read_error_json(b'{"message": "it broke", "timestamp": 1795961895}', SOURCE, profile)
    assert legacy is not None
    assert legacy[0].message == "it broke"
    cut = read_error_json(error_json()[:-20], SOURCE, profile)
    assert cut is not None
    assert cut[0].message == "ValueError: bad sample"
    for data in (
        b"",
        b"[]",
        b"{}",
        b'{"message": 3}',
        b'{"message": {"message": "<NONE>"}}',
        b"\xff\xfe",
        b"[" * 100000,
    ):
        assert read_error_json(data, SOURCE, profile) is None


@pytest.mark.parametrize("stamp", [b"9" * 400, b"1e999", b"-1e999", b'"nan"', b"null", b"true"])
def test_a_nonsense_time_in_an_error_json_is_no_time(stamp):
    data = b'{"message": "it broke", "timestamp": ' + stamp + b"}"
    found = read_error_json(data, SOURCE, profile_source(b"", "error.json"))
    assert found is not None
    assert not found[0].when.known


@pytest.mark.parametrize("indent", [None, 2])
def test_an_error_json_is_cited_where_its_message_stands(indent):
    whole = {"timestamp": 1772435100, "message": {"message": "KeyError: 'caption'", "extraInfo": {"py_callstack": "x"}}}
    for data in (json.dumps(whole, indent=indent).encode(), json.dumps(whole, indent=indent).encode()[:-6]):
        read, _ = read_error_json(data, SOURCE, profile_source(b"", "logs/attempt_0/1/error.json"))
        line = data.split(b"\n")[read.span.line - 1]
        assert data[read.span.offset :].startswith(b'"message"')
        assert line[read.span.column - 1 :].startswith(b'"message"')
        assert read.span.offset + read.span.length <= len(data)


@pytest.mark.parametrize("needle", [b"Root Cause", b"  exitcode  : 1 "])
@pytest.mark.parametrize("before", [0, 1, 700, 1190, 1300, 4000])
def test_lines_before_a_banner_move_its_places_and_change_nothing_else(before, needle):
    plain = failures(BANNER)
    moved = failures("[rank3]: a line that begins no list\n" * before + BANNER, needle=needle)
    assert [(f.who, f.exit_code, f.root, f.message) for f in moved] == [
        (f.who, f.exit_code, f.root, f.message) for f in plain
    ]
    assert [f.span.line - before for f in moved] == [f.span.line for f in plain]


def test_a_rule_drawn_of_several_signs_ends_an_entry():
    entry = "[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 11)\n"
    rule = "=-" * 15 + "\n"
    (found,) = failures("Root Cause\n" + entry + rule + "  exitcode  : 9 (pid: 12)\n")
    assert (found.exit_code, found.who.pid) == (1, 11)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGABRT", -6),
        ("PROCESS 3 Terminated with exit code 7", 7),
        ("process 1 terminated with the following error:", None),
    ],
)
def test_ends_of_spawned_processes_in_any_case(text, code):
    found = failure_of_event(Event(signature="x", span=Span(SOURCE, 0, 1, 1, 1), text=text))
    assert found is not None
    assert found.exit_code == code


def test_a_thread_that_terminated_with_an_exception_is_no_end_of_a_process():
    text = (
        "Process group watchdog thread terminated with exception: [Rank 6] Watchdog caught collective operation timeout"
    )
    assert failure_of_event(Event(signature="x", span=Span(SOURCE, 0, 1, 1, 1), text=text)) is None
