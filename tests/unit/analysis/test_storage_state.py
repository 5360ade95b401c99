"""Counters, health, restarts and holes of storage daemons."""

from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state, stats

from firstfault.analysis.state.storage import changes, counts_up, flags, health


def one(*lines, **more):
    return state(piece(daemon(1), counters=lines, **more)).daemons[0]


def rows(held, begins=STOP - 600, ends=STOP + 300):
    return {c.name: (c.before, c.after, c.delta, c.reset) for c in changes(held, begins, ends)}


def test_a_counter_that_is_not_printed_is_zero():
    held = one(stats(STOP - 700, get__n=10), stats(STOP, get__n=12, err__getbatch__n=3))
    assert rows(held) == {"err.getbatch.n": (0, 3, 3, False), "get.n": (10, 12, 2, False)}


def test_a_counter_that_falls_began_again_at_zero():
    held = one(stats(STOP - 700, getbatch__n=1000), stats(STOP - 300, getbatch__n=1010), stats(STOP, getbatch__n=41))
    assert rows(held) == {"getbatch.n": (1000, 41, 51, True)}


def test_averages_are_never_differenced():
    held = one(
        stats(STOP - 700, get__ns=900, get__bps=7, kalive__ns=8), stats(STOP, get__ns=100, get__bps=9, kalive__ns=9)
    )
    assert rows(held) == {}
    assert not counts_up("get.ns")
    assert not counts_up("state.flags")
    assert counts_up("get.ns.total")
    assert counts_up("getbatch.rxwait.ns")


def test_the_rate_is_over_the_time_between_the_two_lines():
    held = one(stats(STOP - 400, getbatch__n=100), stats(STOP - 200, getbatch__n=300), stats(STOP, getbatch__n=500))
    (change,) = changes(held, STOP - 400, STOP)
    assert (change.delta, change.per_second) == (400, 1.0)


def test_state_flags_by_their_names():
    assert flags(6) == ()
    assert flags(134) == ("restarted",)
    assert flags(8198) == ("disk fault",)
    assert flags(2054 + 256) == ("out of space", "low capacity")


def test_health_shows_where_alerts_change():
    held = one(stats(STOP - 900, state__flags=6), stats(STOP - 60, state__flags=8198), stats(STOP, state__flags=8198))
    assert [(at, names) for at, _, names in health(held, STOP - 600, STOP)] == [(STOP - 60, ("disk fault",))]


def test_a_file_that_starts_anew_is_a_restart_with_the_hole_before_it():
    before = piece(daemon(1), ends=STOP - 200)
    after = piece(daemon(1), source=1, begins=STOP - 100, started=[STOP - 100.0])
    held = state(before, after).daemons[0]
    (restart,) = held.restarts
    assert (restart.at, restart.last_seen, restart.told) == (STOP - 100, STOP - 200, False)
    assert [(h.begins, h.ends) for h in held.holes] == [(STOP - 200, STOP - 100)]


def test_a_rotated_file_is_no_restart():
    held = state(piece(daemon(1), ends=STOP - 200), piece(daemon(1), source=1, begins=STOP - 100)).daemons[0]
    assert held.restarts == held.holes == ()


def test_the_file_of_errors_says_nothing_twice():
    info = piece(daemon(1), lines=[said(STOP, "aistore.disk_fault", "E same")])
    errors = piece(daemon(1), source=1, errors_only=True, lines=[said(STOP, "aistore.disk_fault", "E same", source=1)])
    for order in ((info, errors), (errors, info)):
        (moment,) = state(*order).daemons[0].lines
        assert moment.event.span.source == 0


def test_a_pod_and_a_file_of_one_node_are_one_daemon():
    who = daemon(1)
    pod = piece(who.__class__(who.role, "", who.name), source=1)
    assert len(state(piece(who), pod).daemons) == 1


def test_daemons_in_other_zones_are_put_on_one_clock():
    east = piece(daemon(1), zone=19800, lines=[said(STOP + 19800, "aistore.disk_fault")])
    assert state(east).daemons[0].lines[0].at == STOP
