"""Who is named for a root: the origin by the blame of its kind, never a victim, and nobody where all failed alike."""

from __future__ import annotations

import incident
import pytest
from incident import LIBRARY, event, failure, sample, scene_of, signature
from msgspec.structs import replace

from firstfault.analysis.conclude import ask
from firstfault.analysis.culprits import all_alike, culprits, first_failed
from firstfault.model.evidence import PythonException, Who
from firstfault.model.words import Blame, Category, Role, Strength
from firstfault.signatures.library import Library


def named(*events, key, **more):
    scene = scene_of(*events, **more)
    suspect = next(s for s in (*scene.suspects, *scene.weak) if s.nature.key == key)
    return culprits(scene.case, scene.roster, suspect, scene.complete)


def world(size):
    return event("run.world", 1, fields={"world": str(size)})


def test_rank_zero_of_many_is_named_with_its_host():
    found = named(world(8), event("gpu.oom", 5, rank=0, host="n1"), key="gpu.oom")
    assert (found.ranks, found.hosts, found.strength) == ((0,), ("n1",), Strength.ESTABLISHED)


def test_a_fault_of_the_code_names_the_rank_that_crashed_as_a_possibility():
    assert named(world(8), event("code.crash", 5, rank=3), key="code.crash").strength is Strength.POSSIBLE


@pytest.mark.parametrize(("hit", "anybody"), [(1, True), (2, False), (5, False), (8, False)])
def test_a_fault_of_several_ranks_at_once_is_no_ranks_own(hit, anybody):
    events = [event("gpu.oom", 5 + r, rank=r) for r in range(hit)]
    assert named(world(8), *events, key="gpu.oom").anybody is anybody


def test_lines_without_a_rank_count_among_those_that_were_hit():
    events = [event("gpu.oom", 5, rank=0), *(event("gpu.oom", 10 + n) for n in range(7))]
    scene = scene_of(world(8), *events)
    assert all_alike(scene.suspects[0], scene.complete)


def test_one_line_is_never_all_alike():
    scene = scene_of(world(1), event("gpu.oom", 5, rank=0))
    assert not all_alike(scene.suspects[0], scene.complete)


def test_a_fault_of_a_machine_names_the_machine():
    found = named(world(8), event("host.disk", 5, rank=3, host="n1"), key="host.disk")
    assert (found.ranks, found.hosts) == ((), ("n1",))


def test_a_fault_of_a_machines_gpu_names_its_rank_too():
    found = named(world(8), event("gpu.fell_off", 5, rank=3, host="n1"), key="gpu.fell_off")
    assert (found.ranks, found.hosts) == ((3,), ("n1",))


def test_a_machine_that_no_line_names_is_not_named():
    assert not named(world(8), event("host.disk", 5, rank=3), key="host.disk").anybody


def test_the_victim_that_reports_a_lost_peer_is_not_named_but_the_peer_is():
    line = event("net.peer", 5, rank=1, host="victim", fields={"peer_host": "gone"})
    found = named(world(8), line, key="net.peer")
    assert (found.ranks, found.hosts) == ((), ("gone",))


def test_a_fault_of_a_store_names_the_target_or_nobody():
    found = named(event("store.target", 5, rank=1, host="n1", fields={"target": "t7"}), key="store.target")
    assert (found.ranks, found.hosts, found.storage_nodes) == ((), (), ("t7",))
    assert not named(event("store.target", 5, rank=1, host="n1"), key="store.target").anybody


def test_a_fault_that_all_share_names_nobody():
    assert not named(event("shared.full", 5, rank=1, host="n1"), key="shared.full").anybody


def first(*events, key, own=()):
    scene = scene_of(*events)
    suspect = next(s for s in scene.suspects if s.nature.key == key)
    others = tuple(s for s in scene.suspects if s is not suspect)
    return first_failed(scene.roster, suspect, others, own).ranks


def test_those_who_said_the_root_failed_first():
    assert first(event("gpu.oom", 5, rank=0), event("code.crash", 9, rank=4), key="gpu.oom") == (0,)


def test_where_the_root_names_no_rank_its_first_victims_failed_first():
    assert first(event("shared.full", 5), event("code.crash", 9, rank=4), key="shared.full") == (4,)


def test_a_rank_whose_line_carries_no_name_is_not_swapped_for_another():
    assert first(event("gpu.oom", 5), event("code.crash", 9, rank=4), key="gpu.oom") == ()
    assert first(event("gpu.oom", 5), event("code.crash", 9, rank=4), key="gpu.oom", own=(2,)) == (2,)


def test_nobody_is_known_to_have_failed_first():
    assert first(event("shared.full", 5), key="shared.full") == ()


def test_who_it_was_by_the_launchers_list_alone_is_never_established():
    said = event("gpu.oom", 5, rank=3)
    silent = replace(event("gpu.oom", 5), exception=PythonException(kind="OutOfMemoryError", message="x"))
    exits = (failure(rank=3, code=1),)
    assert ask(scene_of(said, failures=exits)).culprits.strength is Strength.ESTABLISHED
    answer = ask(scene_of(silent, failures=exits))
    assert (answer.culprits.ranks, answer.culprits.strength) == ((3,), Strength.SUPPORTED)


def test_more_failed_processes_than_lines_leave_the_line_to_nobody():
    exits = (failure(rank=3, code=1), failure(rank=4, code=1))
    assert ask(scene_of(event("gpu.oom", 5), failures=exits)).culprits.ranks == ()


def test_a_culprit_whose_machine_no_line_maps_asks_for_what_would_tell_it():
    fault = event("gpu.oom", 5, rank=6)
    others = [event("run.start", 1 + r, rank=r) for r in range(4)]
    report = event("launcher.exit", 9, who=Who(rank=0, local_rank=0, host="n1"))
    answer = ask(scene_of(fault, *others, report))
    assert (answer.culprits.ranks, answer.culprits.hosts) == ((6,), ())
    assert any("on which host rank 6 ran" in line for line in answer.collect)
    stated = ask(scene_of(event("gpu.oom", 5, rank=6, host="n2"), *others, report))
    assert stated.culprits.hosts == ("n2",)
    assert not any("on which host" in line for line in stated.collect)


def spawned(monkeypatch, *progress):
    """One process of `spawn` fails on its data; the call ends the others."""
    own = [
        *LIBRARY.signatures,
        signature("data.bad", depth=60, category=Category.DATA, blame=Blame.RANK),
        signature("launcher.spawn_failed", Role.EFFECT),
    ]
    monkeypatch.setattr(incident, "LIBRARY", Library(own, {}))
    lines = (event("data.bad", 50, rank=1), event("launcher.spawn_failed", 60))
    return named(world(4), *lines, key="data.bad", progress=progress).ranks


def test_at_the_start_all_spawned_processes_may_read_the_same_file(monkeypatch):
    assert spawned(monkeypatch) == ()


def test_after_a_step_the_data_is_the_ranks_own(monkeypatch):
    assert spawned(monkeypatch, sample(0, 20, 1)) == (1,)
    assert spawned(monkeypatch, sample(1, 80, 1)) == (1,)
