"""Clocks joined by a failed batch seconds from the job's error; counters that such a line contradicts join nothing."""

import pytest
from tests.unit.analysis.storage_logs import STOP, daemon, piece, reads, said, state

from firstfault.analysis.questions.storage_chain import _active, _as_sure_as_the_clock
from firstfault.analysis.state.storage_clock import (
    ClockJoin,
    JobTimes,
    by_breaks,
    contradicted,
    fitting,
    join_clocks,
    of_this_job,
    refuted,
)
from firstfault.analysis.state.storage_faults import troubles
from firstfault.analysis.storage_request import Request, _objects
from firstfault.model.words import Strength

HOUR = 3600.0
UNKNOWN = ClockJoin(offset=None, how="unknown", utc=True, why="most daemons do not stop when the job did")


def job(hours, *, utc=False):
    return JobTimes(utc=utc, zone="Z" if utc else None, stop=STOP + hours * HOUR)


@pytest.mark.parametrize("hours", [-7, 5.75, 8])
@pytest.mark.parametrize("apart", [-9, 0, 9])
def test_an_abort_seconds_from_the_error_tells_the_zone(hours, apart):
    found = by_breaks(UNKNOWN, job(hours), [STOP + apart, STOP + apart + 0.04])
    assert (found.offset, found.how, found.why) == (hours * HOUR, "lines", "")


@pytest.mark.parametrize("apart", [-300, 25, 440])
def test_an_abort_that_lies_near_no_quarter_of_an_hour_tells_nothing(apart):
    assert by_breaks(UNKNOWN, job(8), [STOP + apart]) == UNKNOWN


def test_two_aborts_that_fit_two_zones_tell_nothing():
    assert by_breaks(UNKNOWN, job(8), [STOP, STOP - 2 * HOUR]) == UNKNOWN


@pytest.mark.parametrize("hours", [0.75, 7.25, -0.5])
def test_a_zone_that_does_not_exist_is_none(hours):
    assert fitting(job(hours), STOP, known=True) == []


def test_the_job_in_utc_and_the_store_in_a_zone_are_joined_the_other_way():
    assert by_breaks(ClockJoin(offset=None, how="unknown"), job(-5.5, utc=True), [STOP]).offset == -5.5 * HOUR


@pytest.mark.parametrize("fits", [(8 * HOUR, 9 * HOUR), ()])
def test_of_the_zones_that_counters_leave_the_abort_takes_one(fits):
    join = ClockJoin(offset=None, how="unknown", utc=True, fits=fits)
    assert by_breaks(join, job(8), [STOP]).offset == 8 * HOUR
    other = ClockJoin(offset=None, how="unknown", utc=True, fits=(3 * HOUR, 4 * HOUR))
    assert by_breaks(other, job(8), [STOP]) == other


def counted(hours):
    return ClockJoin(offset=hours * HOUR, how="counters", utc=True)


@pytest.mark.parametrize("hours", [2, 5.5, 10])
def test_counters_of_another_s_work_that_end_in_another_zone_than_the_abort_join_nothing(hours):
    found = contradicted(counted(hours), job(8), [STOP - 3])
    assert found.offset is None
    assert found.fits == tuple(sorted({hours * HOUR, 8 * HOUR}))


def test_counters_that_the_abort_bears_out_or_of_which_no_line_speaks_stay():
    assert contradicted(counted(8), job(8), [STOP - 3]) == counted(8)
    assert contradicted(counted(10), job(8), []) == counted(10)
    assert contradicted(counted(10), job(8), [STOP - 400]) == counted(10)
    stated = ClockJoin(offset=0.0, how="stated", utc=True)
    assert contradicted(stated, job(8), [STOP]) == stated


def test_logs_fetched_within_the_hour_show_by_another_daemon_s_words_that_the_idle_ones_had_nothing_to_tell():
    lines = [reads(STOP + 5 * n, after=0) for n in range(3)]
    idle = [piece(daemon(n), source=n, counters=lines[n], ends=STOP + 10) for n in range(3)]
    assert join_clocks(idle, job(8)).offset is None
    talks = piece(daemon(9), source=9, ends=STOP + 1800)
    found = join_clocks([*idle, talks], job(8))
    assert (found.offset, found.alone) == (8 * HOUR, True)


def test_work_of_others_that_goes_on_is_told():
    pieces = [piece(daemon(n), counters=reads(STOP, rate=6, floor=2), ends=STOP + 3600) for n in range(3)]
    assert join_clocks(pieces, job(8)).alone is False


@pytest.mark.parametrize("how", ["counters", "lines"])
def test_a_join_at_which_batches_of_other_jobs_alone_broke_is_the_end_of_one_of_those(how):
    join = ClockJoin(offset=3 * HOUR, how=how, utc=True, alone=True)
    at = job(3).stop - 3 * HOUR
    found = of_this_job(join, job(3), [(at - 4, True), (at + 1, True), (at - 7200, False)])
    assert (found.offset, found.how) == (None, "unknown")
    assert "another job" in found.why
    for breaks in ([(at - 4, True), (at + 1, False)], [(at - 400, True)], []):
        assert of_this_job(join, job(3), breaks) == join
    stated = ClockJoin(offset=0.0, how="stated", utc=True)
    assert of_this_job(stated, job(0), [(job(0).stop, True)]) == stated


SURE = (Strength.ESTABLISHED, Strength.SUPPORTED)
MAYBE = (Strength.SUPPORTED, Strength.POSSIBLE)


