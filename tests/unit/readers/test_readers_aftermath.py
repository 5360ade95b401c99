"""What stands right behind a traceback: only words of the same speaker about something done instead excuse it."""

from __future__ import annotations

import pytest
from memory_store import MemoryStore

from firstfault.model.evidence import SourceId
from firstfault.readers.aftermath import survived
from firstfault.readers.identity import SourceProfile
from firstfault.readers.traceback import read_tracebacks

CAUGHT = """{p}Traceback (most recent call last):
{p}  File "/app/data.py", line 20, in load
{p}    return np.load(p)
{p}FileNotFoundError: [Errno 2] No such file or directory: '/cache/idx.npy'
"""
UNCAUGHT = CAUGHT.replace("in load", "in <module>")


def went_on(text):
    store = MemoryStore(text.encode())
    blocks = read_tracebacks(store, SourceId(0), [(1, 0)], SourceProfile())
    assert len(blocks) == 1
    return survived(store, SourceId(0), blocks[0], SourceProfile())


@pytest.mark.parametrize(
    "behind",
    [
        "2025-03-04 10:00:02 INFO index not cached, building index ...",
        "2025-03-04 10:00:02 WARNING falling back to the slow reader",
        "2025-03-04 10:00:02 WARNING could not read the cache, rebuilding",
        "2025-03-04 10:00:02,481 - data - INFO - skipping this file",
        "2025-03-04 10:00:02 INFO creating the index anew",
    ],
)
def test_words_about_what_is_done_instead_excuse_it(behind):
    assert went_on(CAUGHT.format(p="") + behind + "\n")


@pytest.mark.parametrize(
    "behind",
    [
        "",
        "2025-03-04 10:00:02 INFO step 12 loss 2.1",
        "2025-03-04 10:00:02 ERROR giving up, will not retry",
        "skipping this file",
        "continuing from step 12",
    ],
)
def test_other_words_do_not(behind):
    assert not went_on(CAUGHT.format(p="") + behind + "\n")


def test_what_reached_the_top_of_its_program_was_caught_by_nobody():
    assert not went_on(UNCAUGHT.format(p="") + "2025-03-04 10:00:02 INFO falling back to the slow reader\n")


def test_what_hydra_printed_ended_its_program_whoever_speaks_behind_it():
    behind = "2025-03-04 10:00:02 INFO creating the index anew\n"
    text = CAUGHT.format(p="") + behind
    store = MemoryStore(("Error executing job with overrides: ['gpus=4']\n" + text).encode())
    (block,) = read_tracebacks(
        store, SourceId(0), [(2, len(b"Error executing job with overrides: ['gpus=4']\n"))], SourceProfile()
    )
    assert not survived(store, SourceId(0), block, SourceProfile())
    assert went_on(text)


def test_another_rank_cannot_excuse_it():
    said = "2025-03-04 10:00:02 INFO skipping this file\n"
    assert not went_on(CAUGHT.format(p="[rank3]: ") + f"[rank1]: {said}")
    assert went_on(CAUGHT.format(p="[rank3]: ") + f"[rank1]: step 3\n[rank3]: {said}")
