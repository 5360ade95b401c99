"""Places at which a job stops and waits for what the stage does to it from outside."""

from __future__ import annotations

import os
import signal


def reached(name: str) -> None:
    """Tell the stage the own pid where `name` is the place it asked for, then wait for the end; else do nothing."""
    if os.environ.get("JOB_GATE") != name:
        return
    with open(os.environ["JOB_GATE_PIPE"], "w", encoding="ascii") as pipe:  # noqa: PTH123 - the name of a FIFO
        pipe.write(f"{os.getpid()}\n")
    while True:
        signal.pause()
