"""A zone that a person names moves local times, and nothing else."""

import pytest

from firstfault.model.evidence import When
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers.zones import _placed, _zone

NOON = 1718452800.0  # 2024-06-15 12:00:00
WINTER = 1705320000.0  # 2024-01-15 12:00:00


@pytest.mark.parametrize(
    ("wall", "zone", "moved", "named"),
    [
        (NOON, "+08:00", -8 * 3600, "+08:00"),
        (NOON, "-03:30", 3.5 * 3600, "-03:30"),
        (NOON, "Z", 0, "Z"),
        (NOON, "Europe/Berlin", -2 * 3600, "+02:00"),
        (WINTER, "Europe/Berlin", -1 * 3600, "+01:00"),
    ],
)
def test_a_local_time_is_put_on_the_clock_of_utc(wall, zone, moved, named):
    assert _placed(When(wall, wall + 1), _zone(zone)) == When(wall + moved, wall + moved + 1, named)


@pytest.mark.parametrize(
    "when",
    [
        When(NOON, NOON, "Z"),
        When(NOON, NOON, "+01:00"),
        When(),
        When(43200.0, 43201.0, dated=False, yeared=False),
        When(NOON, NOON, yeared=False),
    ],
)
def test_what_states_its_zone_or_does_not_state_its_day_stays(when):
    assert _placed(when, _zone("+08:00")) == when


def test_an_open_end_stays_open():
    assert _placed(When(None, NOON), _zone("+01:00")) == When(None, NOON - 3600, "+01:00")


def test_the_option_reaches_the_report(tmp_path):
    text = "2024-06-15 12:00:00,000 - ERROR - [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    for zone, stated in ((None, "2024-06-15T12:00:00"), ("+08:00", "2024-06-15T12:00:00+08:00")):
        trigger = diagnose([tmp_path], DiagnoseOptions(assume_zone=zone)).verdict.trigger
        assert trigger.time.earliest == stated
