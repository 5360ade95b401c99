import calendar
import random

import pytest
from memory_store import SOURCE, MemoryStore, events_of, source_of

from firstfault.model.evidence import When
from firstfault.readers import clock as clocks
from firstfault.readers.clock import SourceClock, past_midnight, settle_clocks
from firstfault.readers.identity import locate, profile_source
from firstfault.readers.stamps import build_stamp, match_stamp

MODIFIED = calendar.timegm((2026, 3, 1, 0, 0, 0))


def at(*parts: float) -> float:
    *whole, second = parts
    return calendar.timegm((*[int(p) for p in whole], 0)) + second


def clock_of(text: str, modified: float | None = None) -> SourceClock:
    data = text.encode()
    return SourceClock(MemoryStore(data), source_of(modified=modified), profile_source(data, "x.log"))


def line_time(text: str, needle: str, modified: float | None = None) -> When:
    clock = clock_of(text, modified)
    offset = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if needle in line:
            segment = line.encode()
            return clock.event_time(locate(segment, len(segment), clock.profile).stamp, offset, number)
        offset += len(line.encode()) + 1
    raise AssertionError(needle)


@pytest.mark.parametrize(
    ("line", "start", "precision", "zone"),
    [
        ("2026-01-15 14:31:05,123 x", at(2026, 1, 15, 14, 31, 5.123), 0.001, None),
        ("[2026-01-15 14:31:05.123456] x", at(2026, 1, 15, 14, 31, 5.123456), 1e-6, None),
        ("2026-01-15T14:31:05.123456789Z x", at(2026, 1, 15, 14, 31, 5.123456789), 1e-9, "Z"),
        ("[2026-01-15T14:31:05+08:00] x", at(2026, 1, 15, 6, 31, 5), 1, "+08:00"),
        ("2026/02/12 01:10:02 x", at(2026, 2, 12, 1, 10, 2), 1, None),
        ("06/27/2024 21:14:31 x", at(2024, 6, 27, 21, 14, 31), 1, None),
        ("27.06.2024 21:14:31 x", at(2024, 6, 27, 21, 14, 31), 1, None),
        ("05.12.2024 21:14:31 x", at(2024, 12, 5, 21, 14, 31), 1, None),
        ("[Thu Jan 15 14:31:05 2026] NVRM: x", at(2026, 1, 15, 14, 31, 5), 1, None),
        (
            "slurmstepd: error: *** STEP 481516.0 ON node001 CANCELLED AT 2026-01-15T14:31:06 DUE TO TIME LIMIT *** x",
            at(2026, 1, 15, 14, 31, 6),
            1,
            None,
        ),
        ("15 Jan 2026 14:02:11 +0000 x", at(2026, 1, 15, 14, 2, 11), 1, "Z"),
        ('{"timestamp": "1768487465000157000", "line": "x"}', at(2026, 1, 15, 14, 31, 5.000157), 1e-6, "Z"),
        ('{"ts": 1768487465.25, "level": "info", "msg": "x"}', at(2026, 1, 15, 14, 31, 5.25), 0.01, "Z"),
        ('{"ts": 1768487465, "msg": "x"}', at(2026, 1, 15, 14, 31, 5), 1, "Z"),
        ("[NeMo I 2026-01-15 14:31:22 exp_manager:442] x", at(2026, 1, 15, 14, 31, 22), 1, None),
    ],
)
def test_whole_stamps(line, start, precision, zone):
    when = line_time(line, "x")
    assert when.earliest == pytest.approx(start, abs=1e-6)
    assert when.latest == pytest.approx(start + precision, abs=1e-6)
    assert (when.zone, when.dated, when.yeared) == (zone, True, True)


@pytest.mark.parametrize(
    ("line", "month", "day", "seconds"),
    [
        ("[rank1]:[E513 13:25:57.714781669 a.cpp:6] x", 5, 13, 57.0),
        ("[E1118 20:32:23.955028747 a.cpp:6] x", 11, 18, 23.0),
        ("W0129 14:18:16.233000 13120 torch/a.py:1028] x", 1, 29, 16.233),
        ("Feb 14 03:52:17 gpu-h12 kernel: x", 2, 14, 17),
        ("[11/29 14:18:40 d2.engine]: x", 11, 29, 40),
    ],
)
def test_the_year_comes_from_the_file_only_as_the_last_resort(line, month, day, seconds):
    when = line_time(line, "x", MODIFIED)
    year = 2025 if month > 3 else 2026
    assert when.earliest is not None
    assert when.earliest // 60 == at(year, month, day, 0, 0, 0) // 60 + (when.earliest % 86400) // 60
    assert when.earliest % 60 == pytest.approx(seconds, abs=1e-6)
    assert clock_of(line, MODIFIED).year_from == "modified"
    unknown = line_time(line, "x")
    assert not unknown.yeared
    assert unknown.dated


