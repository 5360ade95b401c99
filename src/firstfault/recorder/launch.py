"""Runs a command so that every Python process below it records, and brings home what the nodes' monitor has not yet.

Used by `firstfault record`; it knows nothing of the command line's options.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.recorder import format as layout
from firstfault.recorder.files import is_ours, read_file, replace_file
from firstfault.recorder.identity import short_host
from firstfault.recorder.monitoring import LOCK, begin_again
from firstfault.recorder.processes import exit_status
from firstfault.recorder.settings import ON, PREFIX, local_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAUNCH = f"{PREFIX}_LAUNCH"
"""Process id of `firstfault record`, by which it finds its monitor again."""
LOOK_S = 5.0
"""Seconds between two looks whether the monitors live."""
LAST_S = 6.0
"""Seconds for which the monitor's last copy is awaited."""
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


def environment(folder: str, told: Mapping[str, str]) -> dict[str, str]:
    """The environment under which a command records.

    Args:
        folder: the shared folder.
        told: further settings, by their name without `FIRSTFAULT_RECORD_`.
    """
    package = Path(__file__).resolve().parent
    before = os.environ.get("PYTHONPATH", "")
    own = {
        ON: "1",
        f"{PREFIX}_DIR": os.path.abspath(folder),
        f"{PREFIX}_ROOT": str(package.parents[1]),
        LAUNCH: str(os.getpid()),
        f"{PREFIX}_COMMAND": time.strftime("run-%Y%m%d-%H%M%S-") + str(os.getpid()),
        "PYTHONPATH": os.pathsep.join(p for p in (str(package / "inject"), before) if p),
    }
    return {**os.environ, **own, **{f"{PREFIX}_{k}": v for k, v in told.items()}}


def run(command: Sequence[str], folder: str, told: Mapping[str, str]) -> int:
    """Runs the command to its end, with the signals of the caller passed on.

    Args:
        command: program and arguments.
        folder: the shared folder.
        told: further settings.

    Returns:
        Its exit code, 128 and the signal where one ended it.

    Raises:
        OSError: it cannot be started.
    """
    child = subprocess.Popen(list(command), env=environment(folder, told))  # noqa: S603 - what the user wants to run

    def pass_on(number: int, frame: object) -> None:
        del frame
        with contextlib.suppress(OSError):
            child.send_signal(number)

    kept = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    # Ctrl-C goes to the whole group: the command gets it by itself.
    kept[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = _awaited(child)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    _await_monitors()
    if _locks():
        # Who leaves takes its lock away: this one was killed with the ranks.
        _replace_killed()
        _await_monitors()
    return 128 - code if code < 0 else code


def _awaited(child: subprocess.Popen[bytes]) -> int:
    """Waits for the command, and looks after its monitors: who takes all memory of a node may have one killed first."""
    while not _has_ended(child):
        _replace_killed()
    _leave_word(child.pid)
    return child.wait()


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a command ends within a look; it is not yet asked for its exit code, so that the kernel still tells it to all."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except (OSError, AttributeError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=LOOK_S)
            return True
        return False
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(LOOK_S * 1000))
    finally:
        os.close(descriptor)


def _leave_word(pid: int) -> None:
    """Leaves how a process ended beside its ring: a monitor that looks for it later than its parent finds nobody to ask."""
    status = exit_status(pid, -1)
    if status is None:
        return
    for ring in Path(_local()).glob(f"*/{short_host()}/*.{pid}{layout.RING}"):
        if is_ours(str(ring.parent)):
            replace_file(str(ring.with_suffix(layout.STATUS)), b"%d\n" % status)


def _replace_killed() -> None:
    """Starts a monitor in the place of each that left its lock without having ended."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        for lock, _ in _locks():
            begin_again(lock)  # whoever lives holds the lock


def _await_monitors() -> None:
    """Tells the monitors of this command that nobody comes any more, and waits for their last copy."""
    end = time.monotonic() + LAST_S
    mine = _monitors()
    for pid in mine:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    while any(map(_runs, mine)) and time.monotonic() < end:
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    # A process that was killed may stay for its parent to be asked about, and answers signals meanwhile.
    state = read_file(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()[:1]
    return state not in ([], [b"Z"], [b"X"])


def _monitors() -> list[int]:
    """Monitors of this node that processes below us have started and that still run."""
    return [pid for _, pid in _locks() if _runs(pid)]


def _local() -> str:
    return os.environ.get(f"{PREFIX}_LOCAL") or local_folder()


def _locks() -> list[tuple[str, int]]:
    """Locks of the monitors that processes below us have started, with whose they are."""
    found = []
    for lock in Path(_local()).glob(f"*/{short_host()}/{LOCK}"):
        if not is_ours(str(lock.parent)):
            continue
        try:
            held = json.loads(read_file(str(lock)))
            pid = int(held["pid"])
        except (ValueError, KeyError, TypeError):
            continue
        if held.get("launch") == str(os.getpid()):
            found.append((str(lock), pid))
    return found


def find_program(word: str) -> list[str]:
    """How a first word is run: a Python file by this interpreter, anything else as it is."""
    return [sys.executable, word] if word.endswith(".py") and not os.access(word, os.X_OK) else [word]
