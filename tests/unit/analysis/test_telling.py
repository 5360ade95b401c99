"""What is told beside the verdict: lines to quote, moments, ranks that were seen, and why nobody is named."""

from __future__ import annotations

from incident import event, sample, scene_of
from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.conclude import ask
from firstfault.analysis.telling import key_events, moments, present, shared
from firstfault.model.evidence import PythonException

OOM = event("gpu.oom", 5, rank=0, at=100.0)
WAIT = event("nccl.timeout", 10, rank=1, at=700.0)
EXIT = event("launcher.exit", 50, rank=0, at=712.0, fields={"exit_code": "1"})


def test_a_wait_and_an_exit_are_quoted_beside_the_fault():
    exit_ = replace(EXIT, text="rank 0 exited with code 1")
    scene = scene_of(OOM, WAIT, exit_)
    quoted = key_events(scene, ask(scene))
    assert quoted[0].span == OOM.span
    assert {e.span for e in quoted} >= {WAIT.span, exit_.span}


def test_a_bare_class_name_comes_last():
    bare = replace(event("code.crash", 3, rank=0), exception=PythonException(kind="ChildFailedError", message=""))
    scene = scene_of(OOM, WAIT)
    answer = replace(ask(scene), proof=(bare, OOM))
    assert key_events(scene, answer)[0] == OOM
    assert key_events(scene, answer)[-1] == bare


def test_moments_are_the_furthest_step_and_the_last_lines():
    saved = event("run.saved", 8, at=50.0)
    scene = scene_of(
        event("run.saved", 2, at=20.0),
        saved,
        OOM,
        EXIT,
        progress=(sample(0, 1, 10, at=10.0), sample(0, 3, 30, at=30.0)),
    )
    found = moments(scene)
    assert (found.step.step, found.checkpoint.span, found.last.span) == (30, saved.span, EXIT.span)
    nothing = moments(scene_of())
    assert (nothing.step, nothing.checkpoint, nothing.last) == (None, None, None)


def test_ends_on_clocks_that_nothing_joins_have_no_last_one():
    utc = replace(event("launcher.exit", 60, source=1, rank=1), when=replace(EXIT.when, zone="Z"))
    assert moments(scene_of(OOM, EXIT, utc)).last is None


def test_the_size_of_a_group_bounds_the_number_of_ranks():
    scene = scene_of(OOM, event("run.who", 1, fields={"size": "4"}))
    here = present(scene, ask(scene))
    assert (here.seen, here.at_least) == ((0,), 4)


def folders(*paths, events=()):
    return scene_of(*events, names=paths)


def test_a_launchers_folder_is_a_rank_on_one_machine_only():
    one = folders("run/attempt_0/0/stderr.log", "run/attempt_0/1/stderr.log")
    assert present(one, ask(one)).seen == (0, 1)
    two = folders("a/attempt_0/0/stderr.log", "b/attempt_0/0/stderr.log")
    assert present(two, ask(two)).seen == ()
    other = folders("run/attempt_0/0/stderr.log", events=(event("gpu.oom", 5, rank=9),))
    assert present(other, ask(other)).seen == (9,)


def test_nobody_is_told_from_not_known():
    full = scene_of(replace(event("shared.full", 5, rank=1), text="OSError: no space left"))
    assert shared(full, ask(full))
    hung = scene_of(WAIT)
    assert not shared(hung, ask(hung))
    named = scene_of(OOM, EXIT)
    assert ask(named).culprits.anybody
    assert not shared(named, ask(named))
    unplaced = scene_of(event("code.crash", 5), EXIT)
    answer = replace(ask(unplaced), culprits=Named())
    assert not shared(unplaced, answer)


def test_an_unknown_exception_of_one_rank_is_not_said_to_be_everybodys():
    def raised(*ranks):
        exception = PythonException(kind="ValueError", message="too long")
        lines = [replace(event("python.exception", 5 + r, rank=r), exception=exception) for r in ranks]
        scene = scene_of(*lines, EXIT)
        return scene, ask(scene)

    one, many = raised(3), raised(0, 1, 2, 3)
    assert one[1].first_failed.ranks == (3,)
    assert not one[1].culprits.anybody
    assert not shared(*one)
    assert shared(*many)
