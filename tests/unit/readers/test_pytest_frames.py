"""Frames of a test that failed, in both forms in which pytest prints them."""

import pytest

from firstfault.readers.pytest_frames import frames_around

SHORT = """\
____________________________ test_resume ____________________________
tests/test_ckpt.py:31: in test_resume
    dcp.save(state)
/venv/torch/distributed/checkpoint/filesystem.py:145: in __init__
    self.stream = torch.cuda.current_stream()
E   torch.OutOfMemoryError: CUDA out of memory.
____________________________ test_other ____________________________
tests/test_other.py:9: in test_other
    assert 0
E   assert 0
=========================== short test summary info ===========================
FAILED tests/test_ckpt.py::test_resume - torch.OutOfMemoryError: CUDA out of memory.
"""
LONG = """\
=================================== FAILURES ===================================
_______________________________ test_resume[2] _________________________________

tmp_path = PosixPath('/tmp/x')

    def test_resume(tmp_path):
>       run_two(tmp_path)

tests/test_ckpt.py:41:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
bench/runner.py:118: in run_two
    dcp.save(state)
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

    def current_stream(device=None):
        # def not_this(x): a comment
>       data = torch._C._cuda_getCurrentStream()
E       torch.OutOfMemoryError: CUDA out of memory.

/venv/torch/cuda/__init__.py:1021: OutOfMemoryError
----------------------------- Captured stdout call -----------------------------
tests/later.py:1: in later
"""


def told(text, at=0):
    lines = text.split("\n")
    places = [n for n, line in enumerate(lines) if line.lstrip("|pod ").startswith("E   ")]
    return [f"{f.file.rpartition('/')[2]}:{f.line}:{f.function}" for f in frames_around(lines, places[at])]


def test_the_short_form_gives_its_frames_and_none_of_another_test():
    assert told(SHORT) == ["test_ckpt.py:31:test_resume", "filesystem.py:145:__init__"]
    assert told(SHORT, 1) == ["test_other.py:9:test_other"]


def test_the_long_form_gives_the_function_by_its_source():
    assert told(LONG) == ["test_ckpt.py:41:test_resume", "runner.py:118:run_two", "__init__.py:1021:current_stream"]


def test_a_label_before_every_line_is_left_out():
    labelled = "\n".join(f"pod | {line}" for line in SHORT.split("\n"))
    assert told(labelled) == told(SHORT)


def test_a_time_before_every_line_is_left_out_though_it_is_another_one_each_time():
    stamped = "\n".join(
        f"2026-11-02T10:00:{n:02d}.{7 * n}Z {line}".rstrip() for n, line in enumerate(SHORT.split("\n"))
    )
    ends = [n for n, line in enumerate(stamped.split("\n")) if " E   " in line]
    told_of = [
        [f"{f.file.rpartition('/')[2]}:{f.function}" for f in frames_around(stamped.split("\n"), at)] for at in ends
    ]
    assert told_of == [["test_ckpt.py:test_resume", "filesystem.py:__init__"], ["test_other.py:test_other"]]


def test_lines_of_another_stream_are_none_of_the_traceback():
    lines = [
        "10:00:01 [gw1] tests/a.py:1: in other",
        "10:00:02 [gw0] tests/b.py:2: in mine",
        "10:00:03 [gw0] E   ValueError: x",
    ]
    assert [f.function for f in frames_around(lines, 2)] == ["mine"]
    far = ["x" * 1_000_000 + " E   ValueError: x"]
    assert frames_around(far, 0) == []


@pytest.mark.parametrize(
    "line", ["Epoch 3", "E1130 10:00:00 agent.cc:7] x", "torch.OutOfMemoryError: CUDA out of memory."]
)
def test_another_line_has_none(line):
    assert frames_around(["tests/test_a.py:1: in test_a", line], 1) == []
