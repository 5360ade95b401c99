"""One bundle: stacks of every process of a node that records, what the kernel says of their threads, and their last states.

Signals registered processes only, by the signal that each has told, and only while it has a handler for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

from firstfault.recorder import format as layout
from firstfault.recorder.clean import plain_item
from firstfault.recorder.files import make_folder, read_file, replace_file
from firstfault.recorder.gathering import MOST_STACKS, beat, cleaner_text, heading, tidy
from firstfault.recorder.processes import handles, lives, threads

if TYPE_CHECKING:
    from firstfault.recorder.clean import Cleaner
    from firstfault.recorder.format import Ring
    from firstfault.recorder.settings import Settings

WAIT_S = 2.0
"""Seconds for which stacks are awaited."""
_LOOK_S = 0.02
_TOOL_S = 10.0


class Watched:
    """A process that is looked at: its ring, and a descriptor that stands for it whatever becomes of its number."""

    def __init__(self, name: str, ring: Ring, pidfd: int) -> None:
        self.name = name
        """Of its ring's file."""
        self.ring = ring
        self.pidfd = pidfd
        self.known_as = layout.read_name(name)

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal; nobody else who has its number by now gets one, and one that is gone needs none."""
        with contextlib.suppress(OSError):
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, number)
            elif lives(self.ring.head.pid, self.ring.head.started):
                os.kill(self.ring.head.pid, number)


def take(settings: Settings, number: int, part: int, processes: list[Watched], cleaner: Cleaner, why: str) -> str:
    """Takes one part of a bundle.

    Args:
        settings: how we record.
        number: of the bundle.
        part: 1 to 3.
        processes: all that live.
        cleaner: takes secrets out.
        why: what gave rise to it.

    Returns:
        The folder into which it went.
    """
    folder = os.path.join(settings.node, f"bundle-{number:02d}")
    make_folder(folder)
    token = f"{number}.{part}"
    silent = _without_answer(settings, [p for p in processes if _ask(settings, p, token)], token)
    # Who has a thread that answers has written its stacks; the others are made to, from C.
    asked = {p.name: p for p in processes if p.name in silent or not _listens(settings, p)}
    signalled = {name for name, process in asked.items() if _signal(process)}
    _settle([_stacks_file(settings, asked[name]) for name in sorted(signalled)])
    wall, mono = time.time(), time.monotonic_ns()
    lines = []
    for process in processes:
        # Read anew: who answered has looked where it is.
        raw = read_file(os.path.join(settings.spool, process.name), layout.SIZE)
        process.ring = layout.read_ring(raw) or process.ring
        state = beat(process.ring, wall, mono)
        state["bundle"], state["part"], state["why"] = number, part, why
        state["signalled"] = process.name in signalled
        if process.name in silent:
            state["silent"] = True  # it has a thread that should have answered, and could not
        answer = _answer(settings, process, token) or {}
        # The thread that has answered is ours, and at work for us: it says nothing of the program.
        found = [t for t in threads(process.ring.head.pid) if t["thread"] != answer.get("recorder")]
        state["threads"] = [_clean_thread(t, cleaner) for t in found]
        if answer:
            state["answer"] = cleaner.value(answer)
        lines.append(layout.line(layout.STATE, state))
    replace_file(os.path.join(folder, f"state.{part}.jsonl"), b"".join(lines))
    _write_stacks(settings, folder, part, processes, cleaner)
    _tools(settings, folder, part, processes, cleaner)
    return folder


def _ask(settings: Settings, process: Watched, token: str) -> bool:
    """Asks a process for what it knows itself, and its stacks; whether it has a thread for that."""
    stem = os.path.join(settings.spool, process.name.removesuffix(layout.RING))
    try:
        descriptor = os.open(stem + layout.ASK, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, f"{token}\n".encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _listens(settings: Settings, process: Watched) -> bool:
    return os.path.exists(os.path.join(settings.spool, process.name.removesuffix(layout.RING) + layout.ASK))


def _without_answer(settings: Settings, processes: list[Watched], token: str) -> set[str]:
    """Names of those that do not answer in time: no thread of theirs can run Python."""
    waiting = {p.name: p for p in processes}
    end = time.monotonic() + WAIT_S
    while waiting and time.monotonic() < end:
        for name in [n for n, p in waiting.items() if _answer(settings, p, token) is not None]:
            del waiting[name]
        if waiting:
            time.sleep(_LOOK_S)
    return set(waiting)


def _signal(process: Watched) -> bool:
    """Makes a process write the stack of its main thread, from C; whether the signal was sent."""
    head = process.ring.head
    if not head.signal or not handles(head.pid, head.signal):
        return False
    try:
        signal.pidfd_send_signal(process.pidfd, head.signal)
    except (OSError, AttributeError):
        return False
    return True


def _stacks_file(settings: Settings, process: Watched) -> str:
    return os.path.join(settings.spool, process.name.removesuffix(layout.RING) + layout.STACKS)


def _settle(files: list[str]) -> None:
    """Waits until the files have something and grow no more."""
    before: dict[str, int] = {}
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        time.sleep(_LOOK_S)
        now = {}
        for file in files:
            with contextlib.suppress(OSError):
                now[file] = os.stat(file).st_size
        if len(now) == len(files) and all(now.values()) and now == before:
            return
        before = now


def _write_stacks(settings: Settings, folder: str, part: int, processes: list[Watched], cleaner: Cleaner) -> None:
    """Writes the stacks of a rank and of its loader's workers into one file, and empties those that they came from."""
    by_rank: dict[str, list[bytes]] = {}
    for process in processes:
        name = process.known_as
        if name is None:
            continue
        if name.rank is None and process.ring.head.rank >= 0:
            name = name._replace(rank=process.ring.head.rank)  # it was found after its files were named
        file = _stacks_file(settings, process)
        raw = tidy(read_file(file, MOST_STACKS))
        with contextlib.suppress(OSError):
            os.truncate(file, 0)
        if raw.strip():
            stem = layout.name_of(name.rank, name.attempt, name.pid)
            text = heading(name, settings.host, f"bundle, part {part}") + cleaner_text(raw, cleaner)
            by_rank.setdefault(stem, []).append(text)
    for stem, texts in by_rank.items():
        replace_file(os.path.join(folder, f"{stem}.{part}{layout.STACKS}"), b"\n".join(texts))