@pytest.mark.parametrize(
    ("how", "alone", "at", "expected"),
    [
        ("stated", False, 400, SURE),
        ("counters", True, 5, MAYBE),
        ("counters", False, 5, MAYBE),
        ("counters", True, 400, MAYBE),
        ("lines", False, 5, MAYBE),
    ],
)
def test_what_rests_on_a_join_is_no_surer_than_the_join(how, alone, at, expected):
    """Counters that stop and a batch that breaks at that moment are one event, which may be the end of another job."""
    assert sure_by(how, at, asking(None, ()), alone=alone) == expected


@pytest.mark.parametrize(
    ("how", "at", "asked", "batches", "expected"),
    [
        ("counters", 5, None, {"k7Qm2xWpL"}, SURE),
        ("lines", 5, None, {"k7Qm2xWpL"}, (Strength.SUPPORTED, Strength.SUPPORTED)),
        ("counters", 400, None, {"k7Qm2xWpL"}, MAYBE),
        ("counters", 5, None, {"another"}, MAYBE),
        ("counters", 5, "nodet1", (), (Strength.SUPPORTED, Strength.SUPPORTED)),
        ("counters", 5, "nodet2", (), MAYBE),
    ],
)
def test_a_line_that_is_of_the_job_by_more_than_its_time_bears_a_join_out(how, at, asked, batches, expected):
    assert sure_by(how, at, asking(asked, batches)) == expected


BROKE = "E moss:749 x-get-batch[k7Qm2xWpL]-s3://asr t[nodet1] out-of-bounds index 3"


def asking(daemon, batches):
    return Request(daemon, frozenset(), frozenset(batches), unreached=False, no_way=False)


def sure_by(how, at, of, *, alone=True, text=BROKE, why=""):
    held = state(piece(daemon(1), lines=[said(STOP - at, "aistore.out_of_bounds", text)]))
    joined = ClockJoin(offset=0.0, how=how, utc=True, alone=alone, why=why)
    held = held.__class__(**{n: getattr(held, n) for n in held.__struct_fields__} | {"clock": joined})
    return _as_sure_as_the_clock(held, _active(troubles(held), STOP), of, *SURE)


@pytest.mark.parametrize(
    ("error", "line", "expected"),
    [
        ("s3://asr/s-0042.tar", "dropping s3://asr/s-0042.tar(size=188411) err: broken pipe", True),
        ("s3://asr/s-0042.tar", "failed to receive s-0042.tar/u7.flac from t[nodet2]: unexpected EOF", True),
        (
            "url: /v1/objects/asr/s-0042.tar?provider=aws",
            "read /ais/nvme0n1/@ais/asr/%ob/s-0042.tar: input/output error",
            True,
        ),
        ("Failed to fetch object a/s-0042.tar from bucket s3://asr: timed out", "oname: a/s-0042.tar/u8.flac", True),
        ("Error while reading object at 'asr/a/s-0042.tar': timed out", "oname: a/s-0042.tar/u8.flac", True),
        ("s3://asr/s-0042.tar", "dropping s3://asr/xs-0042.tar(size=188411)", False),
        ("s3://asr/s-0042.tar", "dropping s3://asr/s-0043.tar(size=188411)", False),
        ("s3://asr/train.tar", "dropping s3://asr/train.tar(size=188411)", False),
        ("s3://asr/7.t", "dropping s3://asr/7.t(size=188411)", False),
        ("iterator exhausted prematurely", "dropping s3://asr/s-0042.tar(size=188411)", False),
    ],
)
def test_the_object_that_the_job_failed_to_read_bears_a_join_out(error, line, expected):
    """Thousands of objects make one with a number in it, told of in that minute, more than a coincidence of hours."""
    of = asking(None, ())._replace(objects=frozenset(_objects(error)))
    for how in ("counters", "lines"):
        assert sure_by(how, 5, of, text=line) == ((Strength.SUPPORTED, Strength.SUPPORTED) if expected else MAYBE)
        assert sure_by(how, 400, of, text=line) == MAYBE


@pytest.mark.parametrize(("why", "expected"), [("", SURE), ("the zone given for the job, -06:00, does not fit", MAYBE)])
def test_a_zone_given_by_hand_against_which_lines_speak_makes_nobody_sure(why, expected):
    assert sure_by("stated", 400, asking(None, ()), why=why) == expected


GIVEN = ClockJoin(offset=0.0, how="stated", utc=True)


@pytest.mark.parametrize(("east", "true"), [(-7, 8), (8, 5.5), (0, -5)])
def test_a_zone_given_by_hand_that_the_counters_refute_gives_way_and_is_told(east, true):
    shown = ClockJoin(offset=true * HOUR, how="counters", utc=True, alone=True)
    found = refuted(GIVEN, shown, east * HOUR)
    assert found.offset == (true - east) * HOUR
    assert "does not fit" in found.why


@pytest.mark.parametrize(
    "shown", [ClockJoin(offset=8 * HOUR, how="lines", utc=True), ClockJoin(offset=8 * HOUR, how="counters", utc=True)]
)
def test_a_lesser_sign_only_speaks_against_it(shown):
    found = refuted(GIVEN, shown, -7 * HOUR)
    assert (found.offset, found.how) == (0.0, "stated")
    assert "+08:00" in found.why


@pytest.mark.parametrize("shown", [ClockJoin(offset=None, how="unknown", utc=True), counted(-7)])
def test_a_zone_given_by_hand_of_which_the_logs_show_no_other_stays(shown):
    assert refuted(GIVEN, shown, -7 * HOUR) == GIVEN
