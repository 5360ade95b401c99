"""Workers of the program's data loaders that have ended: how, as the kernel tells their parent.

It never waits for one: that is left to the program, since torch's handler of SIGCHLD tells of a killed worker only while
nobody has waited for it. It finds no loader by itself (see `loader.py`).
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from firstfault.recorder.processes import exit_status, signal_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_OWN = frozenset({"fork", "spawn"})
"""Ways to start a process that make it a child of ours."""


def code_of(worker: Any) -> int | None:
    """How a worker ended: its exit code, minus the signal; None while it runs, or where nobody can say.

    Args:
        worker: a process of multiprocessing that was started.
    """
    popen = worker._popen  # noqa: SLF001 - what is public waits for it
    known = popen.returncode
    if isinstance(known, int):
        return known
    return exit_status(worker.pid, -1) if popen.method in _OWN else None


def described(workers: Sequence[Any]) -> list[dict[str, Any]]:
    """Each worker of a loader: number, process id, and whether it lives."""
    return [{"worker": n, "pid": w.pid, "alive": code_of(w) is None} for n, w in enumerate(workers)]


def lost(loaders: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Workers that ended badly, by themselves or by a signal; SIGTERM is how a loader ends its own.

    Args:
        loaders: the workers of each loader.

    Returns:
        For each its number, its process id, and `signal` or `exit_code`.
    """
    found = []
    for workers in loaders:
        for number, worker in enumerate(workers):
            code = code_of(worker)
            if code is None or code in {0, -signal.SIGTERM}:
                continue
            how = {"exit_code": code} if code > 0 else {"signal": signal_name(-code)}
            found.append({"worker": number, "pid": worker.pid, **how})
    return found
