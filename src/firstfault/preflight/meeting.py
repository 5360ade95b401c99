"""How the processes of a job bring their reports together: through a shared folder, and over the port where the job itself will meet.

No third party: rank 0 gathers. Small whole files, bounded waits, and only an address that the job was given. Must not judge.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from firstfault.preflight.families import Report
from firstfault.preflight.machine import listen
from firstfault.recorder.files import make_folder, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST = 4 << 20
"""Bytes of one report."""
_TALK_S = 5.0
_FRESH_S = 300.0
"""Seconds by which a report may be older than the call to meet; older ones are of an earlier start."""
_WORKERS = 32
_HELLO, _ANSWER, _JOINER = "hello", "answer", "joiner"


class Talk(NamedTuple):
    """What came of looking for rank 0 over the network."""

    state: str
    """`met`: our rank 0 answered; `listens`: somebody else; `refused`: the machine answered; `unreachable`."""
    trouble: str = ""
    clock_s: float | None = None
    """Seconds by which our clock is ahead of that of rank 0."""
    delivered: bool = False


class Server:
    """Takes reports at the meeting place of the job, for as long as this check runs."""

    def __init__(self, port: int, run: str) -> None:
        self._run = run
        self._socket = listen(port, backlog=1024)
        self._socket.settimeout(0.2)
        self._reports: list[Report] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="preflight")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._socket.getsockname()[1])

    def reports(self) -> list[Report]:
        """What has come so far."""
        with self._lock:
            return list(self._reports)

    def close(self) -> None:
        """Stops listening."""
        self._closed.set()
        self._thread.join(1.0)
        self._socket.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except (TimeoutError, socket.timeout):  # noqa: UP041 - two types before Python 3.10.?
                continue
            except OSError:
                return
            self._pool.submit(self._take, connection)

    def _take(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            connection.settimeout(_TALK_S)
            with connection.makefile("rwb") as stream:
                first = json.loads(stream.readline(1024))
                if not isinstance(first, dict) or first.get("firstfault") != self._run:
                    return
                stream.write(json.dumps({"now": time.time()}).encode() + b"\n")
                stream.flush()
                line = stream.readline(MOST)
                if not line.strip():
                    return
                report = msgspec.json.decode(line, type=Report)
                with self._lock:
                    self._reports.append(report)
                stream.write(b"taken\n")
                stream.flush()


def talk(address: str, port: int, run: str, report: Callable[[float | None], Report] | None, until: float) -> Talk:
    """Looks for rank 0, compares the clocks, and hands a report over.

    Args:
        address: of the meeting place.
        port: of the meeting place.
        run: name of the run: who else listens there does not answer to it.
        report: makes the report to hand over, given by how much our clock is ahead; None where there is none to give.
        until: by `time.monotonic`, when to stop trying.
    """
    last = Talk("unreachable", "not tried")
    pause = 0.1
    while True:
        try:
            last = _once(address, port, run, report)
        except ConnectionRefusedError:
            last = Talk("refused")
        except (OSError, OverflowError, UnicodeError) as error:
            last = Talk("unreachable", getattr(error, "strerror", None) or str(error) or "no answer")
        if last.state == "met" or time.monotonic() + pause > until:
            return last
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that thousands do not come at once
        pause = min(2 * pause, 2.0)


def _once(address: str, port: int, run: str, report: Callable[[float | None], Report] | None) -> Talk:
    with socket.create_connection((address, port), _TALK_S) as connection:
        connection.settimeout(_TALK_S)
        with connection.makefile("rwb") as stream:
            try:
                before, begin = time.time(), time.monotonic()
                stream.write(json.dumps({"firstfault": run}).encode() + b"\n")
                stream.flush()
                told = json.loads(stream.readline(1024))
                there = float(told["now"])
            except (OSError, ValueError, KeyError, TypeError):
                return Talk("listens")
            clock = before + (time.monotonic() - begin) / 2 - there
            if report is None:
                return Talk("met", clock_s=clock)
            stream.write(msgspec.json.encode(report(clock)) + b"\n")
            stream.flush()
            return Talk("met", clock_s=clock, delivered=stream.readline(64) == b"taken\n")


class SharedFolder:
    """Reports as small files in a folder that all machines see; times are those of its file system, not of any machine's clock."""

    def __init__(self, folder: str, run: str) -> None:
        self.path = Path(folder) / run

    def call(self, now: float) -> bool:
        """Says that rank 0 gathers here, and what its clock shows; whether that could be written."""
        if not make_folder(str(self.path)):
            return False
        return replace_file(str(self.path / _HELLO), json.dumps({"now": now}).encode())

    def clock(self, wait_s: float) -> float | None:
        """Seconds by which our clock is behind that of rank 0, at least; None where it is not known to be.

        A message from the future shows it, however long the file took to appear here.
        """
        end = time.monotonic() + wait_s
        while True:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                file = self.path / _HELLO
                told = float(json.loads(file.read_bytes()[:1024])["now"])
                return min(0.0, time.time() - told)
            if time.monotonic() >= end:
                return None
            time.sleep(0.2)

    def leave(self, report: Report) -> bool:
        """Writes a report; whether it is there."""
        if not make_folder(str(self.path)):
            return False
        return replace_file(str(self._file(report)), msgspec.json.encode(report))

    def _file(self, report: Report) -> Path:
        task = "x" if report.task is None else report.task
        host = re.sub(r"[^\w-]", "_", report.host)
        return self.path / f"{task}.{host}.{report.pid}.json"

    def gather(self, seen: dict[str, Report], arrived: dict[str, float]) -> None:
        """Reads what is new.

        Args:
            seen: name of the file -> report; filled.
            arrived: name of the file -> our clock when we first saw it; filled.
        """
        try:
            called = (self.path / _HELLO).stat().st_mtime
            files = [f for f in self.path.iterdir() if f.suffix == ".json" and f.name not in seen]
        except OSError:
            return
        for file in files:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                if file.stat().st_mtime < called - _FRESH_S:
                    continue
                now = time.time()
                seen[file.name] = msgspec.json.decode(file.read_bytes()[:MOST], type=Report)
                arrived[file.name] = now

    def answer(self, own: Report) -> bytes | None:
        """The joined answer, where it is newer than our own report."""
        with contextlib.suppress(OSError):
            file = self.path / _ANSWER
            mine = self._file(own)
            if not mine.exists() or file.stat().st_mtime >= mine.stat().st_mtime:
                return file.read_bytes()
        return None

    def take_over(self, own: Report) -> bool:
        """Whether this process is the one that joins in place of a rank 0 that did not come."""
        if self.answer(own) is not None or (not (self.path / _HELLO).exists() and not self.call(time.time())):
            return False
        with contextlib.suppress(OSError):
            (self.path / _JOINER).touch(exist_ok=False)
            # Another may have joined, and left, between our two looks.
            return self.answer(own) is None
        return False

    def publish(self, answer: bytes, names: Sequence[str]) -> None:
        """Leaves the answer for the others and removes the reports that it holds."""
        replace_file(str(self.path / _ANSWER), answer)
        for name in [*names, _HELLO, _JOINER]:
            with contextlib.suppress(OSError):
                (self.path / name).unlink()
