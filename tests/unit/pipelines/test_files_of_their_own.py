"""A torn file that a library keeps for itself is no data that was given to the job."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

TORN = "pyarrow.lib.ArrowInvalid: Tried reading schema message, was null or length 0"
ZIP = "EOFError: Compressed file ended before the end-of-stream marker was reached"


def told(folder, frames, error):
    body = "".join(
        f'  File "{file}", line {n}, in {function}\n    x = y\n' for n, (file, function) in enumerate(frames, 20)
    )
    (folder / "job.log").write_text(
        f"epoch 1 step 100 loss 2.1\nTraceback (most recent call last):\n{body}{error}\n", encoding="utf-8"
    )
    return diagnose([folder]).verdict


SITE = "/venv/lib/python3.11/site-packages/"


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        (
            [
                ("/job/run.py", "<module>"),
                (f"{SITE}evaluate/module.py", "compute"),
                (f"{SITE}datasets/arrow_reader.py", "read_table"),
            ],
            TORN,
        ),
        (
            [
                ("/job/run.py", "<module>"),
                (f"{SITE}datasets/metric.py", "_finalize"),
                (f"{SITE}datasets/arrow_reader.py", "read_files"),
            ],
            TORN,
        ),
        (
            [
                ("/job/run.py", "<module>"),
                (f"{SITE}numba/core/caching.py", "load"),
                ("/usr/lib/python3.11/gzip.py", "read"),
            ],
            ZIP,
        ),
        (
            [
                ("/job/run.py", "<module>"),
                (f"{SITE}torch/_inductor/codecache.py", "load"),
                ("/usr/lib/python3.11/gzip.py", "read"),
            ],
            ZIP,
        ),
    ],
)
def test_a_file_that_a_library_wrote_is_no_bad_data(tmp_path, frames, error):
    verdict = told(tmp_path, frames, error)
    assert (verdict.category, verdict.strength) == (Category.SOFTWARE, Strength.POSSIBLE)


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([("/job/run.py", "<module>"), (f"{SITE}datasets/arrow_reader.py", "read_table")], TORN),
        (
            [("/job/metric.py", "compute"), ("/job/shards.py", "open_shard"), ("/usr/lib/python3.11/gzip.py", "read")],
            ZIP,
        ),
        (
            [
                ("/job/run.py", "<module>"),
                (f"{SITE}datasets/metric.py", "download_and_prepare"),
                ("/usr/lib/python3.11/gzip.py", "read"),
            ],
            ZIP,
        ),
    ],
)
def test_what_the_job_was_given_stays_data(tmp_path, frames, error):
    assert told(tmp_path, frames, error).category is Category.DATA
