"""What late ranks were seen doing before the time-out; what is theirs, and what says nothing."""

import incident
import pytest
from incident import LIBRARY, event, scene_of, signature
from msgspec.structs import replace

from firstfault.analysis.state.window import Doing, activity, edges
from firstfault.model.evidence import When
from firstfault.model.words import Category, Domain, Mark, Role
from firstfault.signatures.library import Library

OUT = 1000.0
RAN = {"op": "ALLREDUCE", "seq": "9", "ran_ms": "600000"}


@pytest.fixture(autouse=True)
def library(monkeypatch):
    own = [
        *LIBRARY.signatures,
        signature("data.preparing", Role.CONTEXT),
        signature("storage.retry", Role.CAUSE, marks=[Mark.RETRY], category=Category.STORAGE_IO, domain=Domain.DATA),
        signature("ckpt.begin", Role.CONTEXT, marks=[Mark.CHECKPOINT_BEGIN]),
        signature("ckpt.end", Role.CONTEXT, marks=[Mark.CHECKPOINT_END]),
        signature("eval.bar", Role.CONTEXT, marks=[Mark.EVALUATION]),
    ]
    monkeypatch.setattr(incident, "LIBRARY", Library(own, {}))


def seen(*events, late=(3,), hosts=()):
    wait = event("nccl.timeout", 90, rank=0, at=OUT, fields=RAN)
    scene = scene_of(*events, wait)
    return [(s.doing, s.direct) for s in activity(scene, late, hosts, edges([wait]))]


def test_a_line_of_the_late_rank_inside_the_window_counts():
    assert seen(event("data.preparing", 10, rank=3, at=500.0)) == [(Doing.PREPARING, True)]


@pytest.mark.parametrize("at", [1.0, 250.0, 1001.0])
def test_outside_the_window_nothing_counts(at):
    # The collective began at 400; 120 seconds before it a slow read may have begun.
    assert seen(event("data.preparing", 10, rank=3, at=at)) == []


def test_the_line_of_another_rank_is_not_theirs():
    assert seen(event("data.preparing", 10, rank=2, at=500.0)) == []


def test_a_line_without_a_rank_on_their_host_counts_as_indirect():
    line = event("data.preparing", 10, host="cn-7.cluster", at=500.0)
    assert seen(line, hosts=("cn-7",)) == [(Doing.PREPARING, False)]
    assert seen(line, hosts=("cn-8",)) == []


def test_one_retry_may_have_recovered_and_says_nothing():
    first = event("storage.retry", 10, rank=3, at=500.0, fields={"retry": "1"})
    assert seen(first) == []
    assert seen(event("storage.retry", 10, rank=3, at=500.0, fields={"retry": "3"})) == [(Doing.READING, True)]
    assert seen(first, event("storage.retry", 11, rank=3, at=520.0, fields={"retry": "1"})) == [(Doing.READING, True)]


def test_a_checkpoint_counts_only_while_it_is_open():
    begin = event("ckpt.begin", 10, rank=3, at=500.0)
    assert seen(begin) == [(Doing.CHECKPOINT, True)]
    assert seen(begin, event("ckpt.end", 11, rank=3, at=510.0)) == []


def test_an_evaluation_without_a_rank_is_everybodys():
    assert seen(event("eval.bar", 10, rank=3, at=500.0)) == [(Doing.EVALUATION, True)]
    assert seen(event("eval.bar", 10, host="cn-7", at=500.0), hosts=("cn-7",)) == []


def test_the_most_telling_comes_first():
    found = seen(
        event("ckpt.begin", 10, rank=3, at=500.0),
        event("data.preparing", 11, rank=3, at=510.0),
        event("data.preparing", 12, host="cn-7", at=515.0),
        hosts=("cn-7",),
    )
    assert found == [(Doing.PREPARING, True), (Doing.CHECKPOINT, True), (Doing.PREPARING, False)]


def test_without_stamps_only_the_lines_right_before_the_time_out_count():
    wait = event("nccl.timeout", 90, rank=0, fields=RAN)
    for line, counts in ((80, True), (20, False), (95, False)):
        scene = scene_of(event("data.preparing", line, rank=3), wait)
        assert bool(activity(scene, (3,), (), edges([wait]))) is counts


def test_the_edge_of_a_source_is_its_first_line():
    a, b, c = event("nccl.timeout", 9), event("nccl.timeout", 4), event("nccl.timeout", 7, source=1)
    assert edges([a, b, c]) == {0: b, 1: c}


def untimed(line, until):
    """A line without a stamp, before one that is stamped."""
    return replace(event("storage.retry", line, rank=3, fields={"retry": "3"}), when=When(latest=until))


def test_a_line_without_a_time_counts_only_if_nothing_older_than_the_wait_follows_it():
    # The collective began at 400. What stands before a line of 300 was said at the start of the program.
    assert seen(untimed(60, 300.0)) == []
    assert seen(untimed(60, OUT)) == [(Doing.READING, True)]
