"""Clocks of machines that stand apart: told by common steps, never by a fault; and what orders nothing without them."""

import pytest
from incident import LIBRARY, event, sample

from firstfault.analysis.case import Case, Observations
from firstfault.analysis.conclude import conclude
from firstfault.analysis.state.clocks import on_one_clock, shifts
from firstfault.model.evidence import Coverage, Source, Who
from firstfault.model.words import Category, CoverageState, SourceKind, Strength

PLACES = {0: Who(rank=0, host="na"), 1: Who(rank=8, host="nb"), 2: Who(rank=16, host="nc"), 3: Who(host="nb")}
KINDS = (SourceKind.LOG, SourceKind.LOG, SourceKind.LOG, SourceKind.KERNEL)


def seen(*events, ahead=180.0, steps=range(1, 8), places=PLACES, jitter=0.0, logs=(0, 1, 2)):
    """Three logs of three machines that print the same steps; the clock of the second is `ahead`."""
    progress = [
        sample(
            source,
            step,
            step,
            at=1000.0 + 7 * step + (ahead if source == 1 else 0) + (jitter * step if source == 1 else 0),
        )
        for source in logs
        for step in steps
    ]
    sources = tuple(Source(id=i, path=f"{i}.log", kind=kind) for i, kind in enumerate(KINDS))
    coverage = tuple(Coverage(file=s.path, state=CoverageState.READ) for s in sources)
    return Observations(sources=sources, events=events, progress=tuple(progress), place=places, coverage=coverage)


@pytest.mark.parametrize("ahead", [-28800.0, -12.0, 12.0, 180.0, 19800.0])
def test_the_clock_of_one_machine_is_told_by_the_steps_that_all_print(ahead):
    # The kernel's log of that machine prints no step, and has its clock.
    assert shifts(seen(ahead=ahead)) == {1: ahead, 3: ahead}


def test_all_times_are_moved_and_it_is_said():
    moved = on_one_clock(seen(event("gpu.fell_off", 1, source=3, host="nb", at=1250.0)))
    assert moved.events[0].when.earliest == 1070.0
    assert {p.when.earliest for p in moved.progress if p.step == 7} == {1049.0}
    assert [c.file for c in moved.coverage if "180 s ahead" in c.reason] == ["1.log", "3.log"]


@pytest.mark.parametrize(
    "more",
    [
        {"ahead": 2.0},
        {"steps": range(1, 3)},
        {"jitter": 1.5},
        {"places": {**PLACES, 1: Who(rank=0, host="nb")}},
        {"places": {**PLACES, 1: Who(rank=8, host="na")}},
        {"places": {**PLACES, 1: Who(rank=8)}},
        {"places": {**PLACES, 1: Who(host="nb")}},
    ],
    ids=["close", "few steps", "no fixed distance", "same rank", "same host", "host unknown", "rank unknown"],
)
def test_what_could_be_two_starts_or_two_paces_moves_nothing(more):
    given = seen(**more)
    assert shifts(given) == {}
    assert on_one_clock(given) is given


def test_steps_that_come_twice_tell_nothing():
    again = seen()
    again = Observations(**{f: getattr(again, f) for f in again.__struct_fields__} | {
        "progress": (*again.progress, sample(1, 99, 3, at=9000.0))
    })  # fmt: skip
    assert shifts(again) == {}


LOSS = {"source": 0, "host": "na"}
FAULT = {"source": 3, "host": "nb"}


def verdict(*events, **more):
    died = event("launcher.exit", 60, source=1, rank=8, fields={"exit_code": "1"})
    found = conclude(seen(*events, died, ahead=0.0, **more), LIBRARY)
    return found.answer


def test_the_loss_of_a_peer_follows_from_the_fault_of_another_machine():
    answer = verdict(event("net.peer", 50, at=1055.0, **LOSS), event("gpu.fell_off", 1, at=1052.0, **FAULT))
    assert (answer.category, answer.culprits.hosts) == (Category.GPU_CUDA, ("nb",))
    assert answer.rivals == ()


@pytest.mark.parametrize("late", [12.0, 30.0, 180.0, 28800.0])
def test_a_clock_that_puts_the_loss_of_a_peer_before_its_fault_does_not_decide(late):
    answer = verdict(
        event("net.peer", 50, at=1055.0, **LOSS), event("gpu.fell_off", 1, at=1052.0 + late, **FAULT), logs=(0,)
    )
    assert answer.category is Category.GPU_CUDA


def test_on_one_machine_the_order_of_its_clock_counts():
    answer = verdict(
        event("net.peer", 50, at=1055.0, **LOSS), event("gpu.fell_off", 1, source=2, host="na", at=1350.0), logs=(0,)
    )
    assert answer.category is Category.NETWORK


def still(order, *events, until=7, step=7.0):
    progress = tuple(sample(0, n, n, at=1000.0 + step * n) for n in range(1, until + 1))
    sources = (Source(id=0, path="0.log", kind=SourceKind.LOG),)
    died = event("launcher.exit", 800, rank=3, fields={"exit_code": "1"})
    return conclude(Observations(sources=sources, events=(*events, order, died), progress=progress), LIBRARY).answer


STOP_AT = 5000.0


def test_a_stop_of_a_job_that_stood_still_is_not_what_ended_it():
    crash = event("code.crash", 20, rank=3)
    late = still(event("slurm.limit", 30, at=STOP_AT), crash)
    assert late.trigger.signature == "code.crash"
    # Where steps went on until the order, what was said just before it may be its consequence.
    busy = still(event("slurm.limit", 710, at=STOP_AT), event("code.crash", 705, rank=3), until=571)
    assert busy.trigger.signature == "slurm.limit"


def test_a_stop_after_a_standstill_is_no_more_than_a_possibility():
    answer = still(event("slurm.limit", 30, at=STOP_AT))
    assert (answer.category, answer.strength) == (Category.INFRASTRUCTURE, Strength.POSSIBLE)
    assert "No step had been made for 65 min" in answer.summary
    assert still(event("slurm.limit", 710, at=STOP_AT), until=571).strength is Strength.ESTABLISHED


def test_a_job_that_steps_rarely_has_not_stood_still():
    case = Case(
        Observations(
            sources=(Source(id=0, path="0.log", kind=SourceKind.LOG),),
            events=(),
            progress=tuple(sample(0, n, n, at=1000.0 + 900.0 * n) for n in range(1, 6)),
        ),
        LIBRARY,
    )
    assert case.stood_still(event("slurm.limit", 30, at=1000.0 + 900.0 * 7)) is None
    assert case.stood_still(event("slurm.limit", 30, at=1000.0 + 900.0 * 40)) == 900.0 * 35
