"""The offset between the daemons' clock and the job's: stated, found by counters, or said to be unknown."""

import pytest
from tests.unit.analysis.storage_logs import STOP, daemon, piece, reads

from firstfault.analysis.state.storage_clock import ClockJoin, JobTimes, join_clocks, settled

HOUR = 3600.0


def job(offset=0.0, *, utc=False, stop=STOP):
    return JobTimes(
        utc=utc, zone="Z" if utc else None, start=STOP + offset - 7000, stop=stop + offset, end=stop + offset + 1800
    )


@pytest.mark.parametrize("hours", [-7, 0, 5.5, 8, 12.75])
@pytest.mark.parametrize("name", ["getbatch.n", "get.n"])
def test_the_offset_is_that_at_which_reads_stop_with_the_job(hours, name):
    pieces = [piece(daemon(n), counters=reads(STOP + 7 * n, name=name)) for n in range(3)]
    found = join_clocks(pieces, job(hours * HOUR))
    assert (found.offset, found.how, found.counter) == (hours * HOUR, "counters", name)
    assert len(found.stops) == 3


@pytest.mark.parametrize(("hours", "joined"), [(-7, True), (5.75, True), (-0.5, False), (0.75, False), (7.25, False)])
def test_a_job_is_in_a_zone_that_exists_where_the_store_is_in_utc(hours, joined):
    """What no zone makes of the two clocks is chance: reads of others that end at such a distance prove nothing."""
    pieces = [piece(daemon(n), counters=reads(STOP + 7 * n)) for n in range(3)]
    found = join_clocks(pieces, job(hours * HOUR))
    assert found.offset == (hours * HOUR if joined else None)


def test_plain_reads_do_not_count_where_batches_move():
    pieces = []
    for n in range(3):
        both = [
            line.__class__(line.at, {**line.counters, "get.n": int(line.at)}, line.span)
            for line in reads(STOP, after=600)
        ]
        pieces.append(piece(daemon(n), counters=both))
    assert join_clocks(pieces, job(2 * HOUR)).counter == "getbatch.n"


def test_others_may_use_the_store_all_the_time():
    pieces = [piece(daemon(n), counters=reads(STOP, rate=6, floor=2), ends=STOP + 3600) for n in range(3)]
    assert join_clocks(pieces, job(8 * HOUR)).offset == 8 * HOUR


def test_a_store_that_works_on_tells_nothing():
    pieces = [piece(daemon(n), counters=reads(STOP + 9 * HOUR)) for n in range(3)]
    found = join_clocks(pieces, job(8 * HOUR + 437))
    assert (found.offset, found.how) == (None, "unknown")
    assert found.why


def test_logs_that_end_in_full_work_tell_nothing():
    lines = reads(STOP + 9 * HOUR, begin=-18 * HOUR, after=-9 * HOUR)
    pieces = [piece(daemon(n), counters=lines, ends=lines[-1].at + 5) for n in range(3)]
    assert join_clocks(pieces, job()).offset is None


def test_two_ends_of_work_that_fit_alike_leave_it_unknown():
    pieces = []
    for n in range(4):
        early, late = reads(STOP - 8 * HOUR, after=HOUR), reads(STOP, after=HOUR)
        pieces.append(piece(daemon(n), counters=(*early, *late)))
    found = join_clocks(pieces, job())
    assert (found.offset, found.how) == (None, "unknown")
    assert "alike" in found.why


def test_stated_zones_need_no_counters():
    found = join_clocks([piece(daemon(1), zone=19800)], job(utc=True))
    assert (found.offset, found.how) == (0.0, "stated")


def test_a_job_without_full_times_cannot_be_joined():
    found = join_clocks([piece(daemon(1), counters=reads(STOP))], JobTimes(utc=False))
    assert found.offset is None


def test_of_zones_that_fit_alike_the_one_at_which_a_batch_broke_counts():
    job = JobTimes(utc=False, stop=100_000.0)
    join = ClockJoin(offset=None, how="unknown", why="several zones fit alike", fits=(28_800.0, 26_100.0))
    assert settled(join, job, [100_000.0 - 28_800.0 - 3]).offset == 28_800.0
    assert settled(join, job, []).offset is None
    assert settled(join, job, [100_000.0 - 28_800.0, 100_000.0 - 26_100.0]).offset is None
