"""What the evidence tells of the line where a failure began, beyond its text. Holds no rules, and loads nothing else."""

from __future__ import annotations

from typing import NamedTuple


class Origin(NamedTuple):
    """The first line; a diagnosis that was only stored lacks it."""

    signature: str = ""
    place: str = ""
    """Innermost frame of the job's own code: `train.py:step`."""
    frames: tuple[str, ...] = ()
    """Every frame of its traceback, as `file:function`."""
