"""The end of a job, by the block of `scontrol show job` around its state."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.clock import instant
from firstfault.readers.job_card import job_end

CARD = b"""JobId=4471 JobName=fs
   JobState=%s Reason=TimeLimit Dependency=(null)
   RunTime=01:00:12 TimeLimit=01:00:00 TimeMin=N/A
   StartTime=2025-09-14T10:59:50 EndTime=%s Deadline=N/A

JobId=4472 JobName=other
   JobState=RUNNING Reason=None
   StartTime=2025-09-14T11:00:00 EndTime=2025-09-15T11:00:00 Deadline=N/A
"""


class Store:
    def __init__(self, data):
        self.data = data

    def read(self, source, offset, length):
        del source
        return self.data[offset : offset + length]


def of(state, end, line=1):
    data = CARD % (state, end)
    lines = data.split(b"\n")
    start = sum(len(text) + 1 for text in lines[:line])
    return job_end(Store(data), 0, start, lines[line])


def test_the_end_of_a_job_that_is_over():
    found = of(b"TIMEOUT", b"2025-09-14T12:00:02")
    assert found is not None
    assert instant(found).earliest == 1757851202.0


@pytest.mark.parametrize(("state", "end"), [(b"RUNNING", b"2025-09-14T12:00:02"), (b"TIMEOUT", b"Unknown")])
def test_a_planned_end_or_none_is_no_time(state, end):
    assert of(state, end) is None


def test_other_lines_tell_nothing():
    assert of(b"TIMEOUT", b"2025-09-14T12:00:02", line=0) is None


def test_an_error_of_a_dated_line_before_the_time_limit_is_the_first(tmp_path):
    error = "2025-09-14 11:29:58 ERROR reader: shard 7\nOSError: [Errno 5] Input/output error: '/lustre/data/train_07.bin'\n"
    log = f"2025-09-14 11:29:00 rank 4 step 11\n{error}2025-09-14 11:30:00 INFO reader: gave up\n"
    (tmp_path / "n0.err").write_text(log)
    (tmp_path / "scontrol.txt").write_bytes(CARD % (b"TIMEOUT", b"2025-09-14T12:00:02"))
    verdict = diagnose([tmp_path]).verdict
    assert verdict.category == "storage_io"
