"""Who waits for whom over several groups: members, the graph, and the answers that follow from where waiting ends."""

from __future__ import annotations

import random

import pytest
from hang_simulation import GroupSim, Job, Member, default_group, parse

from firstfault.analysis.questions import hang, mismatch
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.picture import picture
from firstfault.analysis.state.waits import End
from firstfault.model.words import Category, Scope, Strength

LAYOUT = "using world size: {world}, data-parallel size: {dp}, context-parallel size: 1, hierarchical context-parallel sizes: None, tensor-model-parallel size: {tp}, pipeline-model-parallel size: {pp}"


def layout(world, tp, pp):
    return LAYOUT.format(world=world, dp=world // tp // pp, tp=tp, pp=pp)


def tensor(i, tp, **members):
    sim = GroupSim(str(100 + i), "TENSOR_MODEL_PARALLEL_GROUP", list(range(i * tp, (i + 1) * tp)))
    sim.members = {int(k[1:]): v for k, v in members.items()}
    return sim


def data(i, world, tp, stuck):
    """Data-parallel group of local number i, of those members that are stuck in it."""
    sim = GroupSim(str(1 + i), "DATA_PARALLEL_GROUP", list(range(i, world, tp)))
    sim.members = {r: Member(5592, 5590, "ALLREDUCE", 4096) for r in sim.ranks if r in stuck}
    return sim


def job(world, groups, **more):
    whole = default_group(world)
    whole.members = {r: Member(7, 7) for r in range(world)}
    return Job(world, "2.6", [whole, *groups], timeout_ms=600000, **more)


def scene_of(sim, head=(), seed=1):
    files = sim.lines(random.Random(seed))
    first = min(files)
    files[first] = [*head, *files[first]]
    return parse(files, step=100)


def answer_of(scene):
    found = mismatch.ask(scene) or hang.ask(scene)
    assert found is not None
    return found


def pair_stall(world, late, tp=2):
    """One rank stops inside its tensor-parallel group; its partners wait there, all others in their data-parallel group."""
    mates = {r for r in range(late // tp * tp, late // tp * tp + tp) if r != late}
    groups = [tensor(late // tp, tp, **{f"r{r}": Member(7455, 7452, "ALLREDUCE", 16777216) for r in mates})]
    groups += [data(i, world, tp, set(range(world)) - {late} - mates) for i in range(tp)]
    return job(world, groups)


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("late", [0, 5, 31])
def test_the_members_of_a_group_come_from_the_stated_layout(tp, late):
    scene = scene_of(pair_stall(32, late, tp), [layout(32, tp, 1)])
    state = hang_state(scene)
    for group in state.groups:
        assert state.members[group.name].complete, group.name
    where = picture(scene).where
    assert where.graph.ranks(End.FREE) == (late,)
    assert answer_of(scene).culprits.ranks == (late,)


def test_without_a_layout_the_order_of_ranks_leaves_the_hole_to_those_that_fit():
    scene = scene_of(pair_stall(16, 6))
    assert answer_of(scene).culprits.ranks == (6,)


def test_a_list_of_a_framework_wins_over_the_usual_layout():
    """Tensor-parallel ranks are not neighbours here: the list says so, and the layout alone would name rank 1."""
    odd = GroupSim("100", "TENSOR_MODEL_PARALLEL_GROUP", [0, 8])
    odd.members = {0: Member(50, 48, "ALLREDUCE", 4096)}
    others = GroupSim("1", "DATA_PARALLEL_GROUP", [0, 1, 2, 3, 4, 5, 6, 7])
    others.members = {r: Member(30, 28, "ALLREDUCE", 4096) for r in range(1, 8)}
    rest = GroupSim("2", "DATA_PARALLEL_GROUP", [8, 9, 10, 11, 12, 13, 14, 15])
    rest.members = {r: Member(30, 28, "ALLREDUCE", 4096) for r in range(9, 16)}
    pairs = ", ".join(f"[{i}, {i + 8}]" for i in range(8))
    lists = f"[NeMo I 2024-11-14 19:42:15 megatron_init:443] All tensor model parallel group ranks: [{pairs}]"
    scene = scene_of(job(16, [odd, others, rest]), [layout(16, 2, 1), lists])
    assert answer_of(scene).culprits.ranks == (8,)


def test_communicators_of_one_id_join_their_processes():
    line = "node-{n:04d}:{pid}:{tid} [{d}] NCCL INFO ncclCommSplit comm 0x55d0c8e{r:05x} rank {k} nranks 2 cudaDev {d} nvmlDev {d} busId 1000 parent 0x55d0 color 1 key {k} commId 0xabc{i:04x} - Init START"
    head = [line.format(n=r // 8, pid=40000 + r, tid=41000 + r, d=r % 8, r=r, k=r // 4, i=r % 4) for r in range(8)]
    odd = GroupSim("77", "", [3, 7])
    odd.members = {3: Member(50, 48, "ALLREDUCE", 4096)}
    scene = scene_of(job(8, [odd]), head)
    state = hang_state(scene)
    assert state.members["77"].known == {0: 3, 1: 7}
    assert state.members["77"].complete


def test_numbers_of_groups_are_never_carried_over():
    """Two groups of the same description and equal PG ID: the rank that waits in one is no member of the other."""
    scene = scene_of(pair_stall(16, 6))
    state = hang_state(scene)
    assert set(state.members["1"].known.values()).isdisjoint(state.members["2"].known.values())


def test_ranks_for_which_nobody_waits_are_not_suspected():
    """Ranks 4 and 5 are told, idle and in no group that waits; only rank 0 is waited for."""
    late, mates = 0, {1}
    groups = [tensor(0, 2, r1=Member(20, 18, "ALLREDUCE", 4096))]
    side = [GroupSim("1", "DATA_PARALLEL_GROUP", [0, 2]), GroupSim("2", "DATA_PARALLEL_GROUP", [1, 3])]
    side[0].members = {2: Member(12, 10, "ALLREDUCE", 64)}
    side[1].members = {3: Member(12, 10, "ALLREDUCE", 64)}
    scene = scene_of(job(8, [*groups, *side]), [layout(8, 2, 2)])
    where = picture(scene).where
    assert where.beside == (4, 5, 6, 7)
    assert where.missing == (late,)
    assert mates <= set(where.waiting)
    assert answer_of(scene).culprits.ranks == (late,)


def test_a_stuck_group_for_which_all_others_wait_is_the_collective_itself():
    """Both members of one pair are inside at one number; everybody else waits in a data-parallel group for them."""
    world = 32
    inside = tensor(3, 2, r6=Member(50, 48, "ALLREDUCE", 4096), r7=Member(50, 48, "ALLREDUCE", 4096))
    groups = [inside, *(data(i, world, 2, set(range(world)) - {6, 7}) for i in range(2))]
    scene = scene_of(job(world, groups), [layout(world, 2, 1)])
    row, answer = hang.decide(picture(scene))
    assert row == "inside_group"
    assert answer.category is Category.NETWORK
    assert answer.strength is Strength.POSSIBLE
    assert not answer.culprits.anybody
    assert "ranks 6-7" in answer.summary
    assert "other 30 ranks" in answer.summary


def test_exactly_the_groups_of_one_machine_lift_the_network_and_name_the_machine():
    world = 32
    stuck = [
        tensor(8 // 2 + i, 2, **{f"r{8 + 2 * i + k}": Member(50, 48, "ALLREDUCE", 4096) for k in (0, 1)})
        for i in range(4)
    ]
    groups = [*stuck, *(data(i, world, 2, set(range(world)) - set(range(8, 16))) for i in range(2))]
    head = [layout(world, 2, 1), "srun: SLURM_NTASKS_PER_NODE=8"]
    scene = scene_of(job(world, groups), head)
    row, answer = hang.decide(picture(scene))
    assert row == "inside_group"
    assert answer.classes.scope is Scope.NODE
    assert answer.strength is Strength.SUPPORTED
    assert answer.culprits.hosts == ("node-0001",)
    assert answer.culprits.strength is Strength.POSSIBLE


def circle(world):
    """Rank 5 is in its pair and waits for rank 4; all others are in the default group and wait for rank 5."""
    whole = default_group(world)
    whole.members = {r: Member(9, 7, "ALLREDUCE", 1) for r in range(world)}
    whole.members[5] = Member(7, 7)
    pair = tensor(2, 2, r5=Member(50, 48, "ALLREDUCE", 4096))
    return Job(world, "2.6", [whole, pair], timeout_ms=600000)


def told_counters(sim):
    """The state that a flight-recorder dump or another line gives of the pair's other member: it never entered."""
    state = "[rank4]:[E415 10:29:17.000000001 ProcessGroupNCCL.cpp:1650] [PG ID 2 PG GUID 102(TENSOR_MODEL_PARALLEL_GROUP) Rank 0] Received a dump signal due to a collective timeout from  rank 5 and we will try our best to dump the debug info. Last enqueued NCCL work: 48, last completed NCCL work: 48.This is most likely"
    sim.extra.append((4, state))
    return sim


def test_two_groups_that_wait_for_each_other_are_a_mismatch_with_both_named():
    scene = scene_of(told_counters(circle(8)), [layout(8, 2, 1)])
    answer = answer_of(scene)
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.strength is Strength.SUPPORTED
    assert "rank 5 in ALLREDUCE 49 of group 102" in answer.summary
    assert "in ALLREDUCE 8 of the default group" in answer.summary
    assert answer.culprits.ranks == (5,)
    assert answer.culprits.strength is Strength.POSSIBLE


def test_a_circle_whose_absences_no_counters_state_is_not_decided():
    """A rank prints the first of its works that ran out: the others in flight stay untold, as when the fabric is stuck."""
    scene = scene_of(circle(8), [layout(8, 2, 1)])
    assert mismatch.ask(scene) is None
    row, answer = hang.decide(picture(scene))
    assert row == "circle"
    assert answer.category is Category.UNKNOWN
    assert not answer.culprits.anybody
    assert "different orders" in answer.summary


def test_a_circle_is_never_claimed_where_a_member_is_not_known():
    """Without the layout the pair may hold another rank, which may be the one that everybody waits for."""
    scene = scene_of(told_counters(circle(8)))
    assert not picture(scene).where.graph.of(End.CIRCLE) or hang_state(scene).members["102"].complete


def test_a_stall_beside_a_circle_of_waits_ends_at_the_rank_that_is_free():
    """Rank 5 waits in its pair for rank 4, which waits in the default group for ranks 5 and 0; rank 0 is free."""
    sim = circle(8)
    sim.groups[0].members[0] = Member(7, 7)
    scene = scene_of(sim, [layout(8, 2, 1)])
    where = picture(scene).where
    assert where.graph.ranks(End.FREE) == (0,)
    assert answer_of(scene).culprits.ranks == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_the_origin_does_not_depend_on_the_order_of_lines(seed):
    where = picture(scene_of(pair_stall(32, 9, 4), [layout(32, 4, 2)], seed=seed)).where
    assert [(o.end, o.ranks) for o in where.graph.of(End.FREE)] == [(End.FREE, (9,))]
    assert where.missing == (9,)
