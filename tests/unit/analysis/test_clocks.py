"""No order is claimed between two machines' clocks within what they may lie apart; equal steps tie them together."""

import pytest
from incident import event, sample, scene_of
from msgspec.structs import replace

from firstfault.analysis.clocks import Reading, elsewhere, order, reading
from firstfault.analysis.conclude import ask
from firstfault.model.evidence import PythonException, When
from firstfault.model.words import Category

HOUR = 3600.0
DAY = 24 * HOUR


def at(seconds, *, source, zone=None):
    found = event("code.crash", 1, source=source)
    return replace(found, when=When(earliest=seconds, latest=seconds, zone=zone))


A, B = Reading(machine="n1"), Reading(machine="n2")


@pytest.mark.parametrize(("gap", "zone"), [(12.0, None), (8 * HOUR, None), (200.0, "Z")])
def test_two_machines_clocks_tell_no_order_within_what_they_may_differ(gap, zone):
    first, second = at(1000.0, source=0, zone=zone), at(1000.0 + gap, source=1, zone=zone)
    assert order(first, A, second, B) is None
    assert order(second, B, first, A) is None


@pytest.mark.parametrize(("gap", "zone"), [(2 * DAY, None), (900.0, "Z")])
def test_beyond_it_they_do(gap, zone):
    first, second = at(1000.0, source=0, zone=zone), at(1000.0 + gap, source=1, zone=zone)
    assert order(first, A, second, B) is True
    assert order(second, B, first, A) is False


def test_one_machine_has_one_clock():
    first, second = at(1000.0, source=0), at(1003.0, source=1)
    assert order(first, A, second, A) is True
    assert not elsewhere(A, Reading())


def test_equal_steps_tell_how_far_two_clocks_are_apart():
    steps = {1: 100.0, 2: 110.0, 3: 120.0}
    ahead = Reading(machine="n2", steps={s: t + 8 * HOUR for s, t in steps.items()})
    here = Reading(machine="n1", steps=steps)
    assert order(at(130.0, source=0), here, at(140.0 + 8 * HOUR, source=1), ahead) is True
    assert order(at(140.0, source=0), here, at(130.0 + 8 * HOUR, source=1), ahead) is False
    assert order(at(130.0, source=0), here, at(131.0 + 8 * HOUR, source=1), ahead) is None
    loose = Reading(machine="n2", steps={1: 100.0, 2: 170.0, 3: 90.0})
    assert order(at(130.0, source=0), here, at(400.0, source=1), loose) is None


def test_the_steps_of_a_machine_are_those_of_its_logs():
    progress = (sample(0, 3, 1, at=100.0), sample(0, 4, 2, at=110.0))
    fault = event("code.crash", 9, rank=0, host="n1.example", at=120.0)
    other = event("code.crash", 9, source=1, rank=4, host="n2", at=120.0)
    scene = scene_of(fault, other, progress=progress)
    assert reading(scene.roster, fault) == Reading(machine="n1", steps={1: 100.0, 2: 110.0})
    assert reading(scene.roster, other).steps == {}


def skewed(ahead):
    """A GPU falls off the bus on n2, whose clock is ahead; n1 says that its peer is silent."""
    silent = event("net.peer", 9, rank=0, host="n1", at=1000.0)
    fell = event("gpu.fell_off", 1, source=1, host="n2", at=998.0 + ahead)
    report = event("launcher.exit", 5, source=2, rank=4, host="n2", at=999.0 + ahead)
    return ask(scene_of(silent, fell, report))


@pytest.mark.parametrize("ahead", [0.0, 12.0, 180.0, 8 * HOUR, -8 * HOUR])
def test_a_machines_fault_is_the_origin_of_a_silent_peer_however_far_its_clock_is_off(ahead):
    found = skewed(ahead)
    assert (found.category, found.culprits.hosts) == (Category.GPU_CUDA, ("n2",))


def stopped(after, steps=(100.0, 107.0, 114.0, 121.0)):
    progress = tuple(sample(0, 1 + n, n, at=t) for n, t in enumerate(steps))
    error = replace(
        event("code.crash", 10, rank=3), exception=PythonException(kind="ValueError", message="bad vocabulary")
    )
    stop = event("launcher.limit", 12, at=steps[-1] + after)
    return ask(scene_of(error, stop, progress=progress))


def test_a_stop_long_after_the_last_step_only_ended_the_wait_for_a_rank_that_had_failed():
    assert stopped(3 * HOUR).category is Category.SOFTWARE


def test_a_stop_right_after_the_last_step_is_the_reason_of_what_a_program_then_says():
    assert stopped(5.0).category is Category.INFRASTRUCTURE
