"""Starts the code that feeds a rank in a process of its own, and watches it: time, batches, memory, shared memory, items that stand.

Everything has a limit, and what does not end is killed with all that it started. Judges nothing; imports nothing of what is tried.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.dataset.trial import Open, Stood, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping

CHILD = Path(__file__).with_name("loader_child.py")
LOOK_S = 0.1
MEMORY_S = 0.5
"""Seconds between two looks at memory."""
IMPORT_S = 300.0
"""Seconds for the import, which on a busy file system takes minutes: the limit of the caller begins when the loader is made."""
STACK_S = 1.0
"""Seconds that a process gets to write its stacks."""
SAID = 64 << 10
"""Bytes of what the code prints that are kept: the end."""
_PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_LONGEST = 64 << 10


class Limits(NamedTuple):
    """What a trial is allowed."""

    seconds: float = 120.0
    """For all ranks together."""
    batches: int = 100
    """For each rank."""
    stall_s: float = 30.0
    """Seconds for one item or batch, from which on it counts as standing."""
    memory_mb: int = 8192
    """For one rank with its workers."""


def run_rank(
    target: str,
    rank: int,
    world: int,
    limits: Limits,
    *,
    python: str,
    folder: str,
    simulate: bool = False,
    gpu: bool = False,
    env: Mapping[str, str] | None = None,
) -> Trial:
    """Tries the loader of one rank.

    Args:
        target: import path and name, as `package.module:name`.
        rank: global rank to be.
        world: ranks of the job.
        limits: what it may take; `seconds` for this rank alone.
        python: interpreter that has what the code imports.
        folder: where it runs; the import path begins there.
        simulate: whether the sampler is asked for the other ranks too.
        gpu: whether it may see the GPUs.
        env: variables; those of this process unless given.

    Returns:
        What was seen, whatever happened.

    Raises:
        OSError: the interpreter cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="firstfault-data-", ignore_cleanup_errors=True) as place:
        pipe, stacks = os.path.join(place, "told"), os.path.join(place, "stacks")
        os.mkfifo(pipe, 0o600)
        asked = {"target": target, "rank": rank, "world": world, "batches": limits.batches, "pipe": pipe, "stacks": stacks, "simulate": simulate}  # fmt: skip
        local = rank % max(1, int(_number((env or os.environ).get("LOCAL_WORLD_SIZE"), world)))
        told = {
            **(os.environ if env is None else env),
            "FIRSTFAULT_CHECK_DATA": json.dumps(asked),
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "LOCAL_RANK": str(local),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "0",
            **({} if gpu else {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}),
        }
        return _Watch(target, rank, limits, pipe, stacks).run([python, str(CHILD)], told, folder)


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() and int(text) > 0 else otherwise


