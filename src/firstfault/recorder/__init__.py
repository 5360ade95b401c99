"""The black box of a training process: what it was doing, kept where it survives the process.

    import firstfault.recorder
    firstfault.recorder.start()

or, without touching the script, `firstfault record -- torchrun … train.py`. Standard library only; torch is used where the program
itself has imported it. No call here raises into the program, and without `start` none costs more than a look at one name.
"""

from __future__ import annotations

from firstfault.recorder.api import (
    check,
    describe,
    handler,
    item,
    metrics,
    phase,
    report,
    start,
    started,
    step,
    stop,
)

__all__ = ["check", "describe", "handler", "item", "metrics", "phase", "report", "start", "started", "step", "stop"]
