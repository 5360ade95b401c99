"""What a Python process does that was started under `firstfault record`: records where it is a rank or a program, not a helper."""

from __future__ import annotations

import os
import sys

from firstfault.recorder import api
from firstfault.recorder.identity import identify

_HELPERS = (
    "multiprocessing.spawn",
    "multiprocessing.forkserver",
    "multiprocessing.resource_tracker",
    "--multiprocessing-fork",
)


def begin() -> None:
    """Starts the recorder, unless this is a launcher, a helper of multiprocessing, or a child of a rank that records."""
    words = getattr(sys, "orig_argv", [])
    helper = any(word.startswith("from multiprocessing") or h in word for word in words[:8] for h in _HELPERS)
    if helper or os.environ.get(api.OWNER) or identify().launcher:
        return
    api.start()