class _Watch:
    """One process under watch."""

    def __init__(self, target: str, rank: int, limits: Limits, pipe: str, stacks: str) -> None:
        self.limits, self.stacks = limits, stacks
        self.trial = Trial(rank)
        self.pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.pipe, _F_SETPIPE_SZ, _PIPE_SIZE)
        self.rest = b""
        self.said = b""
        self.moved = time.monotonic()
        self.looked = 0.0
        self.shm = _shm_used()
        self.told_of: set[str] = set()
        del target

    def run(self, words: list[str], env: dict[str, str], folder: str) -> Trial:
        trial = self.trial
        begin = time.monotonic()
        try:
            child = subprocess.Popen(  # noqa: S603 - what the user wants tried
                words, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )  # fmt: skip
        except BaseException:
            os.close(self.pipe)
            raise
        try:
            self._follow(child, begin)
        finally:
            self._end(child)
            trial.seconds = time.monotonic() - begin
            trial.said = self.said.decode("utf-8", "replace")
        return trial

    def _follow(self, child: subprocess.Popen[bytes], begin: float) -> None:
        trial, out = self.trial, child.stdout
        assert out is not None
        os.set_blocking(out.fileno(), False)
        made: float | None = None
        while True:
            gone = child.poll() is not None
            select.select([self.pipe, out.fileno()], [], [], 0 if gone else LOOK_S)
            self._read()
            self._hear(out.fileno())
            now = time.monotonic()
            if gone:
                self._read()
                trial.code = child.returncode
                trial.tried = now - (made or now)
                trial.end = trial.end or ("failed" if trial.failure else "died")
                return
            if trial.end:
                return
            if now - self.looked >= MEMORY_S:
                self.looked = now
                self._look(child.pid)
                if (trial.memory_mb or 0) > self.limits.memory_mb:
                    trial.end = "memory"
                    return
                self._stalls(child.pid, now)
            if trial.made:
                made = made or now
            trial.tried = now - (made or now)
            if now - (made or begin) > (self.limits.seconds if made else max(IMPORT_S, self.limits.seconds)):
                stalled = trial.stood and trial.stood[-1].ended is None
                trial.end = "stalled" if stalled else "time"
                if not trial.times and not stalled:
                    trial.place = self._stack(child.pid)
                return

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while raw := os.read(self.pipe, 1 << 18):
                *lines, self.rest = (self.rest + raw).split(b"\n")
                self.rest = self.rest[-_LONGEST:]
                for line in lines:
                    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                        record: dict[str, Any] = json.loads(line)
                        self.trial.take(record, time.monotonic())
                        self.moved = time.monotonic()

    def _hear(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError, ValueError):
            while raw := os.read(descriptor, 1 << 16):
                self.said = (self.said + raw)[-SAID:]

    def _look(self, session: int) -> None:
        """Memory of all its processes, with what of the shared memory is in use."""
        total = 0
        for pid in session_of(session):
            fields = _text(f"/proc/{pid}/statm").split()
            if len(fields) > 2:
                total += (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
        shm = max(0, _shm_used() - self.shm)
        self.trial.memory_mb = max(self.trial.memory_mb or 0, (total + shm) >> 20)
        self.trial.shm_mb = max(self.trial.shm_mb or 0, shm >> 20)

    def _stalls(self, pid: int, now: float) -> None:
        """Notes each item that stands, once, with where its process is."""
        if not self.trial.made:
            return
        late = [o for o in self.trial.open.values() if now - o.since > self.limits.stall_s]
        if not late and now - self.moved > self.limits.stall_s:
            late = [Open("", pid, None, self.moved)]
        for one in late:
            mark = f"{one.pid} {one.since}"
            if mark not in self.told_of:
                self.told_of.add(mark)
                self.trial.stood.append(Stood(one, now - one.since, self._stack(one.pid), in_kernel(one.pid)))

    def _stack(self, pid: int) -> list[str]:
        """Where the threads of a process stand, by its own handler; empty where it does not come to that."""
        if pid not in self.trial.processes:
            return []
        before = _size(self.stacks)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGUSR2)
        end, size = time.monotonic() + STACK_S, before
        while time.monotonic() < end:
            time.sleep(0.05)
            if before < _size(self.stacks) == size:
                break
            size = _size(self.stacks)
        with contextlib.suppress(OSError), open(self.stacks, encoding="utf-8", errors="replace") as file:
            text = file.read()
            return frames_of(text[-_LONGEST:])
        return []

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Ends all that was started; what cannot be killed is left."""
        for worker in self.trial.workers.values():
            worker.state = in_kernel(worker.pid) or "ended"
        members = [*session_of(child.pid), *self.trial.processes]
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        for pid in members:
            if pid != child.pid and _session(pid) == child.pid:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        try:
            child.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            child.returncode = -signal.SIGKILL
        if child.stdout is not None:
            child.stdout.close()
        os.close(self.pipe)


def frames_of(text: str) -> list[str]:
    """The last stack that stands in a text of faulthandler, the thread that took the signal: innermost frame first."""
    threads = re.split(r"(?m)^(?=(?:Current thread|Thread) 0x)", text)
    current = [t for t in threads if t.startswith("Current thread")]
    if not current:
        return []
    frames = re.findall(r'(?m)^  File "([^"\n]*)", line (\d+) in (\S+)', current[-1])
    own = itertools.takewhile(lambda f: "torch/utils/data/_utils/worker" not in f[0], frames)
    return [f"{file}:{line} in {name}" for file, line, name in own if file != str(CHILD)][:12]


def in_kernel(pid: int) -> str:
    """State letter of a process, with what it waits in; empty where it is gone."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields or fields[0] in {"Z", "X"}:
        return ""
    place = _text(f"/proc/{pid}/wchan").strip()
    return f"{fields[0]} {place}".strip() if place not in {"", "0"} else fields[0]


def session_of(leader: int) -> list[int]:
    """Processes of a session."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _session(int(name)) == leader]


def _session(pid: int) -> int:
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[3]) if len(fields) > 3 else -1


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def shm_room() -> tuple[int, int] | None:
    """Size of /dev/shm and what of it is free, in bytes; None where there is none."""
    try:
        told = os.statvfs("/dev/shm")  # noqa: S108 - where the kernel keeps it
    except OSError:
        return None
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def _shm_used() -> int:
    room = shm_room()
    return 0 if room is None else room[0] - room[1]
