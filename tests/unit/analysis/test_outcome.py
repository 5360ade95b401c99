"""How an attempt ended; `completed` is earned by a line, by the scheduler, or by all progress that was planned."""

from __future__ import annotations

import itertools

import pytest
from incident import event, failure, sample, scene_of

END = event("run.end", 50)


def ended(*events, **more):
    return scene_of(*events, **more).outcome.ended


def test_nothing_says_how_it_ended():
    assert ended() == "unknown"
    assert ended(event("run.start")) == "unknown"


def test_an_end_marker_completes_and_a_planned_stop_stops():
    assert ended(END) == "completed"
    assert ended(event("run.planned", 50)) == "stopped"


@pytest.mark.parametrize("name", ["gpu.oom", "launcher.exit", "nccl.timeout"])
def test_what_comes_after_the_end_is_a_failure_and_what_came_before_is_not(name):
    assert ended(END, event(name, 60)) == "failed"
    assert ended(END, event(name, 40)) == "completed"


@pytest.mark.parametrize("name", ["launcher.exit", "nccl.timeout"])
def test_a_death_or_wait_that_nothing_orders_after_the_end_is_not_excused_by_it(name):
    assert ended(END, event(name, 1, source=1)) == "failed"


def test_an_exit_with_zero_is_no_death():
    assert ended(END, event("launcher.exit", 60, fields={"exit_code": "0"})) == "completed"
    assert ended(END, event("launcher.exit", 60, fields={"exit_code": "0:0"})) == "completed"


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "node_fail", "CANCELLED by 1001", "OUT_OF_MEMORY", "OOMKilled"])
def test_the_schedulers_bad_word_counts_more_than_an_end_marker(state):
    assert ended(END, job_state=state) == "failed"


def test_the_schedulers_good_word_counts_more_than_errors_but_not_more_than_the_exit_code():
    assert ended(event("gpu.oom"), job_state="COMPLETED") == "completed"
    assert ended(event("gpu.oom"), job_state="COMPLETED", exit_code=0) == "completed"
    assert ended(event("gpu.oom"), job_state="COMPLETED", exit_code=1) == "failed"


def test_a_state_that_tells_nothing_tells_nothing():
    assert ended(job_state="RUNNING") == "unknown"
    assert ended(job_state="  ") == "unknown"


@pytest.mark.parametrize(("code", "expected"), [(None, "unknown"), (0, "unknown"), (1, "failed"), (-9, "failed")])
def test_an_exit_code_alone(code, expected):
    assert ended(exit_code=code) == expected


def test_a_launchers_list_is_a_failure():
    assert ended(failures=(failure(code=1),)) == "failed"


def steps(source, last, total):
    return tuple(sample(source, n + 1, n, total) for n in range(max(0, last - 2), last + 1))


def test_progress_to_the_planned_step_completes():
    assert ended(progress=steps(0, 100, 100)) == "completed"
    assert ended(progress=steps(0, 99, 100)) == "unknown"
    assert ended(progress=tuple(sample(0, n, n) for n in range(9))) == "unknown"


def test_one_rank_that_finished_does_not_speak_for_one_that_did_not():
    for first, second in itertools.permutations((100, 73)):
        assert ended(progress=(*steps(0, first, 100), *steps(1, second, 100))) == "unknown"
    assert ended(progress=(*steps(0, 100, 100), *steps(1, 100, 100))) == "completed"


def test_progress_to_the_end_does_not_excuse_an_order_to_stop():
    assert ended(event("launcher.stop", 200), progress=steps(0, 100, 100)) == "unknown"
