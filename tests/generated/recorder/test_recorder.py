"""Simulated recorders: every fault, on meshes of several shapes, in every form of a dump; nobody innocent is ever named."""

from __future__ import annotations

import itertools
import json
import pickle

import pytest

from firstfault.analysis.case import Observations
from firstfault.analysis.conclude import conclude
from firstfault.readers.flight_recorder import read_dump
from firstfault.signatures.library import load_library
from recorder.faults import FAULTS, Incident, frozen, other_op, stopped
from recorder.simulate import Form, Group, Room, dump, training, write

LIBRARY = load_library(())
FORMS = {
    "2.10": Form(),
    "2.9-active-only": Form(version="2.9", active_only=True, frames=False),
    "2.4": Form(version="2.4"),
    "json": Form(as_json=True),
    "without-counters": Form(counters=False),
    "active-only-without-counters": Form(active_only=True, counters=False),
    "small-ring": Form(ring=9),
    "tiny-ring": Form(ring=4),
}
SHAPES = [(2, 2, 2), (1, 1, 3), (4, 2, 2), (1, 4, 2), (1, 1, 8), (2, 1, 4)]


def dumps_of(incident: Incident, form: Form):
    found = []
    for rank in incident.room.ranks:
        if rank.number not in incident.without:
            top = dump(incident.room, rank, form)
            raw = json.dumps(top).encode() if form.as_json else pickle.dumps(top, 2)
            found.append(read_dump(raw, len(found), f"nccl_trace_rank_{rank.number}", fast=True))
    return tuple(found)


def verdict(dumps):
    return conclude(Observations(sources=(), events=(), dumps=dumps), LIBRARY).answer


def check(incident: Incident, form: Form, *, must: bool) -> None:
    answer = verdict(dumps_of(incident, form))
    named = tuple(map(int, answer.culprits.ranks))
    assert set(named) <= set(incident.culprits), answer.summary
    assert str(answer.category) in {*incident.categories, "unknown"}, answer.summary
    if must and incident.sure:
        assert named == incident.culprits, answer.summary


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fault", FAULTS)
def test_who_did_it_is_named_and_nobody_else(fault, form):
    for shape, seed in itertools.product(SHAPES, range(2)):
        if fault == "circle" and shape[:2] == (1, 1):
            continue  # it takes two groups
        # What a tiny ring has overwritten cannot be known; then nobody at all may be named.
        check(FAULTS[fault](shape, seed), FORMS[form], must=form != "tiny-ring")


@pytest.mark.parametrize("form", ["2.10", "2.9-active-only", "json"])
@pytest.mark.parametrize("fault", [stopped, frozen, other_op])
def test_two_at_once_are_both_named(fault, form):
    for shape in ((2, 2, 4), (1, 1, 16), (4, 2, 2)):
        for seed in range(2):
            check(fault(shape, seed, 2), FORMS[form], must=fault is not frozen or shape[1] == 1)


@pytest.mark.parametrize("config", [True, False])
def test_gloo_keeps_no_states_and_the_stopped_rank_is_found_all_the_same(config):
    for seed in range(4):
        check(stopped((1, 1, 6), seed), Form(backend="gloo", config=config), must=True)
        check(other_op((1, 1, 6), seed), Form(backend="gloo", config=config), must=True)


@pytest.mark.parametrize("world", [2, 3, 5, 64, 512, 4096])
def test_any_number_of_ranks(world):
    groups = {"0": Group("0", "default_pg", tuple(range(world)))}
    room = Room(groups, training(groups, world, 3))
    pick = world * 2 // 3
    for rank in room.ranks:
        # One collective after the other, all but one rank in the third: no need to simulate.
        for work in rank.program[: 2 if rank.number == pick else 3]:
            rank.queue.clear()
            room._issue(rank)
            rank.issued[-1].work is work  # noqa: B015
    for rank in room.ranks:
        for entry in rank.issued[:2]:
            entry.started = entry.done = entry.created + 1
    check(Incident("stopped", room, (pick,), ("data_loading_stall",)), Form(frames=False), must=world > 2)


def test_files_on_disk_give_the_same(tmp_path):
    from firstfault.pipelines.diagnose import diagnose

    incident = stopped((2, 2, 2), 5)
    write(incident.room, tmp_path / "a", Form())
    write(incident.room, tmp_path / "b", Form(as_json=True), name="comm_lib_trace_rank_{}.json")
    for folder in ("a", "b"):
        found = diagnose([tmp_path / folder])
        assert found.verdict.culprits.ranks == list(incident.culprits)
        assert found.verification.withdrawn == []


@pytest.mark.parametrize("fault", ["stopped", "frozen", "other_size"])
def test_the_order_of_dumps_changes_nothing(fault):
    dumps = dumps_of(FAULTS[fault]((2, 2, 2), 1), Form())
    assert verdict(dumps) == verdict(dumps[::-1]) == verdict((*dumps[3:], *dumps[:3]))


@pytest.mark.parametrize("fault", ["stopped", "other_op", "late"])
def test_fewer_dumps_never_make_surer(fault):
    incident = FAULTS[fault]((2, 2, 2), 1)
    dumps = dumps_of(incident, Form())
    whole = verdict(dumps).culprits.strength
    for gone in range(len(dumps)):
        answer = verdict(tuple(d for i, d in enumerate(dumps) if i != gone))
        assert answer.culprits.strength.level <= whole.level
        assert set(map(int, answer.culprits.ranks)) <= {*incident.culprits, gone}
