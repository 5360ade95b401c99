"""A time limit that ended a job which had been silent for long: a hang may have come first."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

BEGIN = dt.datetime(2026, 5, 4, 8, 0, 0, tzinfo=dt.timezone.utc)
SLURM = "slurmstepd: error: *** STEP 4711.0 ON n07 CANCELLED AT {:%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***"
PBS = "{:%m/%d/%Y %H:%M:%S}|  main|n07|W|job 480.1 exceeded hard wallclock time - initiate terminate method"
HOUR = 3600


def spoken(every, number, shift=0.0):
    """Lines of a program, one each so many seconds, on a clock that may be another zone's."""
    times = [BEGIN + dt.timedelta(seconds=every * i + shift) for i in range(number)]
    return [f"{t:%Y-%m-%d %H:%M:%S} INFO shard {i % 7} mapped" for i, t in enumerate(times)]


def told(folder, lines, seconds, limit=SLURM):
    end = limit.format(BEGIN + dt.timedelta(seconds=seconds))
    (folder / "job.out").write_text("\n".join([*lines, end]) + "\n", encoding="utf-8")
    return diagnose([folder]).verdict


def groups(passed):
    """Lines of four ranks that make groups and meet in them, of which they do not come past the last."""
    lines = []
    for n in range(passed + 1):
        for word in ("made", "met") if n < passed else ("made",):
            at = BEGIN + dt.timedelta(seconds=40 * n + (5 if word == "met" else 0))
            lines += [f"{r}: {at:%Y-%m-%d %H:%M:%S} r{r} group {n}: {word}" for r in range(4)]
    return lines


@pytest.mark.parametrize("limit", [SLURM, PBS])
def test_silent_for_longer_than_it_ran_at_one_line_of_all_is_not_decided_by_the_limit(tmp_path, limit):
    verdict = told(tmp_path, groups(3), 120 + HOUR + 1000, limit)
    assert (verdict.category, verdict.strength) == (Category.UNKNOWN, Strength.UNKNOWN)
    assert "had been printed for 76 min before" in verdict.summary


@pytest.mark.parametrize("lines", [groups(0) * 3, [*groups(3), "2026-05-04 08:02:30 INFO rank 0 warms up"]])
def test_silent_for_longer_than_it_ran_may_be_lines_that_were_not_flushed(tmp_path, lines):
    verdict = told(tmp_path, lines, 150 + HOUR + 1000)
    assert (verdict.category, verdict.strength) == (Category.INFRASTRUCTURE, Strength.POSSIBLE)


def test_silent_for_long_at_the_end_of_a_long_run_leaves_the_limit_a_possibility(tmp_path):
    verdict = told(tmp_path, spoken(120, 200), 120 * 200 + HOUR + 1000)
    assert (verdict.category, verdict.strength) == (Category.INFRASTRUCTURE, Strength.POSSIBLE)


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (spoken(60, 100), 60 * 100),  # it printed to the end
        (spoken(600, 30), 600 * 29 + 2400),  # four of its usual pauses
        (spoken(60, 5), 60 * 5 + 3000),  # too few lines to know how often it prints
        (
            spoken(60, 100, shift=-2 * HOUR),
            60 * 100 + 20,
        ),  # the program's clock is two hours behind that of the scheduler
        ([*spoken(10, 40), "epoch 3:  41%|####      | 410/1000"], HOUR + 3000),  # its last line tells no time
    ],
)
def test_a_limit_in_the_middle_of_work_is_the_reason(tmp_path, lines, seconds):
    verdict = told(tmp_path, lines, seconds)
    assert (verdict.category, verdict.strength) == (Category.INFRASTRUCTURE, Strength.ESTABLISHED)


def test_a_file_that_goes_on_shows_that_the_job_lived(tmp_path):
    (tmp_path / "rank1.log").write_text("\n".join(spoken(30, 160)) + "\n", encoding="utf-8")
    verdict = told(tmp_path, spoken(10, 40), 4820)
    assert (verdict.category, verdict.strength) == (Category.INFRASTRUCTURE, Strength.ESTABLISHED)
