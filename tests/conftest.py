"""Says plainly when the lab or the browser did not run; the folder itself is on the path (`judge`, `casefolder`, `noise`, `checks`)."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names under which systems install it; the tests use the first that is there."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if importlib.util.find_spec("torch") is None:
        terminalreporter.write_line("The lab (tests/lab) did not run: PyTorch is not in this environment.")
    if importlib.util.find_spec("playwright") is None or not any(map(shutil.which, CHROMIUMS)):
        terminalreporter.write_line(
            "The HTML report was not looked at (tests/browser): Chromium or playwright is not here. On Debian: apt-get install chromium"
        )
