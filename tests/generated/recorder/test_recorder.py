"""Simulated recorders: every fault, on meshes of several shapes, in every form of a dump; nobody innocent is ever named."""

from __future__ import annotations

import itertools
from array import array

import msgspec
import pytest

from firstfault.analysis.case import Observations
from firstfault.analysis.conclude import conclude
from firstfault.signatures.library import load_library
from recorder.faults import FAULTS, Incident, face_to_face, frozen, halted, other_op, stopped
from recorder.reading import dumps_of
from recorder.simulate import Form, Group, Room, mesh, training, write

LIBRARY = load_library(())
FORMS = {
    "2.10": Form(),
    "2.9-active-only": Form(version="2.9", active_only=True, frames=False),
    "2.4": Form(version="2.4"),
    "json": Form(as_json=True),
    "without-counters": Form(counters=False),
    "active-only-without-counters": Form(active_only=True, counters=False),
    "small-ring": Form(ring=12),
    "tiny-ring": Form(ring=4),
}
SHAPES = [(2, 2, 2), (1, 1, 3), (4, 2, 2), (1, 4, 2), (1, 1, 8), (2, 1, 4)]


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


@pytest.mark.parametrize("form", ["2.10", "2.4", "json"])
@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 2, 2), (2, 2, 2)])
def test_two_that_both_receive_are_told_as_a_circle(shape, form):
    answer = verdict(dumps_of(face_to_face(shape, 3), FORMS[form]))
    assert str(answer.category) == "collective_mismatch", answer.summary
    assert "wait for each other in a circle" in answer.summary
    assert not answer.culprits.ranks


@pytest.mark.parametrize("form", ["2.10", "2.9-active-only", "json"])
@pytest.mark.parametrize("fault", [stopped, frozen, other_op])
def test_two_at_once_are_both_named(fault, form):
    for shape in ((2, 2, 4), (1, 1, 16), (4, 2, 2)):
        for seed in range(2):
            check(fault(shape, seed, 2), FORMS[form], must=fault is not frozen or shape[1] == 1)


@pytest.mark.parametrize("form", ["2.10", "2.9-active-only", "json"])
@pytest.mark.parametrize("shape", [(4, 1, 4), (8, 1, 4), (4, 2, 4)])
def test_where_two_devices_halt_no_member_of_the_stuck_collectives_is_blamed_for_them(shape, form):
    for seed in range(4):
        incident = halted(shape, seed, 2)
        answer = verdict(dumps_of(incident, FORMS[form]))
        assert set(map(int, answer.culprits.ranks)) <= set(incident.culprits), answer.summary


@pytest.mark.parametrize("config", [True, False])
def test_gloo_keeps_no_states_and_the_stopped_rank_is_found_all_the_same(config):
    for seed in range(4):
        check(stopped((1, 1, 6), seed), Form(backend="gloo", config=config), must=True)
        check(other_op((1, 1, 6), seed), Form(backend="gloo", config=config), must=True)


@pytest.mark.parametrize("world", [2, 3, 5, 64, 512, pytest.param(4096, marks=pytest.mark.slow)])
def test_any_number_of_ranks(world):
    groups = {"0": Group("0", "default_pg", tuple(range(world)))}
    room = Room(groups, training(groups, world, 3))
    pick = world * 2 // 3
    room.ranks[pick].stops_at = 2
    room.run()
    check(Incident("stopped", room, (pick,), ("data_loading_stall",)), Form(frames=False), must=world > 2)


@pytest.mark.parametrize("version", ["2.4", "2.10"])
@pytest.mark.parametrize("world", [2, 8, 64, 512, pytest.param(4096, marks=pytest.mark.slow)])
def test_without_the_culprits_dump_it_is_at_most_possible_at_any_size(world, version):
    groups = {"0": Group("0", "default_pg", tuple(range(world)))}
    room = Room(groups, training(groups, world, 3))
    pick = world * 2 // 3
    room.ranks[pick].stops_at = 2
    room.run()
    incident = Incident("stopped", room, (pick,), ("data_loading_stall",))
    form = Form(frames=False, version=version)
    answer = verdict(tuple(d for d in dumps_of(incident, form) if d.rank != pick))
    assert tuple(map(int, answer.culprits.ranks)) in {(), (pick,)}
    assert answer.culprits.strength.level <= 1
    assert answer.category == "unknown"
    if world > 2:
        assert tuple(map(int, answer.culprits.ranks)) == (pick,)


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