def _answer(settings: Settings, process: Watched, token: str) -> dict[str, Any] | None:
    path = os.path.join(settings.spool, process.name.removesuffix(layout.RING) + layout.ANSWER)
    try:
        answer = json.loads(read_file(path))
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and answer.get("token") == token else None


def _clean_thread(thread: dict[str, Any], cleaner: Cleaner) -> dict[str, Any]:
    if "on" in thread:
        thread["on"] = cleaner.text(plain_item(thread["on"]))
    return thread


def _tools(settings: Settings, folder: str, part: int, processes: list[Watched], cleaner: Cleaner) -> None:
    """Runs the tools that the user asked for; a machine that does not allow them leaves nothing."""
    for tool in filter(None, settings.tools.split(",")):
        path = shutil.which(tool.strip())
        for process in processes:
            if path is None or process.known_as is None:
                continue
            pid = str(process.ring.head.pid)
            words = {
                "py-spy": [path, "dump", "--nonblocking", "--pid", pid],
                "strace": [path, "-f", "-tt", "-T", "-p", pid],
            }.get(tool.strip())
            if words is None:
                continue
            raw = _run(words, 1.0 if tool.strip() == "strace" else _TOOL_S)
            if raw:
                head = heading(process.known_as, settings.host, f"{tool.strip()}, part {part}")
                stem = process.name.removesuffix(layout.RING)
                replace_file(
                    os.path.join(folder, f"{stem}.{part}.{tool.strip()}.txt"), head + cleaner_text(raw, cleaner)
                )


def _run(words: list[str], limit: float) -> bytes:
    try:
        process = subprocess.Popen(  # noqa: S603 - asked for by the user
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError:
        return b""
    try:
        return process.communicate(timeout=limit)[0][:MOST_STACKS]
    except subprocess.TimeoutExpired:
        # As strace is told that it has seen enough; it then lets the process go.
        process.terminate()
        try:
            return process.communicate(timeout=_TOOL_S)[0][:MOST_STACKS]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0][:MOST_STACKS]
