"""Starts of one job, told apart by restarts in a file, by folders, and by the numbers of a scheduler's jobs."""

from __future__ import annotations

import itertools

import pytest
from incident import case_of, event, sample

from firstfault.analysis.state.attempts import Attempts, boundaries
from firstfault.model.evidence import RanksNamed, When, Who


def attempts(*events, names=("0.log",), **more):
    return Attempts(case_of(*events, names=names, **more))


def test_nothing_at_all_is_one_attempt():
    assert attempts(names=()).total == 1


def test_a_start_after_a_death_is_a_new_attempt_and_a_start_after_none_is_not():
    start, again = event("run.start", 1), event("run.start", 9)
    assert attempts(start, again).total == 1
    found = attempts(start, event("launcher.exit", 5), again)
    assert found.total == 2
    assert [found.at(0, offset, When()) for offset in (0, 899, 900, 5000)] == [1, 1, 2, 2]


def test_a_restart_line_counts_once_although_starts_follow_it():
    events = [
        event("run.start", 1),
        event("launcher.exit", 2),
        event("run.restart", 3),
        event("run.start", 4),
        event("run.start", 5),
    ]
    assert [e.span.line for e in boundaries(case_of(*events), events)] == [3]


def test_a_restart_line_before_anything_started_is_no_second_attempt():
    assert attempts(event("launcher.exit", 1), event("run.restart", 2), event("run.start", 3)).total == 1


def test_folders_of_attempts():
    found = attempts(names=("a/attempt_0/1/stderr.log", "a/attempt_1/1/stderr.log"))
    assert found.total == 2
    assert [found.at(source, 0, When()) for source in (0, 1)] == [1, 2]


def test_a_folder_with_a_far_number_makes_no_attempts_between():
    found = attempts(names=("a/attempt_1/x.log", "a/attempt_20260302/x.log"))
    assert found.total == 2
    assert found.at(1, 0, When()) == 2


@pytest.mark.parametrize(
    ("names", "total"),
    [
        (("slurm-66120.out", "slurm-66388.out"), 2),
        (("slurm-66120.out", "slurm-66120.err.log"), 1),
        (("error-4711-0.out", "error-4711-1.out"), 1),
        (("log_0000.txt", "log_0001.txt", "log_0002.txt"), 1),
        (("log_0999.txt", "log_1000.txt", "log_1001.txt"), 1),
        (("out_999.txt", "out_1000.txt", "out_1001.txt"), 1),
        (("a.tar!slurm-66120.out", "a.tar!slurm-66388.out"), 2),
    ],
)
def test_numbers_of_jobs_are_not_numbers_of_ranks(names, total):
    assert attempts(names=names).total == total


def test_a_file_without_restarts_of_its_own_goes_by_the_clock():
    events = [
        event("run.start", 1, at=100.0),
        event("launcher.exit", 2, at=200.0),
        event("run.start", 3, at=300.0),
    ]
    found = attempts(*events, names=("a.log", "b.log"))
    assert [found.at(1, 0, When(t, t)) for t in (150.0, 299.5, 350.0)] == [1, 2, 2]
    assert found.at(1, 0, When()) == 2
    # In front of the first stamp of its file: of no later attempt than that stamp.
    assert [found.at(1, 0, When(None, t)) for t in (210.0, 350.0)] == [1, 2]


def test_progress_tells_when_an_attempt_began_too():
    events = [event("run.start", 1), event("launcher.exit", 2), event("run.start", 5)]
    found = attempts(*events, names=("a.log", "b.log"), progress=(sample(0, 1, 1, at=10.0), sample(0, 6, 1, at=90.0)))
    assert [found.at(1, 0, When(t, t)) for t in (50.0, 95.0)] == [1, 2]


def test_the_number_of_an_event_does_not_depend_on_the_order_of_events():
    events = [
        event("run.start", 1, at=100.0),
        event("launcher.exit", 2, at=200.0),
        event("run.start", 3, at=300.0),
        event("gpu.oom", 1, source=1, at=320.0),
    ]
    answers = {
        tuple(attempts(*order, names=("a.log", "b.log")).of(e) for e in events)
        for order in itertools.permutations(events)
    }
    assert answers == {(1, 1, 2, 2)}


def test_a_time_on_another_clock_does_not_tell_the_attempt():
    events = [event("run.start", 1, at=100.0), event("launcher.exit", 2, at=200.0), event("run.start", 3, at=300.0)]
    found = attempts(*events, names=("a.log", "b.log"))
    assert found.at(1, 0, When(150.0, 150.0)) == 1
    assert found.at(1, 0, When(150.0, 150.0, "Z")) == 2


def test_a_kernel_log_beside_the_files_of_several_jobs_is_placed_by_its_times():
    names = ("dmesg.log", "slurm-4711.out", "slurm-4712.out")
    events = [event("run.start", 1, source=1, at=100.0), event("run.start", 1, source=2, at=300.0)]
    found = attempts(*events, names=names)
    assert found.total == 2
    assert [found.at(0, 0, When(t, t)) for t in (150.0, 350.0)] == [1, 2]
    assert found.at(0, 0, When()) == 2


def test_ranks_that_floods_of_lines_name_are_of_the_attempts_in_which_they_do():
    found = attempts(event("run.start", 1), event("launcher.exit", 5), event("run.start", 6))
    cut = event("run.start", 6).span.offset
    named = RanksNamed(source=0, who=Who(), ranks={0: (0, cut, ""), 1: (0, cut - 1, ""), 2: (cut, cut + 9, "")})
    assert [set(found.of_named(named, n).ranks) for n in (1, 2)] == [{0, 1}, {0, 2}]
