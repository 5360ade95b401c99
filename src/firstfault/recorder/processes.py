"""What the kernel tells of other processes of this user: how they ended, what their threads are in. Reads /proc, changes nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import signal
import struct
from typing import Any

from firstfault.recorder.files import read_file

_GET_INFO = 0xC040FF0B
"""`PIDFD_GET_INFO` for the first 64 bytes of its answer (Linux 6.13; the exit code since 6.15)."""
_EXIT = 1 << 3
_CALLS = {
    "x86_64": {0: "read", 1: "write", 3: "close", 7: "poll", 17: "pread64", 18: "pwrite64", 23: "select", 35: "nanosleep",
               42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 61: "wait4", 72: "fcntl",
               73: "flock", 74: "fsync", 75: "fdatasync", 2: "open", 4: "stat", 202: "futex", 230: "clock_nanosleep",
               232: "epoll_wait", 257: "openat", 262: "newfstatat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 34: "pause",
               16: "ioctl", 82: "rename", 87: "unlink", 217: "getdents64", 247: "waitid"},
    "aarch64": {63: "read", 64: "write", 57: "close", 73: "ppoll", 67: "pread64", 68: "pwrite64", 72: "pselect6", 101: "nanosleep",
                203: "connect", 202: "accept", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 260: "wait4",
                25: "fcntl", 32: "flock", 82: "fsync", 83: "fdatasync", 98: "futex", 115: "clock_nanosleep", 22: "epoll_pwait",
                56: "openat", 79: "newfstatat", 29: "ioctl", 61: "getdents64", 95: "waitid"},
}  # fmt: skip
_ON_FILE = {"read", "write", "pread64", "pwrite64", "fsync", "fdatasync", "flock", "fcntl", "recvfrom", "sendto", "recvmsg",
            "sendmsg", "ioctl", "getdents64", "close"}  # fmt: skip
_ON_PATH = {"open": 0, "openat": 1, "newfstatat": 1, "stat": 0, "rename": 0, "unlink": 0}
_THREADS = 64


def lives(pid: int, started: int) -> bool:
    """Whether a process is there and has not ended.

    Args:
        pid: its number.
        started: when it began, in clock ticks since boot: another process may have its number by now.
    """
    fields = read_file(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    return len(fields) > 19 and fields[0] not in {b"Z", b"X"} and int(fields[19]) == started


def exit_status(pid: int, pidfd: int) -> int | None:
    """How a process that has just ended did: minus the signal, else its exit code; None where the kernel does not tell.

    Args:
        pid: its number; while nobody has waited for it, /proc still knows.
        pidfd: a descriptor of it; newer kernels tell through it for ever; -1 for none.
    """
    fields = read_file(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    if len(fields) > 49 and fields[0] in {b"Z", b"X"}:
        return _of_wait(int(fields[49]))
    if pidfd < 0:
        return None
    answer = bytearray(64)
    struct.pack_into("<Q", answer, 0, _EXIT)
    with contextlib.suppress(OSError):
        fcntl.ioctl(pidfd, _GET_INFO, answer)
        mask = struct.unpack_from("<Q", answer, 0)[0]
        if mask & _EXIT:
            return _of_wait(struct.unpack_from("<i", answer, 60)[0])
    return None


def _of_wait(status: int) -> int:
    return -(status & 0x7F) if status & 0x7F else status >> 8 & 0xFF


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal: without one it would end by it."""
    for line in read_file(f"/proc/{pid}/status", 8192).splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def threads(pid: int) -> list[dict[str, Any]]:
    """What each thread of a process is in: its state, where in the kernel, the system call with the file it is about."""
    try:
        numbers = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except (OSError, ValueError):
        return []
    return [_thread(pid, number) for number in numbers[:_THREADS]]


def _thread(pid: int, number: int) -> dict[str, Any]:
    base = f"/proc/{pid}/task/{number}"
    fields = read_file(f"{base}/stat", 4096).rpartition(b")")[2].split()
    found: dict[str, Any] = {
        "thread": number,
        "name": read_file(f"{base}/comm", 64).decode("utf-8", "replace").strip(),
        "state": fields[0].decode() if fields else None,
        "wchan": read_file(f"{base}/wchan", 128).decode("ascii", "replace").strip("\0 ") or None,
        "kernel": read_file(f"{base}/stack", 4096).decode("ascii", "replace").splitlines()[:12] or None,
        "cpu_s": round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2) if len(fields) > 12 else None,
        **_call(pid, read_file(f"{base}/syscall", 256).split()),
    }
    return {k: v for k, v in found.items() if v not in (None, "", "0")}


def _call(pid: int, words: list[bytes]) -> dict[str, Any]:
    if len(words) < 7:
        return {"syscall": words[0].decode()} if words else {}
    try:
        number, arguments = int(words[0]), [int(w, 16) for w in words[1:7]]
    except ValueError:
        return {}
    name = _CALLS.get(platform.machine(), {}).get(number, str(number))
    found: dict[str, Any] = {"syscall": name}
    with contextlib.suppress(OSError, ValueError):
        if name in _ON_FILE:
            found["on"] = os.readlink(f"/proc/{pid}/fd/{arguments[0]}")
        elif name in _ON_PATH:
            found["on"] = _text_at(pid, arguments[_ON_PATH[name]])
    return found


def _text_at(pid: int, address: int) -> str | None:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        raw = memory.read(4096 - address % 4096)
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")[:400] or None