def test_the_nine_digits_of_torch_are_no_part_of_the_time():
    # torch 2.13 printed this between 12:53:58.069 and 12:53:59.156: the digits are those of the clock since the start of the machine
    when = line_time("[E1201 12:53:58.940348809 socket.cpp:1028] x", "x", MODIFIED)
    assert when.earliest is not None
    assert when.latest is not None
    assert (when.earliest % 60, when.latest % 60) == (58, 59)
    assert when.earliest % 86400 // 60 == 12 * 60 + 53
    glog = line_time("E0513 13:25:57.714781 12345 ProcessGroupNCCL.cpp:616] x", "x", MODIFIED)
    assert glog.earliest is not None
    assert glog.earliest % 60 == pytest.approx(57.714781, abs=1e-6)


def test_the_year_of_other_lines_is_better_than_that_of_the_file():
    text = "[2024-12-31 23:59:50,000] a\n[rank1]:[E101 00:10:00.000000000 a.cpp:6] x\n"
    assert line_time(text, "x", MODIFIED).earliest == at(2025, 1, 1, 0, 10, 0)
    banner = "W1118 11:10:21.101000 1 torch/a.py:1] x\n  time      : 2024-11-18_11:10:21\n"
    assert line_time(banner, "x", MODIFIED).earliest == pytest.approx(at(2024, 11, 18, 11, 10, 21.101))
    assert clock_of(banner).year_from == "lines"


def test_the_year_of_another_source_of_the_job():
    first, second = clock_of("2024-05-13 13:20:00 x\n"), clock_of("[E513 13:25:57.714781669 a.cpp:6] x\n", MODIFIED)
    settle_clocks([first, second])
    assert second.year_from == "neighbour"
    stamp = locate(b"[E513 13:25:57.714781669 a.cpp:6] x", 34, second.profile).stamp
    assert stamp is not None
    assert second.at(stamp, 0, 1).earliest == pytest.approx(at(2024, 5, 13, 13, 25, 57))


def test_day_first_or_month_first_is_told_by_the_other_lines():
    assert line_time("13/05/2024 10:00:00 a\n06/05/2024 11:00:00 x\n", "x").earliest == at(2024, 5, 6, 11, 0, 0)
    assert line_time("05/13/2024 10:00:00 a\n05/06/2024 11:00:00 x\n", "x").earliest == at(2024, 5, 6, 11, 0, 0)
    assert line_time("2024-05-06 10:00:00 a\n06/05/2024 11:00:00 x\n", "x").earliest == at(2024, 5, 6, 11, 0, 0)


def test_a_time_of_day_takes_its_date_from_the_lines_around_it():
    text = "[2024-05-13 23:59:00,000] a\n23:59:30.500 x1\n00:00:10.250 x2\n"
    assert line_time(text, "x1").earliest == at(2024, 5, 13, 23, 59, 30.5)
    assert line_time(text, "x2").earliest == at(2024, 5, 14, 0, 0, 10.25)
    before = "23:59:30.500 x1\n[2024-05-14 00:00:10,000] a\n"
    assert line_time(before, "x1").earliest == at(2024, 5, 13, 23, 59, 30.5)
    alone = line_time("14:02:11.330 x\n", "x")
    assert (alone.dated, alone.earliest) == (False, pytest.approx(14 * 3600 + 2 * 60 + 11.33))


def undated(second: float) -> When:
    return When(second, second + 1, dated=False, yeared=False)


def test_midnight_between_undated_lines():
    times = [undated(86000), undated(10), When(), undated(20)]
    assert [w.earliest for w in past_midnight(times)] == [86000, 86410, None, 86420]


def test_storage_daemon_lines_take_their_date_from_the_hourly_mark():
    text = "I 05:22:19.114502 common:502 12 Feb 26 05:22 UTC =============\nE 05:31:01.504120 base:172 x\n"
    when = line_time(text, "x")
    assert when.earliest == pytest.approx(at(2026, 2, 12, 5, 31, 1.504120))
    assert when.zone == "Z"


