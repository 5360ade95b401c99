"""Runs one program of the machine with a time-out that also holds where the program cannot be killed. Asks for no rights.

A program that stands in the kernel (a `df` on a file system that does not answer) is left behind, never waited for. Nor does it
matter where: a shell looks for it and starts it, for the folder in which it lies may be the one that does not answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 4 << 20
"""Bytes of one answer that are kept: its end, where the news of a log stands."""
_GONE_S = 1.0
"""Seconds that a killed program gets to be gone."""
_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where `dmesg` and its like lie, which are not on everybody's path."""
_SHELL = "/bin/sh"
_ABSENT = 125
"""Code by which the shell says that there is no such program; rarely that of one."""
_START = f'command -v "$0" > /dev/null 2>&1 || exit {_ABSENT}; exec "$0" "$@"'


class Answer(NamedTuple):
    """What a program said."""

    text: bytes
    trouble: str
    """Why it said nothing, or not all; empty where it ended well."""
    stuck: bool = False
    """Whether its time was over before it ended."""


def run(words: Sequence[str], seconds: float) -> Answer:
    """Runs a program.

    Args:
        words: program and arguments; no shell.
        seconds: after which it is killed.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), _PATH))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        try:
            process = subprocess.Popen(  # noqa: S603 - fixed words of ours
                [_SHELL, "-c", _START, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=told,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C", "PATH": path},
            )
        except OSError as error:
            return Answer(b"", f"{words[0]} could not be started: {error.strerror}")
        code = _awaited(process, seconds)
        text = _end_of(out.fileno())
        said = _end_of(told.fileno()).decode("utf-8", "replace").strip().split("\n")[0][:200]
    if code == _ABSENT and not text and not said:
        return Answer(b"", f"{words[0]} is not on this machine")
    trouble = ""
    if code is None:
        trouble = f"{words[0]} gave no answer in {seconds:g} s"
    elif code:
        trouble = f"{words[0]} ended with code {code}"
    return Answer(text, f"{trouble}: {said}" if trouble and said else trouble, code is None)


def _awaited(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit code; None where its time was over, and it was killed or left behind."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(timeout=_GONE_S)
        except subprocess.TimeoutExpired:
            process.returncode = -signal.SIGKILL  # it has its order, and whoever ends this program last inherits it
        return None


def _end_of(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, MOST, max(0, size - MOST))
