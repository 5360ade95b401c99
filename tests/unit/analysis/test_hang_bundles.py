"""Works of groups without names: a number that is not told is no 0, and the order of recorded calls needs a time."""

from __future__ import annotations

from types import SimpleNamespace

from incident import event

from firstfault.analysis.state.recorder.calls import _began
from firstfault.analysis.state.unnamed import bundles
from firstfault.analysis.state.works import Work


def work(seq, rank):
    return Work(
        event=event("nccl.timeout", 1, rank=rank),
        rank=rank,
        group_rank=None,
        group=None,
        desc=None,
        op="ALLREDUCE",
        seq=seq,
        numel_in=None,
        numel_out=None,
        shape=None,
        timeout_ms=1000,
        ran_ms=1001,
    )


def test_a_work_without_a_number_is_not_put_beside_the_first_numbers():
    found = bundles([work(None, 0), work(3, 1), work(4, 2)])
    assert [[w.seq for w in b] for b in found] == [[3, 4], [None]]


def test_where_no_line_has_a_number_nothing_is_torn_apart():
    assert len(bundles([work(None, 0), work(None, 1)])) == 1


def test_number_zero_is_a_number():
    assert [[w.seq for w in b] for b in bundles([work(0, 0), work(5000, 1)])] == [[0], [5000]]


def made(*times):
    return SimpleNamespace(sides=(("all_reduce", tuple(SimpleNamespace(created=t) for t in times)),))


def test_calls_of_which_no_time_is_recorded_are_not_the_earliest():
    assert _began(made(5, 9)) < _began(made(0, 0))
    assert _began(made(0, 7)) == (False, 7)
