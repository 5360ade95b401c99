"""What must not grow faster than the job: each of these took hours at 16,384 ranks when it was quadratic."""

from __future__ import annotations

import random
import time

import pytest
from msgspec.structs import replace

from firstfault.analysis.case import Case, Observations
from firstfault.analysis.state.groups import Cell, Group
from firstfault.analysis.suspects import ELSEWHERE, nature_of, of_roles, went_on
from firstfault.model.evidence import Event, GlobalRank, ProgressSample, PythonException, SourceId, Span, When, Who
from firstfault.model.words import Role
from firstfault.signatures.library import load_library

LIBRARY = load_library()


def event(source: int, at: float) -> Event:
    return Event(
        signature="gpu.out_of_memory", span=Span(SourceId(source), 10_000, 10, 90, 1), text="CUDA out of memory", who=Who(),
        when=When(at, at + 1.0),
    )  # fmt: skip


def slow_went_on(samples: list[ProgressSample], of: Event) -> bool:
    """The rule for other sources, word by word."""
    for source in {s.source for s in samples} - {of.span.source}:
        own = sorted((s for s in samples if s.source == source), key=lambda s: s.offset)
        last = own[-1].when
        if (last.zone, last.dated, last.yeared) != (
            of.when.zone,
            of.when.dated,
            of.when.yeared,
        ) or last.earliest is None:
            continue
        if last.latest is None or last.latest - last.earliest > 1.5:
            continue
        later = {s.step for s in own if s.when.earliest is not None and s.when.earliest > of.when.latest + ELSEWHERE}
        if len(later) > 1:
            return True
    return False


@pytest.mark.parametrize("seed", range(40))
def test_progress_elsewhere_acquits_as_the_rule_says(seed):
    rng = random.Random(seed)
    samples = []
    for source in range(4):
        at = rng.uniform(0, 100)
        for n in range(rng.randrange(1, 5)):
            at += rng.uniform(0, 60)
            when = rng.choice(
                [When(at, at + 1.0), When(at, at + 1.0), When(), When(at, at + 1.0, "Z"), When(at, at + 9.0)]
            )
            samples.append(
                ProgressSample(SourceId(source), n + 1, n * 100, step=rng.choice([n, n, n - 1, None]), when=when)
            )
    case = Case(Observations(sources=(), events=(), progress=tuple(samples)), LIBRARY)
    for source in range(5):
        for at in (0.0, 30.0, 60.0, 90.0, 120.0, 200.0):
            one = event(source, at)
            if case.tracks.get(SourceId(source)) is not None and case.tracks[SourceId(source)].went_on_after(10_000):
                continue
            assert went_on(case, one) is slow_went_on(samples, one), (source, at)


def test_asking_thousands_of_sources_about_thousands_of_events_takes_a_moment():
    samples = tuple(
        ProgressSample(SourceId(s), n + 1, n * 100, step=n, when=When(10.0 * n, 10.0 * n + 1))
        for s in range(8000)
        for n in (1, 2, 3)
    )
    case = Case(Observations(sources=(), events=(), progress=samples), LIBRARY)
    start = time.process_time()
    assert not any(went_on(case, event(s, 25.0)) for s in range(8000))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("roles", [{Role.CAUSE}, {Role.EFFECT, Role.TEARDOWN}, {Role.CONTEXT}])
def test_lines_of_a_role_are_those_whose_nature_has_it(roles):
    rng = random.Random(3)
    names = sorted(n for n in LIBRARY.by_id if n.startswith(("gpu.", "nccl.", "python.", "process.", "launcher.")))
    told = [None, None, PythonException(kind="torch.OutOfMemoryError", message="CUDA out of memory")]
    events = [
        replace(event(n % 5, float(n)), signature=rng.choice(names), span=Span(SourceId(n % 5), n, 1, n + 1, 1), exception=rng.choice(told))
        for n in range(3000)
    ]  # fmt: skip
    case = Case(Observations(sources=(), events=tuple(events)), LIBRARY)
    also = frozenset(names[::9])
    wanted = [e for e in case.events if e.signature in also or nature_of(case, e).role in roles]
    assert of_roles(case, roles, also) == wanted


def waiting(rank: int) -> Cell:
    return Cell(rank=GlobalRank(rank), group_rank=rank, enqueued=8, completed=6, work=None, state=None)


def test_what_a_group_remembers_is_not_that_of_another_made_from_it():
    group = Group(
        name="0", desc=None, cells={GlobalRank(1): waiting(1)}, size=2, size_event=None, at_least=2, comparable=True
    )
    assert [c.rank for c in group.pending] == [1]
    assert {at: [c.rank for c in cells] for at, cells in group.positions.items()} == {7: [1]}
    more = replace(group, cells={GlobalRank(0): waiting(0), **group.cells})
    assert [c.rank for c in more.pending] == [0, 1]
    assert {at: [c.rank for c in cells] for at, cells in more.positions.items()} == {7: [0, 1]}
