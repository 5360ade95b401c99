"""Runs one of our commands apart from the server, and ends it with all its processes where it takes too much."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from firstfault.pipelines.batch import resident

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK = 0.25
"""Seconds between two looks at the memory."""
MOST = 512 << 20
"""Bytes of an answer that are taken."""
TOLD = 2000
"""Characters of an error message that are passed on."""


_running: set[int] = set()
"""Sessions of processes that answer."""


class Limits(NamedTuple):
    """What one call may take."""

    seconds: float = 300.0
    memory_mb: int = 4000


class CallError(Exception):
    """A command that gave no answer; the message says why, and what to do."""


class SaidError(CallError):
    """A command that said itself why it gives no answer; its message may name whatever it was about."""


async def call(words: list[str], limits: Limits, given: bytes = b"") -> tuple[int, bytes]:
    """Runs a module of ours.

    Args:
        words: what stands behind `python -m`.
        limits: of time and memory; memory is heeded on Linux.
        given: what it reads on standard input.

    Returns:
        The exit code and what it printed.

    Raises:
        CallError: it took too much, printed too much, or said that it cannot do what was asked.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P" if sys.version_info >= (3, 11) else "-B",
        "-m",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_dying_with_us(),  # one call of the system, and no lock of ours is held
        limit=1 << 20,
    )
    _running.add(process.pid)
    pieces: list[bytes] = []
    work = asyncio.ensure_future(_served(process, given, pieces))
    try:
        await _watched(process.pid, work, limits)
        code, told = work.result()
    finally:
        _running.discard(process.pid)
        await _end(process, work)
    answer = b"".join(pieces)
    if not answer.strip():
        raise SaidError(told.strip()[:TOLD] or f"the command ended with {code} and no answer")
    return code, answer


def end_all() -> None:
    """Ends every process that answers, at once; for a server that is told to stop."""
    for pid in list(_running):
        with contextlib.suppress(OSError):
            _kill(pid)


def _kill(pid: int) -> None:
    """Ends a process with all of its session."""
    if hasattr(os, "killpg"):
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGTERM)


def _dying_with_us() -> Callable[[], object] | None:
    """What a new process does first: it ends, on Linux, where this server is killed, since nobody else heeds its limits."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return lambda: prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


async def _watched(pid: int, work: asyncio.Future[tuple[int, str]], limits: Limits) -> None:
    """Waits for the end; raises where a limit is met first."""
    loop = asyncio.get_running_loop()
    until = loop.time() + limits.seconds
    while not work.done():
        await asyncio.wait({work}, timeout=LOOK)
        if work.done():
            return
        if loop.time() > until:
            raise CallError(f"it took more than {limits.seconds:g} s. Name fewer files, such as those of one node.")
        if resident(pid) > limits.memory_mb * 1_000_000:
            raise CallError(f"it took more than {limits.memory_mb} MB of memory. Name fewer files.")


async def _served(process: asyncio.subprocess.Process, given: bytes, pieces: list[bytes]) -> tuple[int, str]:
    """Feeds a process and takes what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    told = asyncio.ensure_future(_head_of(process.stderr))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    size = 0
    while piece := await process.stdout.read(1 << 20):
        size += len(piece)
        if size > MOST:
            raise CallError("the answer is too large. Ask for less: fewer ranks, a shorter time.")
        pieces.append(piece)
    return await process.wait(), await told


async def _head_of(stream: asyncio.StreamReader) -> str:
    """The first of what a stream gives; the rest is read and dropped."""
    head = b""
    while piece := await stream.read(1 << 16):
        head += piece[: max(0, 4 * TOLD - len(head))]
    return head.decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process, work: asyncio.Future[tuple[int, str]]) -> None:
    """Leaves nothing behind, however the call ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            _kill(process.pid)
    if not work.done():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError, CallError):
        await work
    await process.wait()
