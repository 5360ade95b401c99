"""Which of several suspects is the root; every case is built from lines whose truth is known."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from firstfault.analysis.case import Case, Observations
from firstfault.analysis.causes import choose
from firstfault.analysis.conclude import ask
from firstfault.analysis.scene import build_scene
from firstfault.analysis.state.attempts import Attempts
from firstfault.analysis.sureness import strength_of
from firstfault.analysis.suspects import another_program
from firstfault.model.evidence import Event, Frame, ProgressSample, PythonException, Source, Span, When, Who
from firstfault.model.patterns import Example, Reference, Signature, SignatureFile
from firstfault.model.words import Blame, Category, Mark, Role, SourceKind, Strength, Tier
from firstfault.signatures.library import Library


def signature(name, role=Role.CAUSE, **more):
    spec = {
        "title": name,
        "tier": Tier.KILLER,
        "role": role,
        "patterns": ["x"],
        "meaning": "m.",
        "not_proof": "n.",
        "sources": [Reference("w", "2026-11")],
        "match": [Example("x")],
        "category": Category.SOFTWARE,
    } | more
    return Signature(name, SignatureFile(**spec))


LIBRARY = Library(
    [
        signature("host.shm_full", depth=80, category=Category.INFRASTRUCTURE, explains=["data.worker_*"]),
        signature("data.worker_bus_error", depth=40),
        signature("gpu.oom", depth=62, category=Category.GPU_CUDA, blame=Blame.RANK, strength=Strength.ESTABLISHED),
        signature("disk.full", depth=80, category=Category.STORAGE_IO, strength=Strength.ESTABLISHED),
        signature("nccl.timeout", Role.EFFECT, depth=10, marks=[Mark.HANG]),
        signature("io.retry", depth=60, fatal=False, marks=[Mark.RETRY], category=Category.STORAGE_IO),
        signature("kernel.link_down", depth=90, fatal=False, category=Category.NETWORK, blame=Blame.HOST),
        signature("code.odd", depth=62, strength=Strength.SUPPORTED, blame=Blame.RANK),
        signature("code.doubtful", depth=62, strength=Strength.POSSIBLE, blame=Blame.RANK),
        signature("nccl.retry", depth=66, category=Category.NETWORK),
        signature("run.end", Role.CONTEXT, marks=[Mark.END]),
        signature("run.start", Role.CONTEXT, marks=[Mark.START]),
        signature("launcher.exit", Role.EFFECT, depth=30, marks=[Mark.DEATH]),
    ],
    {},
)


def event(name, line, *, source=0, rank=None, at=None, host=None, fields=None, line_gap=1):
    when = When() if at is None else When(earliest=at, latest=at)
    return Event(
        signature=name,
        span=Span(source, line * 100, 10, line * line_gap, 1),
        text=name,
        who=Who(rank=rank, host=host),
        when=when,
        fields=fields or {},
    )


def raised(name, line, **more):
    frames = (Frame(file="/app/train.py", line=3, function="step"),)
    return replace(event(name, line, **more), exception=PythonException(kind="ValueError", message="x", frames=frames))


def scene(*events, progress=(), sources=2):
    seen = Observations(
        sources=tuple(Source(id=i, path=f"{i}.log", kind=SourceKind.LOG) for i in range(sources)),
        events=events,
        progress=tuple(ProgressSample(s, line, line * 100, step=step) for s, line, step in progress),
    )
    case = Case(seen, LIBRARY)
    return build_scene(case, Attempts(case), 1)


def root(s):
    choice = choose(s.case, s.suspects, s.hang)
    return None if choice is None else choice.root.nature.key


def test_a_stated_relation_beats_the_order_of_lines():
    s = scene(event("data.worker_bus_error", 1, rank=1), event("host.shm_full", 5, rank=1))
    assert root(s) == "host.shm_full"


def test_the_earlier_stamp_wins_over_depth():
    s = scene(event("gpu.oom", 9, rank=2, at=100.0), event("disk.full", 1, source=1, rank=5, at=160.0))
    assert root(s) == "gpu.oom"


def test_depth_wins_where_time_cannot_tell():
    s = scene(event("gpu.oom", 1, rank=2), event("disk.full", 1, source=1, rank=5))
    assert root(s) == "disk.full"


def test_the_choice_does_not_depend_on_the_order_in_which_events_come():
    events = [
        event("gpu.oom", 3, rank=2),
        event("disk.full", 1, source=1, rank=5),
        event("data.worker_bus_error", 2, rank=1),
        event("nccl.timeout", 8, rank=0, at=50.0),
    ]
    assert len({root(scene(*order)) for order in itertools.permutations(events)}) == 1


def test_what_was_said_after_the_watchdog_is_no_cause():
    s = scene(
        event("disk.full", 1, rank=5, at=1000.0),
        event("nccl.timeout", 2, rank=1, at=900.0),
        event("gpu.oom", 3, rank=2, at=200.0),
    )
    assert root(s) == "gpu.oom"


def test_progress_acquits():
    s = scene(event("gpu.oom", 5, rank=2), progress=[(0, 1, 10), (0, 8, 11), (0, 9, 12)])
    assert s.suspects == ()
    assert [a.nature.key for a in s.acquitted] == ["gpu.oom"]


def test_one_more_redraw_of_a_bar_does_not_acquit():
    s = scene(event("gpu.oom", 5, rank=2), progress=[(0, 1, 10), (0, 8, 11)])
    assert [a.nature.key for a in s.suspects] == ["gpu.oom"]


def test_a_retry_that_was_not_the_last_is_no_suspect():
    s = scene(event("io.retry", 1, fields={"retry": "1", "retries": "5"}))
    assert s.suspects == ()
    assert s.weak == ()


def test_a_good_end_acquits_everything_before_it():
    s = scene(event("gpu.oom", 1, rank=0), event("run.end", 9))
    assert s.outcome.ended == "completed"
    assert s.suspects == ()


def test_a_fault_after_the_end_is_a_failure():
    s = scene(event("run.end", 1), event("gpu.oom", 9, rank=0))
    assert s.outcome.ended == "failed"
    assert root(s) == "gpu.oom"


def test_nothing_at_all_is_not_healthy():
    assert scene(event("run.start", 1)).outcome.ended == "unknown"


@pytest.mark.parametrize("state", ["COMPLETED", "completed"])
def test_the_schedulers_word_for_a_good_end_counts(state):
    seen = Observations(sources=(), events=(), job_state=state)
    case = Case(seen, LIBRARY)
    assert build_scene(case, Attempts(case), 1).outcome.ended == "completed"


def test_attempts_are_told_apart_and_a_start_of_many_ranks_is_one():
    events = [
        event("run.start", 1, rank=0),
        event("run.start", 2, rank=1),
        event("gpu.oom", 3, rank=1),
        event("launcher.exit", 4, rank=1, fields={"exit_code": "1"}),
        event("run.start", 10, rank=0),
        event("run.start", 11, rank=1),
        event("disk.full", 12, rank=0),
    ]
    case = Case(Observations(sources=(Source(id=0, path="0.log", kind=SourceKind.LOG),), events=tuple(events)), LIBRARY)
    attempts = Attempts(case)
    assert attempts.total == 2
    assert root(build_scene(case, attempts, 1)) == "gpu.oom"
    assert root(build_scene(case, attempts, 2)) == "disk.full"


def test_files_of_several_jobs_are_attempts_in_the_order_of_their_numbers():
    sources = tuple(
        Source(id=i, path=name, kind=SourceKind.LOG) for i, name in enumerate(["slurm-66120.out", "slurm-66388.out"])
    )
    events = (event("gpu.oom", 1, source=0, rank=0), event("disk.full", 1, source=1, rank=0))
    case = Case(Observations(sources=sources, events=events), LIBRARY)
    attempts = Attempts(case)
    assert attempts.total == 2
    assert root(build_scene(case, attempts, 2)) == "disk.full"


def test_files_of_one_job_are_one_attempt():
    sources = tuple(
        Source(id=i, path=name, kind=SourceKind.LOG) for i, name in enumerate(["error-4711-0.out", "error-4711-1.out"])
    )
    case = Case(Observations(sources=sources, events=()), LIBRARY)
    assert Attempts(case).total == 1


def chosen(*events):
    s = scene(*events)
    choice = choose(s.case, s.suspects, s.hang)
    assert choice is not None
    return s, choice


def test_two_faults_of_different_ranks_without_an_order_are_a_possibility_and_nobodys():
    events = [raised("gpu.oom", 1, rank=2), raised("code.odd", 1, source=1, rank=5)]
    for order in itertools.permutations(events):
        s, choice = chosen(*order)
        assert strength_of(s.case, choice, fatal=True) is Strength.POSSIBLE
        answer = ask(s)
        assert answer.strength is Strength.POSSIBLE
        assert not answer.culprits.anybody
        assert answer.first_failed.ranks == ()


def test_of_two_faults_of_one_category_the_weaker_word_counts():
    s, choice = chosen(event("code.odd", 1, rank=2), event("code.doubtful", 1, source=1, rank=5))
    assert choice.contested
    assert strength_of(s.case, choice, fatal=True) is Strength.POSSIBLE


def test_two_lines_of_one_rank_speak_for_the_same_fault():
    s, choice = chosen(event("code.odd", 1, rank=2), event("code.doubtful", 3, rank=2))
    assert choice.rivals == ()
    assert strength_of(s.case, choice, fatal=True) is Strength.SUPPORTED


def test_a_lost_peer_is_not_the_origin_of_another_ranks_own_error():
    peer = event("nccl.retry", 1, host="n1", fields={"peer_host": "10.0.0.9"})
    s, choice = chosen(peer, raised("code.odd", 4, rank=9))
    assert [r.nature.key for r in (choice.root, *choice.rivals)] == ["nccl.retry", "code.odd"]
    assert strength_of(s.case, choice, fatal=True) is Strength.POSSIBLE


def test_the_reason_of_the_choice_is_the_true_one():
    early, late = event("gpu.oom", 9, rank=2, at=100.0), event("disk.full", 1, source=1, rank=5, at=160.0)
    _, by_time = chosen(early, late)
    assert by_time.why == "it is the earliest line that shows the root cause"
    assert [why for _, why in by_time.explained] == ["it came later; nothing else ties it to the first fault"]
    _, by_depth = chosen(event("gpu.oom", 1, rank=2), event("disk.full", 1, source=1, rank=5))
    assert "nothing orders" in by_depth.why
    _, alone = chosen(event("gpu.oom", 1, rank=2))
    assert alone.why == "no other line of this failure names a cause"


def test_a_later_fault_of_the_same_rank_is_said_to_be_that():
    _, choice = chosen(event("gpu.oom", 9, rank=2, at=100.0), event("disk.full", 20, rank=2, at=160.0))
    assert [why for _, why in choice.explained] == ["it came later, on a rank that had failed already"]


def test_the_same_answer_whatever_the_files_are_called():
    named, other = raised("gpu.oom", 1, rank=2), raised("code.odd", 1, source=1, rank=5)
    swapped = (raised("gpu.oom", 1, source=1, rank=2), raised("code.odd", 1, rank=5))
    first, second = ask(scene(named, other)), ask(scene(*swapped))
    assert (first.category, first.strength, first.culprits) == (second.category, second.strength, second.culprits)


def test_a_traceback_of_text_that_was_run_is_of_another_program():
    def run(*files):
        frames = tuple(Frame(file=f, line=1, function="<module>") for f in files)
        return replace(event("gpu.oom", 1), exception=PythonException(kind="E", message="", frames=frames))

    assert another_program(run("<string>"))
    assert another_program(run("/tmp/tmpab12_x9z/solution.py", "<string>"))
    assert not another_program(run("<string>", "/app/train.py"))
    assert not another_program(run())
    assert scene(run("<string>")).suspects == ()
    assert len(scene(run("/app/train.py")).suspects) == 1


@pytest.mark.parametrize(
    ("peer", "why"),
    [
        ("n1", "it came later, and names a host that had failed already as its peer"),
        ("n7", "it came later; nothing else ties it to the first fault"),
        (None, "it came later; nothing else ties it to the first fault"),
    ],
)
def test_a_later_line_that_names_the_failed_host_as_its_peer_is_tied_to_it(peer, why):
    fields = {} if peer is None else {"peer_host": peer}
    late = event("disk.full", 20, rank=5, host="n2", at=160.0, fields=fields)
    _, choice = chosen(event("gpu.oom", 9, rank=2, host="n1", at=100.0), late)
    assert [said for _, said in choice.explained] == [why]