@pytest.mark.parametrize("form", ["2.10", "2.9-active-only", "json", "small-ring"])
@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "healthy"])
def test_without_the_culprits_dump_nobody_else_is_named(fault, form):
    for shape, seed in itertools.product([(2, 2, 2), (1, 1, 5), (4, 2, 2)], range(2)):
        if fault == "circle" and shape[:2] == (1, 1):
            continue
        incident = FAULTS[fault](shape, seed)
        answer = verdict(tuple(d for d in dumps_of(incident, FORMS[form]) if d.rank not in incident.culprits))
        assert set(map(int, answer.culprits.ranks)) <= set(incident.culprits), answer.summary
        assert answer.culprits.strength.level <= 1, answer.summary


@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "frozen"])  # works of gloo end in the caller
def test_gloo_with_several_groups_blames_nobody_that_may_wait_elsewhere(fault):
    for shape, seed in itertools.product([(2, 2, 2), (1, 1, 5), (4, 2, 4), (1, 4, 2)], range(2)):
        if fault == "circle" and shape[:2] == (1, 1):
            continue
        incident = FAULTS[fault](shape, seed)
        check(incident, Form(backend="gloo"), must=False)


def test_of_two_ranks_the_absent_one_is_at_most_possible():
    # Which of the two went another way has no third witness: one may have issued a collective too many.
    for fault in ("stopped", "half_outside"):
        for seed in range(2):
            answer = verdict(dumps_of(FAULTS[fault]((1, 1, 2), seed), Form()))
            assert answer.culprits.strength.level <= 1
            assert answer.strength.level <= 1


def later(dumps, seconds):
    """The same dumps, so much later."""
    shift = seconds * 1_000_000_000

    def moved(log):
        return msgspec.structs.replace(log, created=array("q", (t + shift if t else 0 for t in log.created)))

    return tuple(
        msgspec.structs.replace(d, latest_ns=d.latest_ns + shift, logs=tuple(map(moved, d.logs))) for d in dumps
    )


@pytest.mark.parametrize("form", ["2.10", "small-ring"])
def test_dumps_of_two_starts_in_one_folder(form):
    first, second = stopped((1, 1, 8), 1), stopped((1, 1, 8), 2)
    assert first.culprits != second.culprits
    old = dumps_of(first, FORMS[form])
    new = later(dumps_of(second, FORMS[form]), 86_400)
    assert tuple(map(int, verdict((*old, *new)).culprits.ranks)) == second.culprits
    # The culprit of the second start left none this time: what it left the time before is no witness of this one.
    left = tuple(d for d in new if d.rank not in second.culprits)
    answer = verdict((*old, *left))
    assert set(map(int, answer.culprits.ranks)) <= set(second.culprits)
    assert answer.culprits.strength.level <= 1
    assert "of an earlier start" in answer.summary
    # One rank alone wrote again: the others' old dumps say nothing of it.
    only = tuple(d for d in new if d.rank == 0)
    assert verdict((*old, *only)).culprits.strength.level <= 1


def test_a_slow_start_and_clocks_that_are_off_are_of_one_start():
    incident = stopped((1, 1, 8), 3)
    dumps = dumps_of(incident, Form())
    apart = tuple(later((d,), 20 * n)[0] for n, d in enumerate(dumps[:5])) + dumps[5:]
    assert tuple(map(int, verdict(apart).culprits.ranks)) == incident.culprits


