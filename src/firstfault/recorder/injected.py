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
    owner = os.environ.get(api.OWNER)
    # A task of a scheduler may be a script that starts a launcher: whoever gets a rank from that is a rank, not a child of one.
    inherits = owner is not None and owner.partition(":")[2] == os.environ.get("RANK", "")
    if helper or inherits or identify().launcher:
        return
    api.start()
