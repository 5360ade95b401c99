"""Runs one program of the machine with a time-out that also holds where the program cannot be killed. Asks for no rights.

A program that stands in the kernel (a `df` on a file system that does not answer) is left behind, never waited for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
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


class Answer(NamedTuple):
    """What a program said."""

    text: bytes
    trouble: str
    """Why it said nothing, or not all; empty where it ended well."""


def run(words: Sequence[str], seconds: float) -> Answer:
    """Runs a program.

    Args:
        words: program and arguments; no shell.
        seconds: after which it is killed.
    """
    path = shutil.which(words[0], path=os.pathsep.join((os.environ.get("PATH", os.defpath), _PATH)))
    if path is None:
        return Answer(b"", f"{words[0]} is not on this machine")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        try:
            process = subprocess.Popen(  # noqa: S603 - fixed words of ours
                [path, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=told,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            return Answer(b"", f"{words[0]} could not be started: {error.strerror}")
        trouble = _awaited(process, words[0], seconds)
        text = _end_of(out.fileno())
        said = _end_of(told.fileno()).decode("utf-8", "replace").strip().split("\n")[0][:200]
    if trouble and said:
        trouble = f"{trouble}: {said}"
    return Answer(text, trouble)


def _awaited(process: subprocess.Popen[bytes], name: str, seconds: float) -> str:
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GONE_S)
        return f"{name} gave no answer in {seconds:g} s"
    return f"{name} ended with code {code}" if code else ""


def _end_of(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, MOST, max(0, size - MOST))
