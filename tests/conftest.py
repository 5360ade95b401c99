"""Says plainly when the lab did not run; the folder itself is on the path (`judge`, `casefolder`, `noise`, `checks`)."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if importlib.util.find_spec("torch") is None:
        terminalreporter.write_line("The lab (tests/lab) did not run: PyTorch is not in this environment.")