def test_names_that_contradict_the_content_and_a_file_that_is_cut(tmp_path):
    from firstfault.pipelines.diagnose import diagnose

    incident = stopped((2, 2, 2), 5)
    write(incident.room, tmp_path / "a", Form())
    files = sorted((tmp_path / "a").iterdir())
    culprit = incident.culprits[0]
    # Every file carries the name of the next rank: the content counts, and the doubt is told.
    names = [f.name for f in files]
    for file in files:
        file.rename(file.with_name(file.name + ".held"))
    for file, name in zip(files, [*names[1:], names[0]], strict=True):
        file.with_name(file.name + ".held").rename(file.with_name(name))
    found = diagnose([tmp_path / "a"])
    assert found.verdict.culprits.ranks == [culprit]
    assert all("its name says rank" in row.reason for row in found.coverage)
    # A file that was cut while it was written is damaged, not empty: its rank is missing.
    write(incident.room, tmp_path / "b", Form())
    cut = tmp_path / "b" / f"nccl_trace_rank_{culprit}"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    found = diagnose([tmp_path / "b"])
    assert {row.file: str(row.state) for row in found.coverage}[cut.name] == "damaged"
    assert found.verdict.culprits.strength.level <= 1
    assert set(found.verdict.culprits.ranks) <= {culprit}


def test_versions_of_one_job_may_differ_and_2_10_is_newer_than_2_9(tmp_path):
    incident = stopped((1, 1, 4), 2)
    both = [dumps_of(incident, Form(version=v)) for v in ("2.9", "2.10")]
    assert both[0][0].version < both[1][0].version
    mixed = tuple(both[n % 2][n] for n in range(4))
    assert tuple(map(int, verdict(mixed).culprits.ranks)) == incident.culprits


def by_machine(dumps, minutes):
    """The same dumps, of machines with four ranks each, whose clocks differ by so many minutes."""
    return tuple(later((d,), 60 * minutes[int(d.rank) // 4])[0] for d in dumps)


@pytest.mark.parametrize("form", ["2.10", "2.4", "json"])
@pytest.mark.parametrize("minutes", [(0, 0, 0, 7), (9, 0, 0, 0), (0, 10, 20, 30), (0, 0, 45, 45)])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_short_dumps_of_machines_whose_clocks_are_far_apart_are_of_one_start(form, minutes, seed):
    incident = stopped((1, 1, 16), seed)
    answer = verdict(by_machine(dumps_of(incident, FORMS[form]), minutes))
    assert tuple(map(int, answer.culprits.ranks)) == incident.culprits, answer.summary
    assert "earlier start" not in answer.summary


@pytest.mark.parametrize("form", ["2.10", "2.4"])
def test_a_machine_of_one_rank_whose_clock_is_far_off_is_no_sure_earlier_start(form):
    incident = stopped((1, 1, 16), 3)
    dumps = dumps_of(incident, FORMS[form])
    for pick in range(16):
        moved = tuple(later((d,), 600)[0] if d.rank == pick else d for d in dumps)
        answer = verdict(moved)
        assert tuple(map(int, answer.culprits.ranks)) == incident.culprits, answer.summary
        assert "are of an earlier start of the job" not in answer.summary
        back = tuple(d if d.rank == pick else later((d,), 600)[0] for d in dumps)
        answer = verdict(back)
        assert tuple(map(int, answer.culprits.ranks)) == incident.culprits, answer.summary
        assert ("left out" in answer.summary) == (pick in incident.culprits), answer.summary


@pytest.mark.parametrize("form", ["2.10", "2.4"])
def test_old_files_of_the_ranks_that_wrote_none_are_no_witnesses(form):
    # Each start writes over the files of the one before: only who left none at the last start still has an old one.
    second = stopped((1, 1, 16), 5)
    groups = mesh(1, 1, 16)
    room = Room(groups, training(groups, 16, 2))
    room.ranks[1].stops_at = len(room.ranks[1].program) // 2
    room.run()
    old = dumps_of(Incident("stopped", room, (1,), ()), FORMS[form])
    new = later(dumps_of(second, FORMS[form]), 900)
    for gone in (second.culprits, (*second.culprits, 1), tuple({*range(8), *second.culprits})):
        here = tuple((old if d.rank in gone else new)[int(d.rank)] for d in new)
        answer = verdict(here)
        assert set(map(int, answer.culprits.ranks)) <= set(gone), answer.summary
        assert answer.culprits.strength.level <= 1
        assert "left out" in answer.summary
