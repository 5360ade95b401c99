"""A rank outside the stuck collective that its own traceback shows inside another one."""

from __future__ import annotations

import random

import pytest
from hang_simulation import parse, stalled
from msgspec.structs import replace

from firstfault.analysis.case import Case
from firstfault.analysis.questions import hang
from firstfault.analysis.state.unnamed import without_copies
from firstfault.analysis.state.works import spoken
from firstfault.model.evidence import Event, Frame, GlobalRank, PythonException, SourceId, Span, Who
from firstfault.model.words import Category, Strength

WHERE = "/opt/venv/lib/python3.11/site-packages/torch/distributed/"


def with_traceback(call, *, library=WHERE + "distributed_c10d.py"):
    """A stall of rank 5 in an all-reduce, and the stack with which rank 5 ended."""
    scene = parse(stalled(16, "2.6", {5}).lines(random.Random(1)), step=100)
    frames = (
        Frame("/srv/run/train.py", 40, "main"),
        Frame(WHERE + "c10d_logger.py", 81, "wrapper"),
        Frame(library, 3949, call),
    )
    raised = PythonException(
        kind="RuntimeError", message="Connection closed by peer", frames=frames, user_frame=frames[0]
    )
    event = Event(
        signature="gloo.peer_closed",
        span=Span(SourceId(0), 10**6, 10, 10**4, 1),
        text="RuntimeError: Connection closed by peer",
        who=Who(rank=GlobalRank(5)),
        exception=raised,
    )
    seen = replace(scene.case.seen, events=(*scene.case.seen.events, event))
    return replace(scene, case=Case(seen, scene.case.library), events=(*scene.events, event))


def test_a_rank_inside_another_collective_did_not_stall_but_took_another_path():
    answer = hang.ask(with_traceback("all_gather"))
    assert answer is not None
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.strength is Strength.SUPPORTED
    assert answer.culprits.ranks == (5,)
    assert "all_gather" in answer.summary


@pytest.mark.parametrize(
    ("call", "library"),
    [("all_reduce", WHERE + "distributed_c10d.py"), ("all_gather", "/srv/run/gather.py"), ("wait", WHERE + "x.py")],
)
def test_the_same_collective_or_code_that_is_none_proves_nothing(call, library):
    answer = hang.ask(with_traceback(call, library=library))
    assert answer is not None
    assert answer.category is Category.DATA_LOADING_STALL


WHAT = "  what():  [PG ID 0 PG GUID 0(default_pg) Rank {i}] Process group watchdog thread terminated with exception: [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for {ms} milliseconds before timing out."
OWN = "[rank{r}]:[E415 08:00:00.000000001 ProcessGroupNCCL.cpp:629] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for {ms} milliseconds before timing out."


def test_copies_of_a_work_without_its_rank_are_dropped_and_strangers_are_kept():
    lines = [OWN.format(r=3, ms=600011), WHAT.format(i=3, ms=600011), WHAT.format(i=4, ms=600047)]
    kept = without_copies(spoken(parse({0: lines})).works)
    assert sorted((w.rank, w.ran_ms) for w in kept if w.rank is not None) == [(3, 600011)]
    assert [w.ran_ms for w in kept if w.rank is None] == [600047]
