"""Quick readings are shown where they would have named another than the verdict does, and only there."""

from __future__ import annotations

import pytest
from incident import event, failure, scene_of
from msgspec.structs import replace

from firstfault.analysis.conclude import ask
from firstfault.analysis.naive import naive_readings


def readings(*events, **more):
    scene = scene_of(*events, **more)
    return {n.reading: n for n in naive_readings(scene, ask(scene))}


OOM = event("gpu.oom", 5, rank=0, at=100.0)
WATCHDOG = event("nccl.timeout", 9, rank=3, at=700.0)


def test_the_first_watchdog_is_a_waiter():
    found = readings(OOM, WATCHDOG, event("nccl.timeout", 10, rank=2, at=800.0))["first_watchdog_line"]
    assert "Rank 3" in found.says
    assert found.event.span == WATCHDOG.span


def test_the_first_watchdog_goes_by_time_and_not_by_place():
    early = event("nccl.timeout", 1, source=1, rank=6, at=650.0)
    assert "Rank 6" in readings(OOM, WATCHDOG, early)["first_watchdog_line"].says


def test_no_reading_misleads_that_names_the_culprit_itself():
    assert readings(OOM) == {}
    assert "launcher_root_cause" not in readings(OOM, failures=(failure(rank=0, code=1, root=True),))


def test_the_last_error_is_shown_where_it_is_another():
    found = readings(OOM, event("launcher.exit", 20, rank=5, at=900.0))["last_error"]
    assert "launcher.exit" in found.says


@pytest.mark.parametrize("rank", [1, 7])
def test_a_launcher_that_blames_another_rank(rank):
    found = readings(OOM, failures=(failure(rank=rank, code=1, root=True), failure(rank=0, code=1)))
    assert f"ank {rank}" in found["launcher_root_cause"].says
    assert found["launcher_root_cause"].failure.who.rank == rank


def test_an_entry_that_the_launcher_does_not_call_the_root_is_no_reading():
    assert "launcher_root_cause" not in readings(OOM, failures=(failure(rank=7, code=1),))


def test_a_launcher_is_not_called_wrong_where_nobody_else_is_known():
    scene = scene_of(event("shared.full", 5), failures=(failure(rank=3, code=1, root=True), failure(rank=4, code=1)))
    answer = ask(scene)
    assert not answer.culprits.ranks
    assert not answer.first_failed.ranks
    assert "launcher_root_cause" not in {n.reading for n in naive_readings(scene, answer)}


def test_the_most_tempting_reading_comes_first():
    scene = scene_of(OOM, WATCHDOG, failures=(failure(rank=3, code=1, root=True),))
    assert [n.reading for n in naive_readings(scene, ask(scene))][:2] == ["launcher_root_cause", "first_watchdog_line"]


def test_an_error_above_the_trigger_that_follows_from_it_is_named():
    scene = scene_of(OOM, event("code.crash", 3, rank=0, at=100.0))
    answer = ask(scene)
    crash = next(e for e in scene.events if e.signature == "code.crash")
    answer = replace(answer, trigger=OOM, follows=((crash, "it follows from it"),))
    found = {n.reading: n for n in naive_readings(scene, answer)}["first_error"]
    assert "code.crash" in found.says
    assert found.dropped_because == "it follows from it"


def test_what_a_good_run_survived_is_told_with_its_number():
    oom = [event("gpu.oom", 5 + n, rank=0, count=7, ordinal=n) for n in range(2)]
    found = readings(*oom, event("run.end", 20))
    assert found["acquitted"].says == "gpu.oom (7 lines)."


def test_of_a_log_that_just_stops_nothing_is_read():
    assert readings() == {}


def test_the_last_error_is_no_misleading_one_where_it_is_the_root_itself():
    end = event("launcher.exit", 20, rank=5, at=900.0)
    scene = scene_of(OOM, end)
    answer = replace(ask(scene), trigger=OOM, fault=next(e for e in scene.events if e.signature == "launcher.exit"))
    assert "last_error" not in {n.reading for n in naive_readings(scene, answer)}
