"""Exceptions and signals: what is left of a process that ends, and that the program's own way to end is kept."""

import builtins
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from programs import LIMIT, Left, environment, program, run

from firstfault.recorder import format as layout


def start(folder, text, **more):
    """A program that says `ready` and then waits; the process."""
    process = subprocess.Popen(
        program(folder, text),
        env=environment(folder, **more),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"ready\n", process.communicate()
    return process


def ended(folder, process):
    out, err = process.communicate(timeout=LIMIT)
    return Left(process.returncode, out.decode(), err.decode(), folder / "box")


WAITS = """
import os, signal, sys
import firstfault.recorder as r
r.start()
{more}
print("ready", flush=True)
while True:
    signal.pause()
"""


def dumps(folder, end):
    return "".join(f.read_text() for f in sorted((folder / "local").rglob(f"*{end}")))


def test_an_exception_is_written_with_its_chain_and_the_programs_hook_goes_on(tmp_path):
    left = run(
        tmp_path,
        """
        import sys
        sys.excepthook = lambda *a: print("own hook", a[0].__name__)
        import firstfault.recorder as r
        r.start()
        def read():
            raise KeyError("sample 7")
        for n in range(20):
            r.step()
        r.metrics(loss=2.5)
        r.describe(config={"lr": 0.1})
        with r.phase("data"):
            try:
                read()
            except KeyError as error:
                raise ValueError("bad batch") from error
        """,
    )
    assert left.out == "own hook ValueError\n"
    record = left.records(layout.EXCEPTION)[0]
    assert (record["type"], record["message"], record["phase"], record["step"]) == (
        "ValueError",
        "bad batch",
        "data",
        20,
    )
    assert record["chain"][0]["type"] == "KeyError"
    assert record["chain"][0]["traceback"][-1]["function"] == "read"
    assert record["metrics"] == [{"step": 20, "loss": 2.5}]
    assert record["run"]["config"] == {"lr": 0.1}
    assert [n for n, _ in record["steps"]] == list(range(5, 21))
    assert not record["caught"]
    assert left.records(layout.END)[0]["how"] == "raised"


def test_an_exception_of_a_thread_is_written_and_the_program_goes_on(tmp_path):
    left = run(
        tmp_path,
        """
        import threading
        import firstfault.recorder as r
        r.start()
        def work():
            raise OSError(28, "No space left on device")
        thread = threading.Thread(target=work, name="saver"); thread.start(); thread.join()
        print("on")
        """,
    )
    assert left.out == "on\n"
    assert "saver" in left.err
    record = left.records(layout.EXCEPTION)[0]
    assert (record["thread"], record["type"]) == ("saver", "OSError")
    assert left.records(layout.END)[0]["how"] == "ended"


def test_a_caught_exception_may_be_told_and_is_told_once(tmp_path):
    left = run(
        tmp_path,
        """
        import firstfault.recorder as r
        r.start()
        try:
            1 / 0
        except ZeroDivisionError as error:
            r.report(error); r.report(error)
        """,
    )
    assert [r["caught"] for r in left.records(layout.EXCEPTION)] == [True]


def test_each_caught_exception_is_told_though_the_one_before_is_gone(tmp_path):
    left = run(
        tmp_path,
        """
        import firstfault.recorder as r
        r.start()
        for number in range(4):
            try:
                raise ValueError(number)
            except ValueError as error:
                r.report(error)
        """,
    )
    assert [r["message"] for r in left.records(layout.EXCEPTION)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("before", [1, 250])
def test_what_ends_the_program_is_told_though_it_was_caught_before_or_there_were_many(tmp_path, before):
    left = run(
        tmp_path,
        f"""
        import firstfault.recorder as r
        r.start()
        for number in range({before}):
            try:
                raise ValueError(number)
            except ValueError as error:
                r.report(error)
                last = error
        raise last
        """,
    )
    told = left.records(layout.EXCEPTION)[-1]
    assert (told["caught"], told["message"]) == (False, str(before - 1))
    assert left.records(layout.END)[0]["how"] == "raised"


def test_a_forked_child_that_kept_our_hook_does_not_write_as_its_parent(tmp_path):
    left = run(
        tmp_path,
        """
        import os, sys
        import firstfault.recorder as r
        r.start()
        ours = sys.excepthook
        sys.excepthook = lambda *args: ours(*args)
        if os.fork() == 0:
            raise ValueError("of the child")
        os.wait()
        """,
    )
    assert left.records(layout.EXCEPTION) == []
    assert [r["how"] for r in left.records(layout.END)] == ["ended"]


def test_a_metric_is_kept_as_a_number_and_one_on_a_device_is_not_read(tmp_path):
    left = run(
        tmp_path,
        """
        import gc, weakref
        import firstfault.recorder as r
        class Device:
            type = "cuda"
            def __str__(self): return "cuda:0"
        class Tensor:
            def __init__(self, device): self.device = device
            def __float__(self):
                assert self.device == "cpu"
                return 2.5
            def __str__(self): raise SystemExit("it would wait for the device")
        r.start()
        near, far = Tensor("cpu"), Tensor(Device())
        gone = [weakref.ref(near), weakref.ref(far)]
        r.metrics(loss=near, other=far)
        del near, far
        gc.collect()
        print([g() for g in gone])
        raise ValueError("the end")
        """,
    )
    assert left.out == "[None, None]\n"
    metrics = left.records(layout.EXCEPTION)[0]["metrics"]
    assert [(m["loss"], m["other"]) for m in metrics] == [(2.5, "<Tensor on cuda:0>")]


def test_ways_to_end_are_no_errors(tmp_path):
    left = run(tmp_path, "import sys\nimport firstfault.recorder as r\nr.start()\nsys.exit(4)")
    assert left.code == 4
    assert left.records(layout.EXCEPTION) == []


def test_an_exception_that_cannot_be_printed_is_survived(tmp_path):
    left = run(
        tmp_path,
        """
        import firstfault.recorder as r
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError("no")
        r.start()
        raise Odd()
        """,
    )
    assert left.records(layout.EXCEPTION)[0]["message"] == "<no text>"


def test_the_dump_signal_leaves_stacks_and_the_program_goes_on(tmp_path):
    process = start(tmp_path, WAITS.format(more="def here():\n    pass"))
    ring = next((tmp_path / "local").rglob("*.ring"))
    number = layout.read_ring(ring.read_bytes()).head.signal
    assert number == signal.SIGUSR1
    os.kill(process.pid, number)
    while "program.py" not in dumps(tmp_path, layout.STACKS):
        assert process.poll() is None
    process.kill()
    ended(tmp_path, process)


def test_under_slurm_the_dump_signal_is_one_that_no_scheduler_sends(tmp_path):
    process = start(tmp_path, WAITS.format(more=""), SLURM_JOB_ID="99")
    ring = next((tmp_path / "local").rglob("*.ring"))
    number = layout.read_ring(ring.read_bytes()).head.signal
    process.kill()
    left = ended(tmp_path, process)
    assert number >= signal.SIGRTMIN
    assert left.records(layout.HEADER)[0]["dump_signal"] == number


def test_a_handler_that_was_there_before_keeps_its_signal(tmp_path):
    text = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: os.write(1, b'mine\\n'))\n" + WAITS.format(
        more=""
    )
    process = start(tmp_path, text)
    os.kill(process.pid, signal.SIGUSR1)
    assert process.stdout.readline() == b"mine\n"
    process.kill()
    assert ended(tmp_path, process).records(layout.HEADER)[0]["dump_signal"] != signal.SIGUSR1


