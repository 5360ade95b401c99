"""Asks the monitors of all nodes for a bundle, through the shared folder; signals nobody by itself."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from pathlib import Path


def ask_for_bundle(run: Path, why: str) -> Path:
    """Leaves the wish for stacks of all ranks; each node's monitor sees it within a second.

    Args:
        run: the folder of the run.
        why: is written with the bundle.

    Returns:
        The file of the wish.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = run / layout.REQUESTS
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"watch.{os.getpid()}.{time.time_ns()}.json"
    new = file.with_suffix(".new")
    new.write_bytes(layout.line(layout.NOTE, {"time": layout.stamp(time.time()), "why": why}))
    new.replace(file)
    return file
