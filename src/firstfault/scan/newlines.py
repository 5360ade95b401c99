"""Counts newlines; `bytes.count` takes as long as the whole scan, numpy a tenth, but loading it costs a small input more."""

from __future__ import annotations

import sys

_FEW = 4096
_numpy_wanted = False


def want_numpy() -> None:
    """Says that much is going to be counted in this process: numpy is loaded at the next count."""
    global _numpy_wanted  # noqa: PLW0603 - one switch of the process, set once before work starts
    _numpy_wanted = True


def count_newlines(data: bytearray, start: int, end: int) -> int:
    """Number of newlines between two positions."""
    if end - start <= _FEW or not (_numpy_wanted or "numpy" in sys.modules):
        return data.count(b"\n", start, end)
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(data, np.uint8, end - start, start) == 0x0A))