def test_a_handler_that_comes_later_takes_the_signal_and_the_dump_moves(tmp_path):
    more = "signal.signal(signal.SIGUSR1, lambda *a: os.write(1, b'mine\\n'))"
    process = start(tmp_path, WAITS.format(more=more))
    os.kill(process.pid, signal.SIGUSR1)
    assert process.stdout.readline() == b"mine\n"
    ring = next((tmp_path / "local").rglob("*.ring"))
    number = layout.read_ring(ring.read_bytes()).head.signal
    assert number not in {0, signal.SIGUSR1}
    os.kill(process.pid, number)
    while "program.py" not in dumps(tmp_path, layout.STACKS):
        assert process.poll() is None
    process.kill()
    change = ended(tmp_path, process).records(layout.CHANGE)[0]
    assert (change["was"], change["now"]) == (signal.SIGUSR1, number)


def test_sigterm_leaves_stacks_and_ends_as_before(tmp_path):
    process = start(tmp_path, WAITS.format(more=""))
    process.terminate()
    assert ended(tmp_path, process).code == -signal.SIGTERM
    assert "program.py" in dumps(tmp_path, layout.SIGTERM)


def test_sigterm_goes_to_the_programs_own_handler(tmp_path):
    more = "def stop(*a):\n    os.write(1, b'saving\\n')\n    sys.exit(7)\nsignal.signal(signal.SIGTERM, stop)\nassert signal.getsignal(signal.SIGTERM) is stop"
    process = start(tmp_path, WAITS.format(more=more))
    process.terminate()
    left = ended(tmp_path, process)
    assert (left.code, left.out) == (7, "saving\n")
    assert "program.py" in "".join(left.texts(layout.SIGTERM))
    assert "rank 3" in left.texts(layout.SIGTERM)[0].splitlines()[0]


