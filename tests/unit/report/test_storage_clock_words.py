"""The sentence on two clocks never says that lines state a zone which may have been given on the command line."""

from firstfault.i18n import messages
from firstfault.model.diagnosis import Storage, StorageClock
from firstfault.report.storage import clock


def test_zones_that_are_known_may_have_been_given_by_the_reader():
    said = clock(Storage(clock=StorageClock(offset_seconds=0.0, how="stated")), messages("en"))
    assert "`--assume-zone`" in said
    assert "Both sides state" not in said
