"""What the frames change of an exception: a stream that ended early is a pipe between two processes, or a file."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

HEAD = "Traceback (most recent call last):\n"
CHILD = (
    HEAD
    + '  File "<string>", line 1, in <module>\n'
    + '  File "/opt/py/lib/python3.11/multiprocessing/spawn.py", line 132, in _main\n'
    + "    self = reduction.pickle.load(from_parent)\n"
    + "EOFError: Ran out of input\n"
)
PARENT = (
    HEAD
    + '  File "/app/train.py", line 9, in <module>\n'
    + "    loader = iter(make_loader())\n"
    + '  File "/opt/py/lib/python3.11/multiprocessing/reduction.py", line 60, in dump\n'
    + "    ForkingPickler(file, protocol).dump(obj)\n"
    + "AttributeError: Can't pickle local object 'make_loader.<locals>.collate'\n"
)
FILE = (
    HEAD
    + '  File "/app/train.py", line 9, in <module>\n'
    + "    state = torch.load(path)\n"
    + '  File "/opt/py/lib/python3.11/site-packages/torch/serialization.py", line 1033, in _legacy_load\n'
    + "    magic_number = pickle_module.load(f, **pickle_load_args)\n"
    + "EOFError: Ran out of input\n"
)
RECEIVED = (
    HEAD
    + '  File "/app/share.py", line 141, in <module>\n'
    + "    data = ForkingPickler.loads(handle)\n"
    + '  File "/opt/py/lib/python3.11/multiprocessing/reduction.py", line 159, in recvfds\n'
    + "    raise EOFError\n"
    + "EOFError\n"
)


def verdict_of(folder, text):
    (folder / "run.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("text", [CHILD, CHILD + PARENT, PARENT + CHILD, RECEIVED])
def test_a_pipe_between_two_processes_is_no_damaged_file(tmp_path, text):
    verdict = verdict_of(tmp_path, text)
    assert verdict.category in {Category.SOFTWARE, Category.UNKNOWN}
    assert verdict.strength is not Strength.ESTABLISHED


def test_what_the_parent_says_is_the_reason(tmp_path):
    verdict = verdict_of(tmp_path, CHILD + PARENT)
    assert verdict.trigger is not None
    assert "Can't pickle local object" in verdict.trigger.text


def test_a_file_that_holds_nothing_stays_one(tmp_path):
    assert verdict_of(tmp_path, FILE).category is Category.STORAGE_IO
