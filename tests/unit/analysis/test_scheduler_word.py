"""The scheduler's word is evidence where no line says more; a word that no scheduler has is none."""

import pytest
from incident import event, sample, scene_of

from firstfault.analysis.conclude import ask
from firstfault.analysis.job_state import known_state
from firstfault.model.words import Category, Strength

STEPS = (sample(0, 1, 1), sample(0, 2, 2))


@pytest.mark.parametrize("state", ["TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "OUT_OF_ME+", "TO"])
def test_a_state_that_names_a_reason_is_one_where_the_log_just_stops(state):
    found = ask(scene_of(progress=STEPS, job_state=state))
    assert (found.failed, found.category, found.strength) == (True, Category.INFRASTRUCTURE, Strength.SUPPORTED)
    assert not found.culprits.anybody


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "CANCELLED by 1000"])
def test_a_state_that_names_none_only_tells_that_it_failed(state):
    found = ask(scene_of(progress=STEPS, job_state=state))
    assert (found.failed, found.category) == (True, Category.UNKNOWN)


def test_a_line_that_tells_a_cause_counts_more():
    found = ask(
        scene_of(event("gpu.oom", 5, rank=1), event("launcher.exit", 9, rank=1), progress=STEPS, job_state="TIMEOUT")
    )
    assert found.category is Category.GPU_CUDA


def test_a_good_word_and_none_are_no_failure_of_the_schedulers():
    assert ask(scene_of(progress=STEPS, job_state="COMPLETED")).failed is False
    assert ask(scene_of(progress=STEPS, job_state="RUNNING")).failed is None
    assert ask(scene_of(progress=STEPS)).failed is None


@pytest.mark.parametrize("word", ["BOGUS", "TIMEDOUT", "", "O+"])
def test_a_word_of_no_scheduler_is_unknown(word):
    assert known_state(word) is None
