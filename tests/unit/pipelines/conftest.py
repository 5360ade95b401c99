"""A process that may be copied."""

import sys
import threading
import time

import pytest

PATIENCE = 60.0
"""Seconds that a thread which an earlier test left may take to end."""


@pytest.fixture
def alone():
    """Waits until no thread but the main one runs: with others no copies are made, which is another test's matter."""
    if sys.platform != "linux":
        pytest.skip("copies need Linux")
    until = time.monotonic() + PATIENCE
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.01)
    left = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    assert not left, f"an earlier test in this process left threads: {left}"
