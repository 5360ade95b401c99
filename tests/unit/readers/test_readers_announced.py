"""A warning announces the traceback below it only where both were written at once: time that went by between tells them apart."""

from __future__ import annotations

import pytest
from memory_store import MemoryStore

from firstfault.model.evidence import SourceId
from firstfault.readers.announced import came_later
from firstfault.readers.identity import SourceProfile
from firstfault.readers.traceback import read_tracebacks

WARNING = "[rank4]: 2026-03-11 19:47:15,118 WARNING: Error while reading 'objects/pool/a_1.tar', retrying 1/5"
TRACE = [
    "[rank4]: Traceback (most recent call last):",
    '[rank4]:   File "/opt/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py", line 1515, in _process_data',
    "[rank4]:     data.reraise()",
    "[rank4]: RuntimeError: Caught RuntimeError in DataLoader worker process 1.",
]


def later(*before, trace=TRACE):
    text = "\n".join((*before, *trace)) + "\n"
    store = MemoryStore(text.encode())
    head = sum(len(line) + 1 for line in before)
    blocks = read_tracebacks(store, SourceId(0), [(len(before) + 1, head)], SourceProfile())
    assert len(blocks) == 1
    return came_later(store, SourceId(0), blocks[0], SourceProfile())


def test_another_speaker_s_line_of_a_later_time_tells_them_apart():
    assert later(WARNING, WARNING.replace("rank4", "rank5").replace("19:47:15", "21:01:36"))


@pytest.mark.parametrize(
    "between",
    [
        (),
        ("[rank5]: no stamp at all",),
        ("[rank5]: 2026-03-11 19:47:16,004 INFO: step 12",),
        ("[rank5]: 2026-03-11 19:40:00,004 INFO: said long ago and held in a buffer",),
        ("[rank5]: 21:40:00 a time of day alone is another writing",),
    ],
)
def test_lines_of_that_moment_or_of_none_do_not(between):
    assert not later(WARNING, *between)


def test_the_traceback_s_own_stamp_tells_where_a_runtime_stamps_every_line():
    def stamped(at, lines):
        return [f"2026-03-11T{at}.118331Z {line}" for line in lines]

    bare = [line.removeprefix("[rank4]: ") for line in TRACE]
    words = ["WARNING: Resuming 'pool/a_1.tar' after ProtocolError (1/5)"]
    assert later(*stamped("19:47:15", words), trace=stamped("21:31:00", bare))
    assert not later(*stamped("19:47:15", words), trace=stamped("19:47:15", bare))


def test_midnight_between_is_no_day():
    five = "[rank5]: 00:00:03 step 12"
    assert not later("[rank4]: 23:59:58 WARNING: Error while reading 'x', retrying 1/5", five)
    assert later("[rank4]: 23:59:58 WARNING: Error while reading 'x', retrying 1/5", five.replace("00:00:03", "00:02:03"))
