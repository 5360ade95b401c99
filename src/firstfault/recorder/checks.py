"""Whether this machine lets the recorder do its work, tried by doing it. Leaves nothing behind.

`run_checks` is what a command for checks before a run shows, `firstfault record --check` for one. It changes nothing of the machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from firstfault.recorder import format as layout
from firstfault.recorder.files import make_folder, read_file, replace_file
from firstfault.recorder.processes import exit_status, threads
from firstfault.recorder.settings import from_environment

FREE_MB = 256
SLOW_S = 1.0
"""Seconds for a file of the size of a heartbeat from which on a folder is too slow for one every few seconds."""
_BEATS = b"x" * 4096
_STORE_S = 3.0
_CHILD = (
    "import faulthandler, os, signal, sys\n"
    "faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], 'w'), all_threads=True)\n"
    "print('ready', flush=True)\n"
    "os.read(0, 1)\n"
)


class Check(NamedTuple):
    """One need."""

    name: str
    met: bool
    detail: str
    """What was found; where not met, what it means."""


def run_checks(folder: str | None = None) -> list[Check]:
    """Tries everything.

    Args:
        folder: the shared folder; by the environment where None.
    """
    settings = from_environment(folder)
    return [
        shared_folder(settings.folder),
        _folder("local folder", settings.local, "heartbeats would go to the shared folder"),
        _ring(settings.local),
        *_child(),
        _ptrace(),
        *_store(),
    ]


def shared_folder(path: str) -> Check:
    """Tries the folder of the job."""
    return _folder("shared folder", path, "nothing would survive the node")


def _folder(name: str, path: str, price: str) -> Check:
    made = not os.path.isdir(path)
    try:
        if not make_folder(path):
            return Check(name, met=False, detail=f"{path} cannot be written: {price}")
        probe = os.path.join(path, f".firstfault-probe-{os.getpid()}")
        begin = time.monotonic()
        done = replace_file(probe, _BEATS) and read_file(probe) == _BEATS
        spent = time.monotonic() - begin
        with contextlib.suppress(OSError):
            os.unlink(probe)
        free = os.statvfs(path).f_bavail * os.statvfs(path).f_frsize >> 20
    except OSError as error:
        return Check(name, met=False, detail=f"{path}: {error.strerror}: {price}")
    finally:
        if made:
            with contextlib.suppress(OSError):
                os.rmdir(path)
    if not done:
        return Check(name, met=False, detail=f"{path} took no file: {price}")
    if spent >= SLOW_S:
        return Check(
            name, met=False, detail=f"{path} took {spent:.1f} s for one small file: heartbeats would come late"
        )
    little = "" if free >= FREE_MB else f": less than {FREE_MB} MB"
    return Check(name, met=not little, detail=f"{path}, {free} MB free{little}, {spent * 1000:.0f} ms for a small file")


def _ring(local: str) -> Check:
    base = local if os.path.isdir(local) else os.path.dirname(local) or "/"
    try:
        with tempfile.TemporaryFile(dir=base) as file:
            os.posix_fallocate(file.fileno(), 0, layout.SIZE)
    except OSError as error:
        return Check("heartbeat", met=False, detail=f"{base}: {error.strerror}: no heartbeat outside the process")
    return Check("heartbeat", met=True, detail=base)


def _child() -> list[Check]:
    """A child is made to dump its stacks, is looked at in /proc, and killed; each is seen from outside."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "stacks")
        try:
            child = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-I", "-S", "-c", _CHILD, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            return [Check("a process of our own", met=False, detail=str(error))]
        try:
            assert child.stdout is not None
            child.stdout.readline()
            child.send_signal(signal.SIGUSR1)
            stacks = _until(file)
            seen = any(t.get("syscall") for t in threads(child.pid))
            death = _death(child)
        finally:
            child.kill()
            child.communicate()
    return [
        Check("stacks by signal", stacks, "faulthandler wrote them" if stacks else "no stack of a hanging process"),
        Check(
            "/proc of another process",
            seen,
            "its system call can be read" if seen else "a bundle will not name the system call",
        ),
        death,
    ]


def _until(file: str) -> bool:
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        if b"File " in read_file(file):
            return True
        time.sleep(0.01)
    return False


def _death(child: subprocess.Popen[bytes]) -> Check:
    try:
        pidfd = os.pidfd_open(child.pid)
    except (OSError, AttributeError):
        return Check(
            "death of a process", met=False, detail="no pidfd: this kernel is older than 5.3, deaths are not told"
        )
    try:
        import select

        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        child.kill()
        told = bool(poll.poll(3000)) and exit_status(child.pid, pidfd) == -signal.SIGKILL
    finally:
        os.close(pidfd)
    return Check("death of a process", told, "SIGKILL is told with its number" if told else "told without its reason")


def _ptrace() -> Check:
    scope = read_file("/proc/sys/kernel/yama/ptrace_scope", 8).strip().decode()
    free = scope in {"", "0"} or os.geteuid() == 0
    return Check("ptrace", free, f"scope {scope or 'none'}" + ("" if free else ": py-spy and strace need more rights"))


def _store() -> list[Check]:
    """Whether the place at which the ranks meet can be reached from here; nothing where no launcher has told one."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "")
    if not address or not port.isdecimal():
        return []
    where = f"{address}:{port}"
    try:
        socket.create_connection((address, int(port)), _STORE_S).close()
    except ConnectionRefusedError:
        return [Check("store", met=True, detail=f"{where}: the host answers, nobody listens there yet")]
    except (OSError, OverflowError) as error:
        price = "the ranks of this node would not find the others"
        return [Check("store", met=False, detail=f"{where}: {getattr(error, 'strerror', None) or error}: {price}")]
    return [Check("store", met=True, detail=f"{where}: somebody listens")]
