"""The grammar of a storage daemon's log: what is a record, a prefix, a counter, a date."""

import pytest

from firstfault.model.storage import Opening
from firstfault.readers.aistore_lines import busy_disks, counters, heads, marks, offsets_of, read_prefix

NOON = 1768478400.0  # 2026-01-15T12:00:00Z


@pytest.mark.parametrize(
    ("text", "label", "utc"),
    [
        (b"2026-01-15T12:00:00.118220118Z ", "", NOON),
        (b"2026-01-15T17:30:00.118220118+05:30 stderr F ", "", NOON),
        (b"[pod/ais-target-3/aisnode] ", "ais-target-3", None),
        (b"[pod/ais-target-3/aisnode] 2026-01-15T12:00:00Z ", "ais-target-3", NOON),
        (b"ais-target-3 aisnode ", "ais-target-3", None),
        (b"ais-target-3  | ", "ais-target-3", None),
        (b'{"log":"', "", None),
    ],
)
def test_what_a_container_runtime_puts_before_a_record(text, label, utc):
    found = read_prefix(text)
    assert found is not None
    assert (found.label, found.utc) == (label, utc)


def test_the_tail_of_a_cut_record_is_no_prefix():
    assert read_prefix(b"I 14:05:01.000001 {get.n:12,stream.out.size:841193") is None


def test_a_cut_line_of_counters_loses_its_last_number_only():
    assert counters(b"{get.n:12,get.size:34,put.n:5}", 0)[0] == {"get.n": 12, "get.size": 34, "put.n": 5}
    assert counters(b"{get.n:12,get.size:34,put.n:5", 0)[0] == {"get.n": 12, "get.size": 34}
    assert counters(b"{no counters}", 0) is None


def test_a_number_that_no_counter_can_hold_ends_the_line_before_it():
    assert counters(b"{get.n:12,put.n:" + b"9" * 5000 + b"}", 0)[0] == {"get.n": 12}
    assert counters(b"{put.n:" + b"9" * 5000 + b"}", 0) is None


def test_a_stamp_of_the_year_0_is_no_time():
    found = read_prefix(b"0000-01-01T00:00:00Z ")
    assert found is not None
    assert found.utc is None


def test_a_date_mark_states_day_and_zone_whatever_stands_before_it():
    for line in (
        b"I 15:02:21.785011 common:502 15 Jan 26 15:02 PDT =============\n",
        b"I 15:02:21.785011 15 Jan 26 15:02 PDT =============\n",
    ):
        (mark,) = marks(line)
        assert (mark.at, mark.zone) == (NOON + 3 * 3600 + 120, "PDT")


@pytest.mark.parametrize(
    ("zone", "offsets"),
    [("UTC", (0,)), ("PDT", (-25200,)), ("+0530", (19800,)), ("-03", (-10800,)), ("XYZ", ())],
)
def test_what_an_abbreviation_can_mean(zone, offsets):
    assert offsets_of(zone) == offsets


def test_an_abbreviation_of_several_zones_keeps_them_all():
    assert {19800, 7200} <= set(offsets_of("IST"))
    assert {28800, -21600} <= set(offsets_of("CST"))


def test_first_lines_tell_a_start_from_a_rotation():
    text = b"Started up at 2026/01/15 12:00:00, host ais-target-3, go1.25.5 for linux/amd64\nx\nRotated at 2026/01/15 13:00:00, host ais-target-3\n"
    assert [(h.opening, h.at, h.host) for h in heads(text)] == [
        (Opening.STARTED, NOON, "ais-target-3"),
        (Opening.ROTATED, NOON + 3600, "ais-target-3"),
    ]


def test_only_busy_disks_are_picked():
    text = b"I 14:06:18.785102 nvme3n1: 54MiB/s, 119KiB, 25MiB/s, 21KiB, 26%\nI 14:06:18.785103 nvme4n1: 1GiB/s, 118KiB, 402MiB/s, 256KiB, 99%\n"
    assert [(disk, util) for _, _, disk, util in busy_disks(text)] == [("nvme4n1", 99)]
