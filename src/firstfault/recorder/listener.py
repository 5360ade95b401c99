"""A thread that looks once a second where the program is, and that the monitor asks for what only this process knows.

Between two looks it sleeps, and needs nothing of the program; a process that cannot start it goes on without.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from firstfault.recorder import format as layout
from firstfault.recorder.exceptions import single
from firstfault.recorder.files import open_plain, replace_file

if TYPE_CHECKING:
    from firstfault.recorder.core import Recorder


LAST = "stop"
"""What the process itself writes into its FIFO, so that the thread ends."""
_LAST_S = 1.0
LOOK_S = 1.0
"""Seconds between two looks, when the program has run for a while; each may stop it for some 0.1 ms."""
_FIRST_S = 0.02
_SLOWER = 1.03
"""The first looks come after this time, and each after so many times the one before: a run of seconds is seen often
enough for shares of its time; after half a minute and some 130 looks there is one a second."""


def start(recorder: Recorder) -> None:
    """Makes the FIFO and starts the thread."""
    stem = os.path.join(recorder.spool, recorder.stem)
    os.mkfifo(stem + layout.ASK, 0o600)
    # For reading and writing: a reader alone would see the end of the file each time somebody has asked.
    descriptor = os.open(stem + layout.ASK, os.O_RDWR | os.O_CLOEXEC)
    thread = threading.Thread(target=_listen, args=(recorder, descriptor, stem), name="firstfault", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(stem + layout.ASK)
        raise
    recorder.listening = thread


def stop(recorder: Recorder) -> None:
    """Ends the thread, which closes the FIFO, and removes it; waits a second at most."""
    thread, recorder.listening = recorder.listening, None
    if thread is None:
        return
    stem = os.path.join(recorder.spool, recorder.stem)
    with contextlib.suppress(OSError):
        descriptor = os.open(stem + layout.ASK, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{LAST}\n".encode())
        finally:
            os.close(descriptor)
        if thread is not threading.current_thread():
            thread.join(_LAST_S)
    for end in (layout.ASK, layout.ANSWER):
        with contextlib.suppress(OSError):
            os.unlink(stem + end)


def _listen(recorder: Recorder, descriptor: int, stem: str) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    pause = _FIRST_S
    while True:
        try:
            # By the clock's last digits: looks that keep step with the program would always find it at the same place.
            asked = os.read(descriptor, 4096) if poll.poll(pause * (750 + time.monotonic_ns() % 500)) else b""
        except OSError:
            return
        try:
            recorder.looker.look()
            if not asked:
                pause = min(pause * _SLOWER, LOOK_S)
                continue
            words = asked.decode("ascii", "replace").split()
            if LAST in words:
                os.close(descriptor)
                return
            token = words[-1] if words else ""
            answer = {"token": token, **_answer(recorder)}
            _all_stacks(stem)
            replace_file(stem + layout.ANSWER, json.dumps(answer, default=str).encode("utf-8", "backslashreplace"))
            _flight_recorder(recorder, stem)
        except Exception as problem:  # noqa: BLE001 - the program goes on
            recorder.fault(problem)


def _all_stacks(stem: str) -> None:
    """Writes the stacks of all threads: safe from here, since none of them runs Python meanwhile."""
    descriptor = open_plain(stem + layout.STACKS)
    if descriptor >= 0:
        try:
            faulthandler.dump_traceback(file=descriptor, all_threads=True)
        finally:
            os.close(descriptor)


def _answer(recorder: Recorder) -> dict[str, Any]:
    from firstfault.recorder.hooks.loader import describe_loaders

    return {
        "threads": {t.native_id: t.name for t in threading.enumerate()},
        "recorder": threading.get_native_id(),
        "loaders": describe_loaders(),
        "broken": recorder.broken,
        **_handling(recorder),
    }


def _handling(recorder: Recorder) -> dict[str, Any]:
    """The exception that the thread which trains deals with: one that cleaning up holds back reaches no hook and no log.

    Whether the program has caught it, or raises it again when its `finally` is done, is not told.
    """
    now: dict[int, Any] = getattr(sys, "_current_exceptions", dict)()
    found = now.get(recorder.looker.thread)
    error = found[1] if isinstance(found, tuple) else found  # before Python 3.12 with its type and traceback
    if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
        return {}
    return {"handling": single(error, recorder.cleaner)}


def _flight_recorder(recorder: Recorder, stem: str) -> None:
    """Keeps what torch has recorded of its collectives, where it records at all."""
    native = getattr(getattr(sys.modules.get("torch"), "_C", None), "_distributed_c10d", None)
    if native is None or recorder.who.rank is None:
        return  # a launcher that has imported torch is in no group, and its empty dump is of no rank
    for name in ("_dump_nccl_trace", "_dump_fr_trace"):
        dump = getattr(native, name, None)
        if dump is None:
            continue
        try:
            # Without stacks of Python: to tell them torch would import its compiler, from here, for seconds.
            raw = dump(includeCollectives=True, includeStackTraces=False, onlyActive=False)
        except Exception as problem:  # noqa: BLE001 - each version of torch may refuse in its own way
            recorder.fault(problem)
            continue
        if isinstance(raw, bytes) and b"pg_config" in raw:
            replace_file(stem + layout.RECORDER, raw)
            return
