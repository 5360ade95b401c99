"""Which attempt is judged, and what becomes of a conclusion whose answer is another one."""

import pytest
from incident import LIBRARY, event
from msgspec.structs import replace

from firstfault.analysis.case import Observations
from firstfault.analysis.conclude import conclude, reconsidered
from firstfault.model.evidence import Source
from firstfault.model.words import Category, SourceKind

FIRST = (
    event("run.restart", 1),
    event("run.start", 2),
    event("code.crash", 5, rank=1),
    event("launcher.exit", 6, rank=1),
)
SECOND = (
    event("run.restart", 10),
    event("run.start", 11),
    event("gpu.oom", 15, rank=2),
    event("launcher.exit", 16, rank=2),
)
CLEAN = (event("run.restart", 10), event("run.start", 11), event("run.end", 15))
CUT = (event("run.restart", 10), event("run.start", 11))


def concluded(*events, attempt="last"):
    source = Source(id=0, path="0.log", kind=SourceKind.LOG)
    return conclude(Observations(sources=(source,), events=events), LIBRARY, attempt)


def test_the_last_failing_attempt_is_judged_and_the_others_are_kept():
    found = concluded(*FIRST, *SECOND)
    assert (found.scene.number, found.answer.category) == (2, Category.GPU_CUDA)
    assert [answer.category for _, answer in found.attempts] == [Category.SOFTWARE, Category.GPU_CUDA]


def test_a_last_attempt_that_ended_well_is_the_answer():
    found = concluded(*FIRST, *CLEAN)
    assert (found.scene.number, found.answer.failed) == (2, False)


def test_a_last_attempt_that_just_stops_yields_to_the_one_that_failed():
    found = concluded(*FIRST, *CUT)
    assert (found.scene.number, found.answer.failed) == (1, True)


def test_a_number_picks_an_attempt_and_one_that_is_not_there_is_an_error():
    assert concluded(*FIRST, *SECOND, attempt=1).answer.category is Category.SOFTWARE
    with pytest.raises(ValueError, match="there is no attempt 3: the logs hold 2"):
        concluded(*FIRST, *SECOND, attempt=3)


def test_the_same_answer_is_the_same_conclusion():
    found = concluded(*FIRST)
    assert reconsidered(found, found.answer) is found


def test_another_answer_gets_a_chain_and_readings_of_its_own():
    found = concluded(*FIRST)
    crash, exited = found.answer.trigger, next(e for e in found.scene.events if e.signature == "launcher.exit")
    other = reconsidered(found, replace(found.answer, trigger=exited, chain=()))
    assert found.answer.chain[0].events == (crash,)
    assert other.answer.chain[0].events == (exited,)
    assert other.scene is found.scene
    assert [n.reading for n in found.naive] == ["last_error"]
    assert other.naive == ()


def test_what_is_weighed_besides_is_in_the_chain():
    def weighed(scene, answer):
        return replace(answer, trigger=next(e for e in scene.events if e.signature == "launcher.exit"))

    plain = concluded(*FIRST)
    found = conclude(plain.scene.case.seen, LIBRARY, heed=weighed)
    assert plain.answer.chain[0].events[0].signature != "launcher.exit"
    assert found.answer.chain[0].events[0].signature == "launcher.exit"
