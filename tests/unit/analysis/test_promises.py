"""A promise to survive an exception is broken where nothing more is said and the process ends at an error."""

from __future__ import annotations

import pytest
from incident import event, scene_of
from msgspec.structs import replace

from firstfault.analysis.promises import broken_promises
from firstfault.model.evidence import Frame, PythonException


def promised(rank=3, line=40, *, last_word=True, ignored=True, source=0, in_worker=False):
    exception = PythonException(
        kind="RuntimeError",
        message="cut",
        frames=(Frame("/app/a.py", 1, "get"),),
        ignored=ignored,
        last_word=last_word,
        in_worker=in_worker,
    )
    return replace(event("python.exception", line, source=source, rank=rank), exception=exception)


def broken(*events, guilty=()):
    innocent = [e for e in events if e.exception is not None]
    deaths = [e for e in events if e.exception is None]
    return broken_promises(scene_of(*events).roster, innocent, guilty, deaths)


def exit_of(code, *, rank=3, line=60, source=0):
    return event("launcher.exit", line, source=source, rank=rank, fields={"exit_code": code})


def test_an_exit_as_python_s_at_an_error_breaks_it():
    told = promised()
    assert broken(told, exit_of("1")) == {(told.span, told.signature)}


@pytest.mark.parametrize("code", ["-9", "137", "143", "0", "-15"])
def test_an_end_from_outside_or_a_good_one_does_not(code):
    assert not broken(promised(), exit_of(code))


def test_another_rank_s_exit_does_not():
    assert not broken(promised(), exit_of("1", rank=4))


def test_an_exit_of_no_known_rank_counts_for_the_one_loader_that_raised_in_its_file():
    raised = promised(in_worker=True)
    assert broken(raised, exit_of("1", rank=None))
    assert not broken(raised, exit_of("1", rank=None, source=1))
    assert not broken(promised(), exit_of("1", rank=None))
    assert not broken(raised, promised(rank=2, line=10, in_worker=True), exit_of("1", rank=None))


def test_an_exception_that_nobody_promised_to_survive_explains_the_end():
    other = promised(rank=5, line=50, ignored=False)
    assert not broken(promised(), exit_of("1"), guilty=(other,))


def test_who_spoke_on_or_promised_nothing_is_left_alone():
    assert not broken(promised(last_word=False), exit_of("1"))
    assert not broken(promised(ignored=False), exit_of("1"))


def test_the_chain_is_broken_with_it_and_an_earlier_one_that_healed_is_not():
    told, inner, healed = promised(line=40), promised(line=36, last_word=False), promised(line=2, last_word=False)
    assert broken(told, inner, healed, exit_of("1")) == {(e.span, e.signature) for e in (told, inner)}
