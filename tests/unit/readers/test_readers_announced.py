"""A warning announces the traceback below it only where both were written at once and of one error."""

from __future__ import annotations

import pytest
from memory_store import MemoryStore

from firstfault.model.evidence import SourceId
from firstfault.readers.announced import of_another
from firstfault.readers.identity import SourceProfile
from firstfault.readers.traceback import read_tracebacks

WARNING = "[rank4]: 2026-03-11 19:47:15,118 WARNING: Error while reading 'objects/pool/a_1.tar', retrying 1/5"
TRACE = [
    "[rank4]: Traceback (most recent call last):",
    '[rank4]:   File "/opt/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py", line 1515, in _process_data',
    "[rank4]:     data.reraise()",
    "[rank4]: RuntimeError: Caught RuntimeError in DataLoader worker process 1.",
]


def apart(*before, trace=TRACE):
    text = "\n".join((*before, *trace)) + "\n"
    store = MemoryStore(text.encode())
    head = sum(len(line) + 1 for line in before)
    blocks = read_tracebacks(store, SourceId(0), [(len(before) + 1, head)], SourceProfile())
    assert len(blocks) == 1
    return of_another(store, SourceId(0), blocks[0], SourceProfile())


def test_another_speaker_s_line_of_a_later_time_tells_them_apart():
    assert apart(WARNING, WARNING.replace("rank4", "rank5").replace("19:47:15", "21:01:36"))


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
    assert not apart(WARNING, *between)


def test_the_traceback_s_own_stamp_tells_where_a_runtime_stamps_every_line():
    def stamped(at, lines):
        return [f"2026-03-11T{at}.118331Z {line}" for line in lines]

    bare = [line.removeprefix("[rank4]: ") for line in TRACE]
    words = ["WARNING: Reading 'pool/a_1.tar' failed, retrying 1/5"]
    assert apart(*stamped("19:47:15", words), trace=stamped("21:31:00", bare))
    assert not apart(*stamped("19:47:15", words), trace=stamped("19:47:15", bare))


def test_midnight_between_is_no_day():
    five = "[rank5]: 00:00:03 step 12"
    assert not apart("[rank4]: 23:59:58 WARNING: Error while reading 'x', retrying 1/5", five)
    assert apart(
        "[rank4]: 23:59:58 WARNING: Error while reading 'x', retrying 1/5", five.replace("00:00:03", "00:02:03")
    )


@pytest.mark.parametrize(
    ("warning", "another"),
    [
        (
            "WARNING: Resuming 'a_1.tar' after ('Connection broken', ConnectionResetError(104, 'reset by peer')) (1/5)",
            True,
        ),
        ("WARNING: Retrying after RuntimeError (1/5)", False),
        ("WARNING: Error while reading 'a_1.tar', retrying 1/5", False),
        ("WARNING: Error in the loader, Retrying 1/5", False),
    ],
)
def test_a_warning_that_names_another_exception_is_about_that_one(warning, another):
    bare = [line.removeprefix("[rank4]: ") for line in TRACE]
    assert apart(warning, trace=bare) is another


def test_an_exception_named_in_the_chain_is_its_own():
    inner = [
        "Traceback (most recent call last):",
        '  File "/app/read.py", line 3, in read',
        "    get()",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
    ]
    bare = [line.removeprefix("[rank4]: ") for line in TRACE]
    assert not apart("WARNING: Resuming after ConnectionResetError (1/5)", trace=[*inner, *bare])
