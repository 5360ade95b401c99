"""A worker of a loader that is killed, and errors of handlers that come while the recorder is at work: both are told, nothing is taken."""

import multiprocessing
import os
import signal

import pytest
from programs import run

from firstfault.recorder import format as layout
from firstfault.recorder.exceptions import by_handler
from firstfault.recorder.hooks.workers import described, lost


def _ended(code):
    """A forked process that has ended so, for which nobody has waited."""

    def end():
        if code >= 0:
            os._exit(code)
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)  # pytest prints stacks at some
        os.kill(os.getpid(), -code)

    worker = multiprocessing.get_context("fork").Process(target=end)
    worker.start()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    return worker


@pytest.mark.parametrize(
    ("code", "told"),
    [(-9, {"signal": "SIGKILL"}), (-11, {"signal": "SIGSEGV"}), (3, {"exit_code": 3}), (0, None), (-15, None)],
)
@pytest.mark.parametrize("waited", [False, True])
def test_a_worker_that_ended_badly_is_told_and_left_to_whoever_waits_for_it(code, told, waited):
    living = multiprocessing.get_context("fork").Process(target=signal.pause)
    living.start()
    worker = _ended(code)
    if waited:
        worker.join()
    expected = [] if told is None else [{"worker": 1, "pid": worker.pid, **told}]
    try:
        assert lost([[living, worker], []]) == expected
        assert [w["alive"] for w in described([living, worker])] == [True, False]
        if not waited:
            assert os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    finally:
        living.kill()
        living.join()
        worker.join()


def test_what_a_handler_raised_is_told_from_what_anybody_else_did():
    def handler(number, frame):
        raise RuntimeError("worker is killed")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(RuntimeError) as met:
            signal.raise_signal(signal.SIGUSR2)
        assert by_handler(met.value)
        assert not by_handler(ValueError("of nobody"))
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_what_a_handler_raises_while_we_are_at_work_reaches_the_program_and_costs_no_record(tmp_path):
    left = run(
        tmp_path,
        """
        import os, signal
        import firstfault.recorder as r
        r.start()
        def handler(number, frame):
            raise RuntimeError("worker (pid 41) is killed by signal: Killed.")
        signal.signal(signal.SIGUSR2, handler)
        class Sample:
            def __str__(self):
                os.kill(os.getpid(), signal.SIGUSR2)
                return "sample"
        try:
            r.item(Sample())
        except RuntimeError as error:
            print("passed on", error, flush=True)
        class Broken(Exception):
            asked = 0
            def __str__(self):
                Broken.asked += 1
                if Broken.asked == 1:
                    os.kill(os.getpid(), signal.SIGUSR2)
                return "connection reset"
        raise Broken
        """,
    )
    assert left.out == "passed on worker (pid 41) is killed by signal: Killed.\n", left.err
    told = {record["type"]: record["message"] for record in left.records(layout.EXCEPTION)}
    assert told == {"Broken": "connection reset", "RuntimeError": "worker (pid 41) is killed by signal: Killed."}
    assert left.records(layout.END)[0]["broken"] == []
