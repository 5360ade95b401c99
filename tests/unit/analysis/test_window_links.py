"""What the chain tells of the time of a wait: last words, last and slower steps, trouble; and how failed ranks left the loop."""

from __future__ import annotations

import incident
import pytest
from incident import LIBRARY, event, sample, scene_of, signature
from msgspec.structs import replace

from firstfault.analysis.chain import build_chain
from firstfault.analysis.conclude import ask
from firstfault.analysis.window_links import window_links
from firstfault.model.words import Category, Domain, Mark, Role
from firstfault.signatures.library import Library

OUT = 1000.0
RAN = {"op": "ALLREDUCE", "seq": "9", "ran_ms": "600000"}
WAITS = [event("nccl.timeout", 90 + r, rank=r, at=OUT + r, fields=RAN) for r in range(1, 4)]


@pytest.fixture(autouse=True)
def library(monkeypatch):
    own = [
        *LIBRARY.signatures,
        signature("storage.retry", Role.CAUSE, marks=[Mark.RETRY], category=Category.STORAGE_IO, domain=Domain.DATA),
        signature("ckpt.begin", Role.CONTEXT, marks=[Mark.CHECKPOINT_BEGIN]),
        signature("nccl.down", Role.EFFECT),
        signature("launcher.failed", Role.EFFECT),
        signature("slurm.task_exit", Role.EFFECT, marks=[Mark.DEATH]),
    ]
    monkeypatch.setattr(incident, "LIBRARY", Library(own, {}))


def links(*events, **more):
    scene = scene_of(*events, *WAITS, **more)
    return window_links(scene, ask(scene))


def told(*events, **more):
    return [link.what for link in links(*events, **more)]


def test_trouble_in_the_time_of_the_wait_is_told_with_its_ranks_and_lines():
    retries = [event("storage.retry", 40 + n, rank=1, at=500.0 + n) for n in range(2)]
    found = links(*retries, event("ckpt.begin", 30, rank=2, at=390.0))
    assert len(found) == 1
    assert "reads that were tried again (2 lines, rank 1)" in found[0].what
    assert "a save of a checkpoint began (1 line, rank 2)" in found[0].what
    assert [e.span.line for e in found[0].events] == [30, 40]
    assert "not shown" in found[0].why


@pytest.mark.parametrize("at", [100.0, 1001.5])
def test_trouble_long_before_the_wait_or_after_it_is_none_of_the_window(at):
    assert told(event("storage.retry", 40, rank=0, at=at)) == []


def steps(*times, first=1):
    return tuple(sample(1, 10 + n, first + n, at=at) for n, at in enumerate(times))


def test_the_last_step_dates_how_far_the_job_had_come():
    found = links(progress=steps(300.0, 310.0))
    assert found[0].what == "The last step that was told is 2"
    assert [s.step for s in found[0].samples] == [2]


def test_step_zero_is_a_step():
    assert told(progress=(sample(1, 10, 0, at=300.0),)) == ["The last step that was told is 0"]


def test_steps_that_grew_slower_before_the_wait_are_told():
    even = [100.0 + 10 * n for n in range(10)]
    slow = [even[-1] + 25 * (n + 1) for n in range(3)]
    what = told(progress=steps(*even, *slow))[0]
    assert "the last steps before the wait took 25.0 s each, against 10.0 s before" in what


@pytest.mark.parametrize("last", [(10.0, 10.0, 10.0), (10.0, 10.0, 40.0), (11.0, 11.0, 11.0)])
def test_even_steps_or_one_slow_one_are_not_slower(last):
    times = [100.0 + 10 * n for n in range(10)]
    for took in last:
        times.append(times[-1] + took)
    assert "against" not in told(progress=steps(*times))[0]


def test_last_words_of_a_rank_stand_before_the_wait():
    word = event("rank.last_words", 20, rank=0, at=400.0)
    scene = scene_of(*WAITS)
    answer = replace(ask(scene), said=((0, word),))
    chain = build_chain(scene, answer)
    assert chain[1].what.startswith("Rank 0 said last")
    assert chain[1].events == (word,)
    assert any("Ranks waited" in link.what for link in chain[2:])


def test_without_a_wait_there_is_no_window():
    scene = scene_of(event("gpu.oom", 5, rank=0, at=100.0), event("storage.retry", 3, rank=0, at=90.0))
    assert window_links(scene, ask(scene)) == ()


def test_a_failed_rank_that_was_reported_before_the_wait_left_the_loop_then():
    scene = scene_of(
        event("gpu.oom", 5, rank=0, at=100.0),
        event("launcher.exit", 6, rank=0, at=102.0, fields={"exit_code": "-9"}),
        *WAITS,
    )
    chain = build_chain(scene, ask(scene))
    assert [link.events[0].signature for link in chain] == ["gpu.oom", "launcher.exit", "nccl.timeout"]
    assert chain[1].what == "Rank 0 ended (SIGKILL) and came to no further collective"
    assert "rank 0 did not come to it" in chain[2].why


def test_watchdog_launcher_and_scheduler_each_have_their_link():
    scene = scene_of(
        event("code.crash", 5, rank=0, at=100.0),
        *WAITS,
        event("nccl.down", 120, rank=1, at=1001.0),
        event("nccl.abort", 121, rank=1, at=1002.0),
        event("launcher.stop", 122, at=1003.0),
        event("launcher.failed", 123, at=1004.0),
        event("slurm.task_exit", 125, at=1005.0),
    )
    chain = build_chain(scene, ask(scene))
    assert [link.events[0].signature for link in chain] == [
        "code.crash",
        "nccl.timeout",
        "nccl.down",
        "nccl.abort",
        "launcher.stop",
        "launcher.failed",
        "slurm.task_exit",
    ]
    assert "launcher" in chain[-2].why
    assert "scheduler" in chain[-1].why
