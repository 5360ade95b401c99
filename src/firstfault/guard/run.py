"""Runs the command of a trial with the caller's signals passed on, and keeps its exit code. Ends nothing by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGINT,
    signal.SIGQUIT,
)


def run_command(words: Sequence[str], env: Mapping[str, str], started: Callable[[int], None]) -> int:
    """Runs a command to its end.

    Args:
        words: program and arguments.
        env: its variables.
        started: is told its process id.

    Returns:
        Its exit code; 128 and the signal where one ended it.

    Raises:
        OSError: it cannot be started.
    """
    # Signals that come before the command is there are kept for it.
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None
    terminal = _at_terminal()

    def pass_on(number: int, frame: object) -> None:
        del frame
        if child is None:
            early.append(number)
        elif number not in {signal.SIGINT, signal.SIGQUIT} or not terminal:  # a terminal tells its whole group
            with contextlib.suppress(OSError):
                child.send_signal(number)

    kept = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        child = subprocess.Popen(list(words), env=dict(env))  # noqa: S603 - what the user wants to run
        started(child.pid)
        for number in early:
            with contextlib.suppress(OSError):
                child.send_signal(number)
        code = child.wait()
    finally:
        for number, handler in kept.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    return 128 - code if code < 0 else code


def _at_terminal() -> bool:
    """Whether this program is in the foreground of a terminal, whose keys reach the command too."""
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0) == os.getpgrp()
    except (OSError, ValueError):
        return False