def test_a_line_without_a_stamp_is_bounded_by_its_neighbours():
    text = "[2024-05-13 10:00:00,000] a\nx\n[2024-05-13 10:00:09,000] b\n"
    when = line_time(text, "x")
    assert (when.earliest, when.latest) == (at(2024, 5, 13, 10, 0, 0), at(2024, 5, 13, 10, 0, 9.001))
    open_end = line_time("[2024-05-13 10:00:00,000] a\nx\n", "x")
    assert (open_end.earliest, open_end.latest) == (at(2024, 5, 13, 10, 0, 0), None)
    assert line_time("x\n", "x") == When()


def test_neighbours_that_contradict_give_no_upper_bound():
    when = line_time("[2024-05-13 10:00:00,000] a\nx\n[2024-05-13 09:00:09,000] b\n", "x")
    assert (when.earliest, when.latest) == (at(2024, 5, 13, 10, 0, 0), None)


def test_seconds_since_boot_are_no_time_of_day():
    assert line_time("[ 8123.456789] NVRM: x\n", "x") == When()


def test_a_bar_has_no_clock():
    assert match_stamp(b"10:22:05<1:00, 3s/it]", 0) is None
    line = b" 50%|###  | 5/10 [10:22:05<1:00:00, 3s/it]"
    assert locate(line, len(line), clock_of("x").profile).stamp is None


def test_impossible_dates_are_no_stamps():
    for text in (b"2024-13-01 10:00:00", b"2024-01-32 10:00:00", b"32/32/2024 10:00:00"):
        found = match_stamp(text, 0)
        assert found is None or build_stamp(*found) is None
    assert line_time("2023-02-30 10:00:00 x", "x") == When()


def test_events_carry_times():
    (event,) = events_of("2024-05-13 10:00:00,250 ERROR ValueError: x\n")
    assert event.when.earliest == at(2024, 5, 13, 10, 0, 0.25)
    assert event.span.source == SOURCE


@pytest.mark.parametrize("lines", [3, 40, 260])
def test_a_small_source_is_bounded_as_a_large_one(lines):
    # The lines of a small source are kept at hand; what bounds a line must not hang on that.
    text = "".join(
        f"2026-01-15 14:31:{n % 60:02d} step {n}\n" if n % 17 == 0 else f"no time {n} {'x' * (n % 90)}\n"
        for n in range(lines)
    )
    padded = text + "y" * 70_000 + "\n"
    small, large = clock_of(text), clock_of(padded)
    assert small._whole[0] and not large._whole[0]  # noqa: PT018
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        assert small.event_time(None, offset, number) == large.event_time(None, offset, number), number
        offset += len(line)


@pytest.mark.parametrize("seed", range(24))
def test_what_was_looked_through_for_one_line_changes_no_answer_for_another(seed, monkeypatch):
    # A large source remembers stretches without a time; asked in any order, each line has the bounds it has alone.
    chance = random.Random(seed)
    monkeypatch.setattr(clocks, "NEAR_LINES", chance.choice([3, 8, 40]))
    monkeypatch.setattr(clocks, "NEAR_BYTES", chance.choice([160, 640, 2560]))
    share = chance.choice([0.0, 0.02, 0.2])
    kinds = [
        lambda n: f"2026-01-15 14:{n // 60 % 60:02d}:{n % 60:02d} step {n}",
        lambda n: f" {n % 100}%|## | {n}/900 [01:12:{n % 60:02d}<02:44:09, 3.1s/it]",
        lambda n: f"step {n} loss {'9' * chance.randrange(60)}",
        lambda n: "",
    ]
    lines = [
        chance.choices(kinds, [share, chance.choice([0, 0.3]), 1, 0.1])[0](n) + chance.choice(["\n", "\r\n"])
        for n in range(160)
    ]
    offsets = [sum(map(len, lines[:n])) for n in range(len(lines))]
    shared = clock_of("".join(lines))
    order = list(range(len(lines)))
    if seed % 4:
        chance.shuffle(order)
    for n in order:
        alone = clock_of("".join(lines))
        monkeypatch.setattr(alone, "_untimed", lambda *_, **__: False)
        assert shared.event_time(None, offsets[n], n + 1) == alone.event_time(None, offsets[n], n + 1), (n, lines[n])
