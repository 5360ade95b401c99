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
from firstfault.recorder.gathering import MOST_STACKS, beat, cleaner_text, heading
from firstfault.recorder.processes import handles, threads

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
    asked = {p.name: _ask(settings, p, f"{number}.{part}") for p in processes}
    _settle([_stacks_file(settings, p) for p in processes if asked[p.name]])
    wall, mono = time.time(), time.monotonic_ns()
    lines = []
    for process in processes:
        state = beat(process.ring, wall, mono)
        state["bundle"], state["part"], state["why"] = number, part, why
        state["signalled"] = asked[process.name]
        state["threads"] = [_clean_thread(t, cleaner) for t in threads(process.ring.head.pid)]
        answer = _answer(settings, process, f"{number}.{part}")
        if answer is not None:
            state["answer"] = cleaner.value(answer)
        lines.append(layout.line(layout.STATE, state))
    replace_file(os.path.join(folder, f"state.{part}.jsonl"), b"".join(lines))
    _write_stacks(settings, folder, part, processes, cleaner, why)
    _tools(settings, folder, part, processes, cleaner)
    return folder


def _ask(settings: Settings, process: Watched, token: str) -> bool:
    """Asks a process for its stacks, from C, and for what only it knows; whether the signal was sent."""
    head = process.ring.head
    stem = os.path.join(settings.spool, process.name.removesuffix(layout.RING))
    with contextlib.suppress(OSError):
        descriptor = os.open(stem + layout.ASK, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{token}\n".encode())
        finally:
            os.close(descriptor)
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


def _write_stacks(
    settings: Settings, folder: str, part: int, processes: list[Watched], cleaner: Cleaner, why: str
) -> None:
    """Writes the stacks of a rank and of its loader's workers into one file, and empties those that they came from."""
    by_rank: dict[str, list[bytes]] = {}
    for process in processes:
        name = process.known_as
        if name is None:
            continue
        file = _stacks_file(settings, process)
        raw = read_file(file, MOST_STACKS)
        with contextlib.suppress(OSError):
            os.truncate(file, 0)
        if raw.strip():
            stem = layout.name_of(name.rank, name.attempt, name.pid)
            text = heading(name, settings.host, f"{why}, part {part}") + cleaner_text(raw, cleaner)
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