def test_a_program_that_ignores_sigterm_goes_on_ignoring_it(tmp_path):
    more = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    process = start(tmp_path, WAITS.format(more=more))
    process.terminate()
    os.kill(process.pid, signal.SIGUSR1)
    while "program.py" not in dumps(tmp_path, layout.STACKS):
        assert process.poll() is None
    process.kill()
    assert ended(tmp_path, process).code == -signal.SIGKILL


def test_a_crash_leaves_its_stack(tmp_path):
    left = run(
        tmp_path,
        "import ctypes\nimport firstfault.recorder as r\nr.start()\ndef broken():\n    ctypes.string_at(0)\nbroken()",
    )
    assert left.code == -signal.SIGSEGV
    text = dumps(tmp_path, layout.FATAL)
    assert "Segmentation fault" in text
    assert "in broken" in text


def test_the_programs_own_faulthandler_is_left_alone(tmp_path):
    left = run(
        tmp_path,
        "import ctypes, faulthandler\nfaulthandler.enable()\nimport firstfault.recorder as r\nr.start()\nctypes.string_at(0)",
    )
    assert "Segmentation fault" in left.err
    assert left.records(layout.HEADER)[0]["fatal_signals"] == "the program's own faulthandler"


def test_a_forked_child_writes_nothing_of_its_parents(tmp_path):
    left = run(
        tmp_path,
        """
        import os, signal
        import firstfault.recorder as r
        r.start(); r.step()
        pid = os.fork()
        if pid == 0:
            assert not r.started()
            r.step(); r.step()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            raise SystemExit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), 11)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -11
        """,
    )
    assert left.code == 0, left.err
    ends = left.records(layout.END)
    assert [e["step"] for e in ends] == [1]
    assert dumps(tmp_path, layout.FATAL) == ""


def test_a_child_of_multiprocessing_can_take_signals(tmp_path):
    """torch sets SIGCHLD in each process with a loader, also where its parent recorded."""
    left = run(
        tmp_path,
        """
        import os, signal
        import firstfault.recorder as r
        r.start()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, lambda *a: None)
            r.start()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        """,
    )
    assert left.code == 0, left.err


def test_signals_in_a_storm_end_nothing(tmp_path):
    left = run(
        tmp_path,
        """
        import os, signal
        import firstfault.recorder as r
        r.start()
        for n in range(3000):
            os.kill(os.getpid(), signal.SIGUSR1)
            r.step()
        print("on")
        """,
    )
    assert (left.code, left.out) == (0, "on\n"), left.err


def test_the_members_of_a_group_of_exceptions_are_written(tmp_path):
    if not hasattr(builtins, "ExceptionGroup"):
        pytest.skip("Python 3.10 has no groups")
    text = "r.start()\nraise ExceptionGroup('many', [ValueError('one'), ExceptionGroup('in', [OSError(28, 'No space left on device')])])"
    left = run(tmp_path, f"import firstfault.recorder as r\n{text}")
    record = left.records(layout.EXCEPTION)[0]
    assert record["message"].startswith("many")
    members = [(m["type"], m["message"]) for m in record["chain"] if m.get("member")]
    assert members == [("ValueError", "one"), ("OSError", "[Errno 28] No space left on device")]


def test_the_text_of_sys_exit_is_written_and_a_number_is_none(tmp_path):
    left = run(tmp_path, "import sys, firstfault.recorder as r\nr.start()\nsys.exit('no data, password=hunter2secret')")
    assert left.code == 1
    assert "no data, password=hunter2secret" in left.err
    assert left.records(layout.END)[0]["said"] == "no data, password=[removed:password]"


def test_a_number_of_sys_exit_is_no_text(tmp_path):
    left = run(tmp_path, "import sys, firstfault.recorder as r\nr.start()\nsys.exit(3)")
    assert left.code == 3
    assert "said" not in left.records(layout.END)[0]


