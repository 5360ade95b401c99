"""Frames of a snapshot that have another form than file, line and function are left out, and shares are never above a whole."""

import pytest

from firstfault.analysis.oom_message import share_text
from firstfault.readers.memory_fold import Stacks

GOOD = ("model.py", 7, "forward")


@pytest.mark.parametrize(
    "odd", [("model.py", 7, "forward", 0), ("model.py", "7", "forward"), (1, 2), 5, None, ("a", 1, None)]
)
def test_a_frame_of_another_form_is_left_out(odd):
    stacks = Stacks()
    frames = stacks.of(stacks.number([odd, GOOD]))
    assert [(f.file, f.line, f.function) for f in frames] == [GOOD]


def test_no_share_above_the_whole():
    assert "%" not in share_text(75 << 30, 30 << 30)
    assert share_text(15 << 30, 30 << 30).endswith("(50 % of 30.00 GiB)")
