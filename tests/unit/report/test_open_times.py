"""Times of which one end is known are shown as such, and stand in the Markdown timeline where that end lies."""

from __future__ import annotations

import pytest

from firstfault.i18n import messages
from firstfault.model.diagnosis import Time
from firstfault.pipelines.diagnose import diagnose
from firstfault.report.phrases import when

SAY = messages("en")


@pytest.mark.parametrize(
    ("earliest", "latest", "shown"),
    [
        ("2026-01-15T13:40:00", None, "after 2026-01-15T13:40:00"),
        (None, "2026-01-15T13:40:00", "before 2026-01-15T13:40:00"),
        ("2026-01-15T13:40:00", "2026-01-15T13:50:00", "2026-01-15T13:40:00 .. 2026-01-15T13:50:00"),
        ("2026-01-15T13:40:00", "2026-01-15T13:40:01", "2026-01-15T13:40:00"),
        ("2026-01-15T13:40:00", "2026-01-15T13:40:00", "2026-01-15T13:40:00"),
    ],
)
def test_each_end_is_shown_as_what_it_is(earliest, latest, shown):
    assert when(Time(earliest=earliest, latest=latest), SAY) == shown


def test_a_time_of_day_says_that_it_has_no_date():
    assert when(Time(earliest="13:40:00", latest=None, dated=False), SAY) == "after 13:40:00 (no date)"


def test_what_came_after_a_dated_line_stands_in_its_place(tmp_path):
    (tmp_path / "a.log").write_text(
        "2026-01-15 13:40:00,000 INFO step 3 loss 2.1\n"
        'Traceback (most recent call last):\n  File "/w/t.py", line 8, in <module>\n    main()\nKeyError: 5\n'
    )
    (tmp_path / "kern.log").write_text(
        "2026-01-15T13:45:00 gx-2 kernel: NVRM: Xid (PCI:0000:ab:00): 79, pid=881, name=python, GPU has fallen off the bus.\n"
    )
    entries = diagnose([tmp_path]).timeline
    key = next(e for e in entries if "KeyError" in e.evidence.text)
    assert when(key.time, SAY).startswith("after 2026-01-15T13:40:00")
    starts = [e.time.earliest for e in entries if e.time is not None and e.time.earliest is not None]
    assert starts == sorted(starts)