def test_a_program_that_sets_its_own_hook_is_written_all_the_same_and_once(tmp_path):
    text = "sys.excepthook = lambda *a: print('own', a[1])\nraise RuntimeError('label 17')"
    left = run(tmp_path, f"import sys, firstfault.recorder as r\nr.start()\n{text}")
    assert left.out == "own label 17\n"
    assert [r["message"] for r in left.records(layout.EXCEPTION)] == ["label 17"]
    assert left.records(layout.END)[0]["how"] == "raised"


LOGGED = """
import logging, firstfault.recorder as r
r.start()
log = logging.getLogger("train")
log.addHandler(r.handler())
log.setLevel("INFO")
"""


def test_different_texts_of_one_format_are_all_written_and_equal_ones_are_counted(tmp_path):
    text = "for n in range(50):\n    log.warning('%s', 'again')\nlog.error('%s', 'first')\nlog.error('%s', 'second')\n"
    left = run(tmp_path, LOGGED + text)
    assert [r["message"] for r in left.records(layout.LOG)] == ["again", "first", "second"]
    assert [(r["message"], r["folded"]) for r in left.records(layout.NOTE)] == [("again", 49)]


def test_a_log_that_floods_leaves_room_for_the_exception(tmp_path):
    text = "for n in range(3000):\n    log.info('step %s %s', chr(300 + n), 'x' * 200)\nraise ValueError('label 17')\n"
    left = run(tmp_path, LOGGED + text, FIRSTFAULT_RECORD_MB="0.2")
    assert left.records(layout.EXCEPTION)[0]["message"] == "label 17"
    assert left.records(layout.END)[0]["not_written"] > 1000


def test_a_folder_that_vanished_and_can_be_made_again_gets_what_comes(tmp_path):
    text = """
    import os, shutil, firstfault.recorder as r
    r.start()
    shutil.rmtree(os.environ["FIRSTFAULT_RECORD_DIR"])
    raise ValueError("label 17")
    """
    left = run(tmp_path, text)
    assert left.records(layout.EXCEPTION)[0]["message"] == "label 17"


def test_an_exception_that_cleaning_up_holds_back_is_told_when_asked(tmp_path):
    left = run(
        tmp_path,
        """
import firstfault.recorder as r, json
r.start()
from firstfault.recorder import api
from firstfault.recorder.listener import _handling
def now(): return _handling(api.current()).get("handling", {})
def work(): raise ValueError("password=Tr0ub4dor-and-3-more is bad")
def main():
    try: work()
    finally: print(json.dumps(now()))
try: main()
except ValueError: pass
print(now())
try: next(iter(()))
except StopIteration: print(now())
""",
    )
    told, *others = left.out.splitlines()
    told = json.loads(told)
    assert (told["type"], [f["function"] for f in told["traceback"]]) == ("ValueError", ["main", "work"])
    assert "Tr0ub4dor" not in told["message"]
    assert others == ["{}", "{}"], left.err


def test_a_thread_that_trains_says_so_when_it_raises(tmp_path):
    left = run(
        tmp_path,
        """
import firstfault.recorder as r, threading
r.start()
from firstfault.recorder import api
def trains():
    api.current().looker.follow(threading.get_ident())
    raise ValueError("trains")
def other(): raise ValueError("other")
for work in (trains, other):
    thread = threading.Thread(target=work); thread.start(); thread.join()
""",
    )
    assert {e["message"]: e.get("trains") for e in left.records("exception")} == {"trains": True, "other": None}


def signals_of(process, name):
    """Numbers of the signals that a process catches (`SigCgt`) or ignores (`SigIgn`)."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return {n for n in range(1, 65) if int(status[name], 16) >> (n - 1) & 1}


def test_a_dump_signal_that_comes_while_the_process_leaves_does_not_end_it(tmp_path):
    # What the C library runs last: the interpreter is gone by then.
    text = """
import ctypes
import firstfault.recorder as r
r.start()
library = ctypes.CDLL(None)
getattr(library, "__cxa_atexit")(library.pause, None, None)
print("ready", flush=True)
"""
    process = start(tmp_path, text)
    try:
        end = time.monotonic() + LIMIT
        while signal.SIGSEGV in signals_of(process, "SigCgt") or signal.SIGUSR1 in signals_of(process, "SigCgt"):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert signal.SIGUSR1 in signals_of(process, "SigIgn")
    finally:
        process.kill()
        process.communicate()
