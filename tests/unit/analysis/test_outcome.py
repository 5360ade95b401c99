"""How an attempt ended; `completed` is earned by a line, by the scheduler, or by all progress that was planned."""

from __future__ import annotations

import itertools

import pytest
from incident import event, failure, sample, scene_of
from msgspec.structs import replace

from firstfault.analysis.conclude import ask
from firstfault.model.evidence import Frame, PythonException
from firstfault.model.words import Category, Strength

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


def raised(function, **more):
    frames = (Frame(file="/app/train.py", line=3, function=function),)
    return replace(event("gpu.oom", **more), exception=PythonException(kind="KeyError", message="1", frames=frames))


def test_an_end_marker_after_which_steps_follow_ended_only_a_part():
    assert ended(END, progress=steps(0, 20, 100)) == "completed"
    later = tuple(sample(0, 60 + n, n, 100) for n in range(1, 6))
    assert ended(END, progress=later) == "unknown"


def test_the_schedulers_good_word_does_not_count_more_than_a_process_that_is_shown_to_have_died():
    for bad in (raised("<module>"), event("launcher.exit")):
        found = scene_of(bad, job_state="COMPLETED").outcome
        assert found.ended == "failed"
        assert found.against == (replace(bad, attempt=1),)
    assert ended(raised("step"), job_state="COMPLETED") == "completed"


def test_an_error_before_the_runs_own_end_is_no_contradiction():
    assert scene_of(raised("<module>"), END, job_state="COMPLETED").outcome.against == ()
    answer = ask(scene_of(event("gpu.oom"), END, job_state="COMPLETED"))
    assert (answer.category, answer.strength) == (Category.NONE, Strength.ESTABLISHED)


def test_the_schedulers_good_word_and_an_error_contradict_each_other_and_neither_is_claimed():
    good = ask(scene_of(event("gpu.oom"), job_state="COMPLETED"))
    assert (good.failed, good.category, good.strength) == (False, Category.NONE, Strength.POSSIBLE)
    assert "contradict" in good.summary
    assert [r.category for r in good.rivals] == [Category.GPU_CUDA]
    bad = ask(scene_of(raised("<module>", rank=0), job_state="COMPLETED"))
    assert (bad.failed, bad.category, bad.strength) == (True, Category.GPU_CUDA, Strength.POSSIBLE)
    assert bad.culprits.strength is Strength.POSSIBLE
    assert "COMPLETED" in bad.summary
    assert [r.category for r in bad.rivals] == [Category.NONE]


def test_an_exit_code_of_zero_against_an_error_is_said():
    answer = ask(scene_of(raised("step"), exit_code=0))
    assert (answer.failed, answer.strength) == (True, Strength.POSSIBLE)
    assert "exit code is 0" in answer.summary


def test_the_last_planned_step_alone_makes_a_good_end_possible_and_a_checkpoint_behind_it_more():
    done = steps(0, 100, 100)
    assert ask(scene_of(progress=done)).strength is Strength.POSSIBLE
    assert ask(scene_of(event("run.saved", 300), progress=done)).strength is Strength.SUPPORTED
    assert ask(scene_of(event("run.saved", 5), progress=done)).strength is Strength.POSSIBLE
    assert ask(scene_of(job_state="COMPLETED")).strength is Strength.SUPPORTED


def test_an_end_marker_that_breaks_off_with_its_file_makes_a_good_end_no_more_than_possible():
    found = ask(scene_of(END, cut={0: 50}))
    assert (found.failed, found.category, found.strength) == (False, Category.NONE, Strength.POSSIBLE)
    assert "has no end" in found.summary
    assert any("0.log" in wanted for wanted in found.collect)


@pytest.mark.parametrize("cut", [{}, {0: 51}, {1: 50}])
def test_an_end_marker_with_a_line_behind_it_or_whose_own_file_is_whole_is_the_runs_word(cut):
    assert ask(scene_of(END, cut=cut)).strength is Strength.ESTABLISHED


def test_a_sentence_that_is_closed_has_said_what_it_had_to_say():
    assert ask(scene_of(replace(END, text="Training completed."), cut={0: 50})).strength is Strength.ESTABLISHED


def test_the_whole_end_marker_of_another_file_is_cited_before_one_that_breaks_off():
    found = scene_of(END, event("run.end", 60, source=1), cut={1: 60}).outcome
    assert found.event == END
