"""The chain: from the root to the exits, each line once, each link with a reason and a line."""

from __future__ import annotations

import itertools

from incident import event, failure, sample, scene_of
from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.chain import LINES, build_chain
from firstfault.analysis.conclude import ask

OOM = event("gpu.oom", 5, rank=0, at=100.0)
WAITS = [event("nccl.timeout", 10 + r, rank=r, at=700.0 + r, fields={"ran_ms": "600000"}) for r in range(1, 8)]
ABORT = event("nccl.abort", 30, rank=1, at=710.0)
STOP = event("launcher.stop", 40, at=711.0)
EXIT = event("launcher.exit", 50, rank=0, at=712.0, fields={"exit_code": "1"})
EVENTS = [OOM, *WAITS, ABORT, STOP, EXIT]


def chain(*events, **more):
    scene = scene_of(*events, **more)
    return build_chain(scene, ask(scene))


def test_the_links_stand_in_the_order_in_which_a_failure_spreads():
    starts = [link.events[0].signature for link in chain(*EVENTS)]
    assert starts == ["gpu.oom", "nccl.timeout", "nccl.abort", "launcher.stop", "launcher.exit"]


def test_every_link_has_a_reason_and_few_lines_that_are_its_spans():
    for link in chain(*EVENTS):
        assert link.why
        assert 0 < len(link.events) <= LINES
        assert link.spans == tuple(e.span for e in link.events)


def test_no_line_stands_in_two_links():
    lines = [e.span for link in chain(*EVENTS) for e in link.events]
    assert len(lines) == len(set(lines))


def test_a_wait_names_all_waiters_and_how_long():
    what = chain(*EVENTS)[1].what
    assert "1-7" in what
    assert "10 min" in what


def test_a_further_fault_is_a_link_behind_the_root():
    links = chain(OOM, event("code.crash", 8, rank=2, at=160.0))
    assert [link.events[0].signature for link in links] == ["gpu.oom", "code.crash"]
    assert "rank 2" in links[1].what


def test_rank_zero_is_said():
    assert "rank 0" in chain(event("shared.full", 1, at=1.0), event("code.crash", 8, rank=0, at=160.0))[1].what


def test_a_run_that_ended_well_has_no_chain():
    assert chain(event("gpu.oom", 1, rank=0), event("run.end", 9)) == ()


def test_nothing_has_no_chain():
    assert chain() == ()
    assert chain(failures=(failure(rank=1, code=1),)) == ()


def test_what_progress_acquitted_is_no_link():
    steps = tuple(sample(0, n, n) for n in (1, 20, 21, 22))
    links = chain(event("gpu.oom", 10, rank=3), event("code.crash", 30, rank=2), progress=steps)
    assert [e.signature for link in links for e in link.events] == ["code.crash"]


def test_the_chain_does_not_depend_on_the_order_of_lines():
    some = [OOM, WAITS[0], ABORT, STOP, EXIT]
    assert (
        len({tuple(e.span for link in chain(*order) for e in link.events) for order in itertools.permutations(some)})
        == 1
    )


def test_the_first_link_says_by_what_its_line_was_chosen():
    crash = event("code.crash", 5, rank=1, at=100.0)
    later = event("gpu.oom", 9, rank=2, at=200.0)
    unordered = event("gpu.oom", 9, source=1, rank=2)
    for other, earliest in ((later, True), (unordered, False)):
        scene = scene_of(crash, other, event("launcher.exit", 20, rank=1, at=300.0))
        answer = ask(scene)
        why = build_chain(scene, answer)[0].why
        assert why == answer.why
        assert ("earliest" in why) is earliest


def test_a_stall_begins_with_the_late_rank_and_claims_no_earliest_line():
    late = event("nccl.timeout", 40, rank=5, at=800.0)
    scene = scene_of(*WAITS, late)
    answer = replace(ask(scene), trigger=late, question="hang", culprits=Named(ranks=(5,)))
    assert "for which the others waited" in build_chain(scene, answer)[0].why


def test_links_follow_their_times():
    late = event("nccl.timeout", 5, source=1, rank=1, at=900.0)
    early = event("nccl.abort", 9, source=2, rank=2, at=300.0)
    assert [link.events[0].signature for link in chain(OOM, late, early)] == ["gpu.oom", "nccl.abort", "nccl.timeout"]


def test_the_end_of_what_failed_stands_before_the_waits_of_others():
    gone = event("launcher.exit", 8, rank=0, at=101.0)
    wait = event("nccl.timeout", 5, source=1, rank=1)
    ended = event("launcher.exit", 9, source=1, rank=1, at=1900.0)
    links = chain(OOM, gone, wait, ended)
    assert [link.events[0] for link in links] == [OOM, gone, wait, ended]


def test_the_headline_is_not_said_again():
    late = event("nccl.timeout", 40, rank=5, at=800.0)
    scene = scene_of(*WAITS, late)
    answer = replace(ask(scene), trigger=late, question="hang", culprits=Named(ranks=(5,)))
    assert build_chain(scene, answer)[0].what == "Rank 5 held up the others"


def test_a_rank_without_a_line_is_not_said_to_have_held_up_the_others():
    scene = scene_of(*WAITS)
    answer = replace(ask(scene), trigger=WAITS[0], question="hang", culprits=Named(ranks=(5,)))
    assert build_chain(scene, answer)[0].what == "Nothing shows rank 5 among those that waited"
