"""Whatever a thread is found in has its words, its category and its advice: none is left out where a new one comes."""

from firstfault.analysis.questions.no_logs import _DOES
from firstfault.analysis.questions.stacks import _ALL_AT, IN
from firstfault.analysis.state.stacks import WAITS, Doing


def test_each_has_its_words():
    assert set(_DOES) == set(IN) == set(Doing)


def test_each_that_waits_for_nobody_is_something_where_all_stand_in_it():
    assert set(_ALL_AT) == set(Doing) - WAITS - {Doing.CODE}
