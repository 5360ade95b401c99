"""When a wait began and was told: by the lines of one clock; those of others have no place before or after it."""

from __future__ import annotations

from incident import event, scene_of
from msgspec.structs import replace

from firstfault.model.evidence import When

RAN = {"op": "ALLREDUCE", "seq": "9", "ran_ms": "600000"}


def wait(line, rank, at, zone=None, *, dated=True, yeared=True, source=0):
    told = event("nccl.timeout", line, rank=rank, source=source, fields=RAN)
    return replace(told, when=When(earliest=at, latest=at, zone=zone, dated=dated, yeared=yeared))


def test_the_wait_is_timed_by_the_clock_of_most_lines_and_the_others_are_counted():
    # Rank 3's file is in UTC and says so; the others print a local time eight hours ahead.
    local = [wait(10 + r, r, 40_000.0 + r) for r in range(3)]
    hang = scene_of(*local, wait(50, 3, 11_200.0, "Z", source=1)).hang
    assert hang is not None
    assert hang.detected == 40_000.0
    assert hang.began == 39_400.0
    assert hang.first.who.rank == 0
    assert hang.apart == 1
    assert hang.waiters == (0, 1, 2, 3)


def test_times_of_day_are_not_mixed_with_dated_ones():
    days = [wait(10 + r, r, 1_000_000.0 + r) for r in range(2)]
    hang = scene_of(wait(5, 2, 100.0, dated=False, yeared=False, source=1), *days).hang
    assert hang is not None
    assert hang.detected == 1_000_000.0
    assert hang.apart == 1


def test_of_one_clock_nothing_is_apart():
    hang = scene_of(*(wait(10 + r, r, 500.0 + r) for r in range(3))).hang
    assert hang is not None
    assert (hang.detected, hang.began, hang.apart) == (500.0, -100.0, 0)


def test_where_no_line_is_stamped_nothing_is_timed():
    hang = scene_of(event("nccl.timeout", 10, rank=0, fields=RAN)).hang
    assert hang is not None
    assert (hang.began, hang.detected, hang.apart) == (None, None, 0)
