"""Logs and dumps of one hang: stronger where they agree, weaker and said where they do not, errors of logs stand."""

import pytest
from incident import event, scene_of
from msgspec.structs import replace
from recorder.faults import FAULTS, healthy, stopped
from recorder.reading import dumps_of
from recorder.simulate import Form

from firstfault.analysis.agreement import with_dumps
from firstfault.analysis.answer import Answer, Named
from firstfault.model.words import Category, Strength

INCIDENT = stopped((2, 2, 2), 3)
(WHO,) = INCIDENT.culprits
OTHER = (WHO + 1) % 8


def said(
    question="hang", category=Category.UNKNOWN, strength=Strength.UNKNOWN, ranks=(), who=Strength.SUPPORTED, failed=True
):
    named = Named(ranks=ranks, strength=who) if ranks else Named()
    return Answer(
        question=question,
        failed=failed,
        category=category,
        strength=strength,
        summary="The logs say so.",
        culprits=named,
    )


def weighed(answer, incident=INCIDENT):
    return with_dumps(scene_of(event("nccl.timeout", rank=0), dumps=dumps_of(incident, Form())), answer)


def test_without_dumps_nothing_changes():
    answer = said(ranks=(WHO,))
    assert with_dumps(scene_of(event("nccl.timeout")), answer) is answer


def test_a_run_that_came_through_is_not_questioned():
    answer = said("good_end", Category.NONE, failed=False)
    assert weighed(answer) is answer


def test_who_is_surer_where_both_name_the_same():
    answer = weighed(said(ranks=(WHO,), who=Strength.SUPPORTED))
    assert (answer.culprits.ranks, answer.culprits.strength) == ((WHO,), Strength.ESTABLISHED)
    assert weighed(said()).culprits.strength is Strength.SUPPORTED


def test_the_reason_that_a_log_shows_is_kept():
    answer = weighed(said(category=Category.STORAGE_IO, strength=Strength.ESTABLISHED, ranks=(WHO,)))
    assert (answer.category, answer.strength) == (Category.STORAGE_IO, Strength.ESTABLISHED)


def test_a_contradiction_is_said_and_weakens():
    answer = weighed(said(ranks=(OTHER,)))
    assert f"rank {OTHER} instead" in answer.summary
    assert answer.culprits.strength is Strength.POSSIBLE
    assert answer.strength.level <= Strength.POSSIBLE.level


@pytest.mark.parametrize("question", ["nothing", "effects", "peers"])
def test_dumps_answer_where_the_logs_do_not(question):
    answer = weighed(said(question, failed=None if question == "nothing" else True))
    assert (answer.question, answer.failed, answer.culprits.ranks) == ("flight_recorder", True, (WHO,))


def test_an_error_of_a_log_stays_the_first_fault():
    error = said("first_fault", Category.SOFTWARE, Strength.ESTABLISHED, ranks=(WHO,), who=Strength.POSSIBLE)
    agreed = weighed(error)
    assert (agreed.category, agreed.strength, agreed.culprits.strength) == (
        Category.SOFTWARE,
        Strength.ESTABLISHED,
        Strength.SUPPORTED,
    )
    assert "agree" in agreed.summary
    against = weighed(replace(error, culprits=Named(ranks=(OTHER,), strength=Strength.ESTABLISHED)))
    assert against.category is Category.SOFTWARE
    assert (against.strength, against.culprits.strength) == (Strength.POSSIBLE, Strength.POSSIBLE)
    assert "disagree" in against.summary
    nobody = said("first_fault", Category.STORAGE_IO, Strength.SUPPORTED)
    assert weighed(nobody).summary == nobody.summary


def test_a_mismatch_in_both_is_established():
    incident = FAULTS["other_op"]((2, 2, 2), 1)
    log = said("mismatch", Category.COLLECTIVE_MISMATCH, Strength.SUPPORTED, ranks=incident.culprits)
    answer = weighed(log, incident)
    assert (answer.category, answer.strength) == (Category.COLLECTIVE_MISMATCH, Strength.ESTABLISHED)


def test_dumps_without_unfinished_work_are_mentioned_and_name_nobody():
    answer = weighed(said(ranks=(OTHER,)), healthy((2, 2, 2), 0))
    assert "no unfinished collective" in answer.summary
    assert answer.culprits.ranks == (OTHER,)


def test_a_machine_that_the_logs_name_is_kept_where_the_dumps_name_nobody():
    half = tuple(d for d in dumps_of(INCIDENT, Form()) if d.rank is not None and int(d.rank) // 4 != WHO // 4)
    named = replace(said(), culprits=Named(hosts=("cn-7",), strength=Strength.POSSIBLE))
    answer = with_dumps(scene_of(event("nccl.timeout", rank=0), dumps=half), named)
    assert answer.culprits.hosts == ("cn-7",)
    assert len(answer.proof) > len(named.proof)
