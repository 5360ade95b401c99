"""A bar on a terminal while a scan takes long; silent everywhere else. It knows bytes and nothing else."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 0.7
"""Seconds without a bar: what ends before needs none."""


@contextmanager
def progress_bar(total: int, stream: TextIO | None = None) -> Iterator[Callable[[int], None] | None]:
    """A callback for a scan of `total` bytes, which draws a bar on standard error; None where that is no terminal."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        yield None
        return
    bar = _Bar(total, out)
    try:
        yield bar.add
    finally:
        bar.close()


class _Bar:
    def __init__(self, total: int, out: TextIO) -> None:
        self._total = total
        self._out = out
        self._start = time.monotonic()
        self._done = 0
        self._bar: Any = None
        self._task: Any = None

    def add(self, number: int) -> None:
        self._done += number
        if self._bar is None:
            if time.monotonic() - self._start < PATIENCE:
                return
            self._open()
        self._bar.update(self._task, completed=min(self._done, self._total))

    def _open(self) -> None:
        # Loaded here: a scan that is over sooner must not pay for it.
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        columns = ("reading", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(file=self._out), transient=True)
        self._task = self._bar.add_task("reading", total=self._total)
        self._bar.start()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
