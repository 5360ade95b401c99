"""What the terminal can do: its width and height, and whether it wants colour.

The only place that looks at the terminal.
"""

from __future__ import annotations

import os
import shutil
import sys

NARROWEST, WIDEST, WITHOUT_TERMINAL = 40, 120, 100


def columns() -> int:
    """Columns to write in: the terminal's between 40 and 120, or 100 where there is none and COLUMNS is not set."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns))


def rows() -> int | None:
    """Rows of the terminal; None where stdout is none, so that a pipe gets the whole page whatever window it came from."""
    return shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).lines if sys.stdout.isatty() else None


def colored() -> bool:
    """Whether colours are wanted: stdout is a terminal, it is not a dumb one, and NO_COLOR is unset or empty."""
    if os.environ.get("NO_COLOR"):
        return False
    return sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
