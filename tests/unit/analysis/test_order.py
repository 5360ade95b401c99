from firstfault.analysis.order import comparable, first
from firstfault.model.evidence import Event, Span, When


def event(source, offset, *, at=None, until=None, zone=None):
    when = When() if at is None else When(earliest=at, latest=at if until is None else until, zone=zone)
    return Event(signature="x.y", span=Span(source, offset, 1, offset + 1, 1), text="x", when=when)


def test_place_orders_one_source():
    assert first(event(0, 1), event(0, 2)) is True
    assert first(event(0, 2), event(0, 1)) is False


def test_stamps_of_the_lines_beat_the_place():
    assert first(event(0, 9, at=10.0), event(0, 1, at=20.0)) is True


def test_sources_without_time_have_no_order():
    assert first(event(0, 1), event(1, 2)) is None


def test_meeting_intervals_have_no_order():
    assert first(event(0, 1, at=10.0, until=30.0), event(1, 1, at=20.0, until=40.0)) is None
    assert first(event(0, 1, at=10.0, until=15.0), event(1, 1, at=20.0, until=40.0)) is True


def test_clocks_of_different_zones_are_not_compared():
    assert first(event(0, 1, at=10.0, zone="Z"), event(1, 1, at=20.0)) is None


def test_times_that_state_different_zones_lie_on_the_clock_of_utc():
    early = When(1718452800.0, 1718452801.0, "+08:00")
    late = When(1718453800.0, 1718453801.0, "Z")
    assert comparable(early, late)
    assert not comparable(early, When(1718453800.0, 1718453801.0))
    assert not comparable(When(3600.0, 3601.0, "+08:00", dated=False), When(3700.0, 3701.0, "Z", dated=False))
