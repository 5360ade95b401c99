"""Intervals as text: a dated time with a zone goes back to its own clock, a mere time of day never left it."""

from __future__ import annotations

import pytest

from firstfault.model.evidence import When
from firstfault.pipelines.timeline import Instant, _on_scale
from firstfault.pipelines.times import time_of

NOON = 12 * 3600.0


@pytest.mark.parametrize("zone", ["+08:00", "-05:30", "Z"])
def test_a_time_of_day_is_shown_as_the_line_has_it(zone):
    shown = time_of(When(earliest=NOON, latest=NOON, zone=zone, dated=False, yeared=False))
    assert shown is not None
    assert shown.earliest == f"12:00:00{zone}"


def test_a_dated_time_is_shown_on_its_own_clock():
    utc_noon = 1_772_452_800.0  # 2026-03-02T12:00:00Z
    shown = time_of(When(earliest=utc_noon, latest=utc_noon, zone="+08:00"))
    assert shown is not None
    assert shown.earliest == "2026-03-02T20:00:00+08:00"


def test_what_was_asked_for_by_the_time_of_day_is_held_against_the_lines_own():
    asked = Instant(seconds=NOON, dated=False, zone=None)
    undated = When(earliest=NOON, latest=NOON, zone="+08:00", dated=False, yeared=False)
    assert _on_scale(NOON, undated, asked) == NOON
    dated = When(earliest=1_772_452_800.0, latest=1_772_452_800.0, zone="+08:00")
    assert _on_scale(1_772_452_800.0, dated, asked) == 20 * 3600.0
