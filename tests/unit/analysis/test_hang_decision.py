"""Every row of the decision table about hangs, and the jobs that must not be decided."""

import random

import pytest
from hang_simulation import COORDINATED, VERSIONS, GroupSim, Job, Member, default_group, parse, stalled
from msgspec.structs import replace

from firstfault.analysis.chain import build_chain
from firstfault.analysis.hang_words import rank_notes
from firstfault.analysis.questions import hang, mismatch
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.nodes import expand_hosts
from firstfault.analysis.state.parts import Part
from firstfault.analysis.state.picture import few, picture
from firstfault.model.evidence import Failure, GlobalRank, SourceId, Span, When, Who
from firstfault.model.words import Category, Phase, Scope, Strength


def decided(job, *, seed=1, step=100, keep=None):
    files = job.lines(random.Random(seed))
    if keep is not None:
        files = {n: [x for x in lines if keep(x)] for n, lines in files.items()}
    scene = parse(files, step=step)
    answer = mismatch.ask(scene)
    if answer is not None:
        return "mismatch", answer, scene
    row, answer = hang.decide(picture(scene))
    assert hang.ask(scene) == answer
    return row, answer, scene


@pytest.mark.parametrize("version", COORDINATED)
@pytest.mark.parametrize("late", [0, 1, 15])
def test_one_rank_with_nothing_in_flight_is_the_one_that_stayed_away(version, late):
    row, answer, _ = decided(stalled(16, version, {late}))
    assert row == "outside"
    assert answer.culprits.ranks == (late,)
    assert answer.culprits.hosts == (f"node-{late // 8:04d}",)
    assert answer.culprits.strength is Strength.ESTABLISHED
    assert answer.category is Category.DATA_LOADING_STALL
    assert answer.strength is Strength.SUPPORTED
    assert answer.classes.scope is Scope.RANK
    assert answer.trigger is not None
    assert f"[rank{late}]" in answer.trigger.text
    assert "16 of 16" in answer.summary


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rank_that_says_nothing_while_all_others_wait_is_named_without_a_reason(version):
    row, answer, _ = decided(stalled(16, version, {5}, quiet={5}))
    assert row == "silent"
    assert answer.culprits.ranks == (5,)
    assert answer.culprits.strength is (Strength.SUPPORTED if version in COORDINATED else Strength.POSSIBLE)
    assert answer.category is Category.UNKNOWN
    assert answer.strength is Strength.UNKNOWN


@pytest.mark.parametrize("version", COORDINATED)
def test_two_ranks_outside_are_both_named(version):
    row, answer, _ = decided(stalled(16, version, {3, 12}))
    assert row == "outside"
    assert answer.culprits.ranks == (3, 12)


@pytest.mark.parametrize(("version", "strength"), [("2.1", Strength.POSSIBLE), ("2.6", Strength.SUPPORTED)])
def test_silence_counts_less_where_processes_did_not_tell_each_other(version, strength):
    _, answer, _ = decided(stalled(16, version, {3, 12}, quiet={3, 12}))
    assert answer.culprits.ranks == (3, 12)
    assert answer.culprits.strength is strength


@pytest.mark.parametrize("version", VERSIONS)
def test_everybody_inside_a_witnessed_group_is_the_collective_itself(version):
    row, answer, _ = decided(stalled(16, version, set()))
    assert row == "inside"
    assert answer.category is Category.NETWORK
    assert answer.strength is Strength.POSSIBLE
    assert not answer.culprits.anybody
    assert "16 of 16" in answer.summary


def test_everybody_inside_without_a_witness_of_the_size_is_not_decided():
    job = stalled(16, "2.6", set(), says_world=False)
    row, answer, _ = decided(job, keep=lambda x: "NCCL INFO" not in x)
    assert row == "unaccounted"
    assert answer.category is Category.UNKNOWN
    assert not answer.culprits.anybody
    assert answer.trigger is not None, "the first line of the wait is the first sign"
    assert "Watchdog caught" in answer.trigger.text


def test_the_first_collective_of_a_job_points_to_its_set_up():
    group = default_group(16)
    group.members = {r: Member(1, 0, "ALLGATHER", 1, 16) for r in range(16)}
    row, answer, _ = decided(Job(16, "2.6", [group]), step=None)
    assert row == "inside"
    assert answer.classes.phase is Phase.START_UP
    assert "first collective" in answer.summary


def test_the_root_of_a_broadcast_may_be_ahead_and_is_not_to_blame():
    job = stalled(16, "2.6", {5}, op="BROADCAST")
    for rank, member in job.groups[0].members.items():
        member.numel_in = 1
        if rank not in {0, 5}:
            member.enqueued = 7727
    job.groups[0].members[0] = Member(7759, 7756, "ALLREDUCE")
    row, answer, _ = decided(job)
    assert row == "outside"
    assert answer.culprits.ranks == (5,)
    assert "Rank 0 is ahead by 30" in answer.summary


def test_the_lead_of_the_root_is_turned_into_steps_only_where_collectives_fit_the_steps():
    job = stalled(16, "2.6", {5}, op="BROADCAST", at=3001)
    job.groups[0].members[0] = Member(3032, 3030, "ALLREDUCE")
    assert "that is 10 steps" in decided(job, step=1000)[1].summary
    assert "steps" not in decided(job, step=817)[1].summary


@pytest.mark.parametrize("version", ["1.13", "2.1", "2.3", "2.6"])
def test_another_op_at_the_same_number_names_the_odd_one_out(version):
    job = stalled(16, version, set())
    job.groups[0].members[9].op = "REDUCE"
    row, answer, _ = decided(job)
    assert row == "mismatch"
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.culprits.ranks == (9,)
    assert "REDUCE" in answer.summary
    assert answer.trigger is not None
    assert "OpType=REDUCE" in answer.trigger.text


@pytest.mark.parametrize("version", ["1.13", "2.6"])
def test_another_size_at_the_same_number_is_a_mismatch_too(version):
    job = stalled(8, version, set())
    job.groups[0].members[2].numel_in = 4711
    row, answer, _ = decided(job)
    assert row == "mismatch"
    assert answer.culprits.ranks == (2,)


def test_half_against_half_names_nobody():
    job = stalled(8, "2.6", set())
    for rank in range(4):
        job.groups[0].members[rank].op = "REDUCE"
    row, answer, _ = decided(job)
    assert row == "mismatch"
    assert not answer.culprits.anybody


def test_unequal_parts_of_one_gather_are_legal():
    job = stalled(8, "2.6", {1}, op="ALLGATHER")
    for rank, member in job.groups[0].members.items():
        member.numel_in, member.numel_out = 100 + rank, 828
    assert decided(job)[0] == "outside"


@pytest.mark.parametrize(
    ("lost", "told", "strength"),
    [(set(), True, Strength.SUPPORTED), (set(), False, Strength.POSSIBLE), ({1}, False, Strength.POSSIBLE)],
)
def test_a_node_of_which_nothing_is_heard_is_named_and_not_its_ranks(lost, told, strength):
    late = set(range(8, 16))
    stop = "W0526 22:51:35.246000 281322 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 40008 closing signal SIGTERM"
    job = stalled(32, "2.6", late, quiet=late, lost_nodes=lost, extra=[(8, stop)] if told else [])
    row, answer, _ = decided(job)
    assert row == "gone"
    assert answer.category is Category.UNKNOWN
    assert answer.culprits.ranks == ()
    assert answer.culprits.hosts == ("node-0001",)
    assert answer.culprits.strength is strength
    assert ("log is missing" in answer.summary) is bool(lost)


def test_a_single_pasted_time_out_names_nobody():
    job = stalled(2, "2.1", {0}, quiet={0}, says_world=False)
    _, answer, _ = decided(job, keep=lambda x: "NCCL INFO" not in x)
    assert answer.category is Category.UNKNOWN
    assert not answer.culprits.anybody


def test_a_hole_in_the_numbers_of_many_that_wait_names_the_missing_rank():
    job = stalled(4, "2.3", {0}, quiet={0}, says_world=False)
    row, answer, _ = decided(job, keep=lambda x: "NCCL INFO" not in x)
    assert row == "silent"
    assert answer.culprits.ranks == (0,)


def test_a_stall_in_a_tensor_parallel_pair_is_traced_through_other_groups():
    answer, row = _pair_stall("2.6")
    assert row == "silent"
    assert answer.culprits.ranks == (12,)
    assert answer.culprits.strength is Strength.SUPPORTED
    assert answer.category is Category.UNKNOWN
    assert answer.trigger is not None
    assert "[rank13]" in answer.trigger.text


def _pair_stall(version):
    """Rank 12 stops between two works of its pair; its partner and all data-parallel groups wait."""
    world = default_group(16)
    world.members = {r: Member(7, 7) for r in range(16)}
    groups = [world]
    for i in range(8):
        pair = GroupSim(str(10 + i), "TENSOR_MODEL_PARALLEL_GROUP", [2 * i, 2 * i + 1])
        pair.members = {}
        if i == 6:
            pair.members[13] = Member(7455, 7452, "ALLREDUCE", 16777216)
        groups.append(pair)
    for i in range(2):
        data = GroupSim(str(1 + i), "DATA_PARALLEL_GROUP", list(range(i, 16, 2)))
        data.members = {r: Member(5592, 5590, "ALLREDUCE", 2) for r in data.ranks if r != 12}
        groups.append(data)
    row, answer, _ = decided(Job(16, version, groups, timeout_ms=600000))
    return answer, row


def test_the_group_that_is_told_is_the_one_that_waits_for_the_late_rank():
    """Groups of replicas are smaller, and each waits for a member that is stuck in the group of experts."""
    world = default_group(32)
    world.members = {r: Member(5, 5) for r in range(32)}
    experts = [GroupSim(str(40 + i), "EXPERT_MODEL_PARALLEL_GROUP", list(range(8 * i, 8 * i + 8))) for i in range(4)]
    experts[2].members = {r: Member(880, 879, "ALLTOALL_BASE") for r in experts[2].ranks if r != 22}
    replicas = [GroupSim(str(60 + i), "EXPERT_DATA_PARALLEL_GROUP", list(range(i, 32, 8))) for i in range(8)]
    for group in replicas:
        group.members = {r: Member(222, 221, "ALLREDUCE") for r in group.ranks if r // 8 != 2}
    _, answer, _ = decided(Job(32, "2.6", [world, *experts, *replicas], timeout_ms=600000))
    assert answer.culprits.ranks == (22,)
    assert "in ALLTOALL_BASE 880 of group 42 (EXPERT_MODEL_PARALLEL_GROUP)" in answer.summary


def test_numbers_of_a_dump_signal_belong_to_the_default_group_only():
    job_answer, _ = _pair_stall("2.8")
    assert job_answer.culprits.ranks == (12,)
    assert "7453" in job_answer.summary


def test_a_group_rank_is_never_taken_for_a_global_one():
    """Global rank 12 is rank 6 of its data-parallel group; the odd op is its own."""
    world = default_group(16)
    world.members = {r: Member(7, 7) for r in range(16)}
    data = GroupSim("3", "DATA_PARALLEL_GROUP", list(range(0, 16, 2)))
    data.members = {r: Member(2889, 2887, "ALLGATHER" if r == 12 else "ALLREDUCE", 2) for r in data.ranks}
    _, answer, _ = decided(Job(16, "2.6", [world, data]))
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.culprits.ranks == (12,)


def test_group_ranks_without_a_prefix_in_a_job_with_sub_groups_stay_unplaced():
    """Two works of rank 0 of two groups: the text does not say which processes they are."""
    group = default_group(8)
    group.members = {r: Member(50, 48, "ALLREDUCE") for r in range(8)}
    other = GroupSim("1", "", [4, 5, 6, 7])
    other.members = {r: Member(9001, 9000, "ALLGATHER") for r in other.ranks}
    _, answer, scene = decided(Job(8, "2.1", [group, other]))
    assert hang_state(scene).unplaced
    assert answer.category is Category.UNKNOWN
    assert not answer.culprits.anybody


def test_most_ranks_outside_means_that_the_few_inside_issued_something_extra():
    row, answer, _ = decided(stalled(16, "2.6", set(range(1, 16))))
    assert row == "most_outside"
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.strength is Strength.POSSIBLE
    assert not answer.culprits.anybody


def test_many_ranks_outside_are_a_possibility_only():
    row, answer, _ = decided(stalled(16, "2.6", {1, 3, 5, 7, 9, 11}))
    assert row == "outside_many"
    assert answer.culprits.ranks == (1, 3, 5, 7, 9, 11)
    assert answer.culprits.strength is Strength.POSSIBLE


def test_a_rank_that_is_behind_in_flight_is_possible_at_most():
    job = stalled(8, "2.6", set())
    job.groups[0].members[3] = Member(7726, 7720, "ALLREDUCE")
    row, answer, _ = decided(job)
    assert row == "behind"
    assert answer.category is Category.UNKNOWN
    assert answer.culprits.strength is Strength.POSSIBLE


def test_retries_that_go_on_on_the_host_of_the_late_rank_are_its_reason():
    late = "Got disconnected from remote data host. Retrying in 5sec [3/20]"
    job = stalled(16, "2.6", {13}, quiet={13}, extra=[(13, late)])
    row, answer, _ = decided(job, step=None)
    assert row == "silent"
    assert answer.category is Category.DATA_LOADING_STALL
    assert answer.trigger is not None
    assert answer.trigger.text == late


def test_one_retry_is_no_reason():
    job = stalled(
        16, "2.6", {13}, quiet={13}, extra=[(13, "Got disconnected from remote data host. Retrying in 5sec [1/20]")]
    )
    assert decided(job, step=None)[1].category is Category.UNKNOWN


def test_preparation_of_data_while_others_wait_is_a_stall():
    bar = (
        "[rank0]:Running tokenizer on dataset (num_proc=8):  12%|#2        | 1200/10000 [00:12<01:28, 99.10 examples/s]"
    )
    job = stalled(4, "2.3", {0}, quiet={0}, extra=[(0, bar)], at=3)
    row, answer, _ = decided(job, step=None)
    assert row == "silent"
    assert answer.category is Category.DATA_LOADING_STALL
    assert answer.classes.phase is Phase.DATA
    assert answer.culprits.ranks == (0,)


def test_a_work_that_ran_far_beyond_its_timeout_is_explained():
    files = stalled(4, "2.6", {1}).lines(random.Random(1))
    files = {n: [x.replace("ran for 18000", "ran for 256248") for x in lines] for n, lines in files.items()}
    answer = hang.ask(parse(files, step=100))
    assert answer is not None
    assert "looked only after" in answer.summary


def test_a_barrier_that_names_the_late_ranks_is_believed_where_its_ranks_are_global():
    line = "[rank0]: RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 3000 ms"
    scene = parse({0: ["Starting with 8 processes", line]})
    row, answer = hang.decide(picture(scene))
    assert row == "named"
    assert hang.ask(scene) == answer
    assert answer.culprits.ranks == (1, 3)
    inner = line.replace("[rank0]", "[rank1]")
    other = hang.ask(parse({0: ["Starting with 8 processes", inner]}))
    assert other is not None
    assert not other.culprits.anybody


def test_parts_are_told_apart_without_the_order_of_lines():
    scene = decided(stalled(16, "2.6", {5}))[2]
    parts = hang_state(scene).parts
    assert parts[5] is Part.NOTIFIED
    assert {parts[r] for r in range(16) if r != 5} == {Part.INITIATOR}
    silent = decided(stalled(16, "2.6", {5}, quiet={5}))[2]
    assert hang_state(silent).parts[5] is Part.SILENT


def test_the_answer_does_not_depend_on_the_order_of_lines():
    said = {str(decided(stalled(32, "2.6", {21}), seed=s)[1].summary) for s in range(4)}
    assert len(said) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(4))
def test_lines_that_are_lost_never_make_the_verdict_confidently_wrong(version, seed):
    rng = random.Random(seed)
    late = rng.randrange(16)
    job = stalled(16, version, {late}, quiet={late} if seed % 2 else set())
    _, answer, _ = decided(job, seed=seed, keep=lambda _: rng.random() > 0.05)
    if answer.strength.level >= Strength.SUPPORTED.level:
        assert answer.category is Category.DATA_LOADING_STALL
    if answer.culprits.strength.level >= Strength.SUPPORTED.level:
        assert late in answer.culprits.ranks


@pytest.mark.parametrize(
    ("number", "total", "expected"), [(1, 2, True), (0, 4, False), (2, 4, False), (4, 16, True), (16, 16, False)]
)
def test_few(number, total, expected):
    assert few(number, total) is expected


def test_hostlists_are_expanded():
    assert expand_hosts("node[008-010,12],login1") == ("node008", "node009", "node010", "node12", "login1")
    assert expand_hosts("pool0-[2942-2943]") == ("pool0-2942", "pool0-2943")
    assert expand_hosts("a[0-99999999]") == ()


def test_ranks_that_horovod_calls_missing_are_the_late_ones():
    lines = [
        "[1,0]<stderr>:Missing ranks:",
        "[1,0]<stderr>:5: [horovod_allreduce.157]",
        "[1,0]<stderr>:6: [horovod_allreduce.157]",
    ]
    answer = hang.ask(parse({0: lines}))
    assert answer is not None
    assert answer.culprits.ranks == (5, 6)
    assert answer.category is Category.UNKNOWN
    assert answer.trigger is not None
    assert "5: [horovod" in answer.trigger.text


def test_a_process_that_died_before_anybody_timed_out_makes_the_wait_an_effect():
    dead = (
        "E0415 09:40:00.000000 281322 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
        "local_rank: 5 (pid: 40005) of binary: /opt/venv/bin/python3"
    )
    job = stalled(16, "2.6", {5}, quiet={5}, extra=[(5, dead)])
    scene = parse(job.lines(random.Random(1)), step=100)
    assert scene.hang is not None
    assert hang.ask(scene) is None


def test_a_rank_whose_own_watchdog_is_stuck_is_named_as_possible():
    stuck = (
        "[rank5]:[E415 10:20:00.000000001 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank 5] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    )
    job = stalled(16, "2.6", {5}, quiet={5}, extra=[(5, stuck)])
    row, answer, _ = decided(job)
    assert row == "frozen"
    assert answer.culprits.ranks == (5,)
    assert answer.culprits.strength is Strength.POSSIBLE
    assert answer.category is Category.UNKNOWN


def test_the_notes_of_a_table_tell_each_rank_with_its_counters():
    notes = rank_notes(hang_state(decided(stalled(16, "2.6", {5}))[2]))
    assert len(notes) == 16
    assert notes[5].startswith("notified; the default group: enqueued 7726, completed 7726")
    assert "stuck in ALLREDUCE 7727 of 26214400, enqueued 7728" in notes[4]


def test_silence_in_a_file_that_is_cut_counts_less():
    job = stalled(16, "2.6", set())
    files = job.lines(random.Random(3))
    teardown = 2 * 8
    files[1] = [x for x in files[1][:-teardown] if "[rank11]" not in x]
    answer = hang.ask(parse(files, step=100))
    assert answer is not None
    assert answer.culprits.strength.level <= Strength.POSSIBLE.level


DETAIL = (
    "[rank{r}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: CollectiveFingerPrint(SequenceNumber=1, "
    "OpType={mine}, TensorShape=[4]), but Rank {other} is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType={theirs}, TensorShape=[4])."
)


def test_the_check_before_a_collective_names_the_rank_that_most_others_name():
    lines = [DETAIL.format(r=r, mine="ALLREDUCE", other=2, theirs="BROADCAST") for r in (0, 1, 3)]
    lines.append(DETAIL.format(r=2, mine="BROADCAST", other=0, theirs="ALLREDUCE"))
    answer = mismatch.ask(parse({0: ["Starting with 4 processes", *lines]}))
    assert answer is not None
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.strength is Strength.ESTABLISHED
    assert answer.culprits.ranks == (2,)


def test_in_a_group_of_two_the_check_names_nobody():
    lines = [
        DETAIL.format(r=0, mine="ALLREDUCE", other=1, theirs="BROADCAST"),
        DETAIL.format(r=1, mine="BROADCAST", other=0, theirs="ALLREDUCE"),
    ]
    answer = mismatch.ask(parse({0: ["Starting with 2 processes", *lines]}))
    assert answer is not None
    assert answer.culprits.ranks == ()


OLD = "[E ProcessGroupNCCL.cpp:566] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(OpType={op}, TensorShape=[{n}], Timeout(ms)=1800000) ran for 180{r}084 milliseconds before timing out."


def test_lines_without_numbers_show_different_ops_as_a_possibility():
    lines = [OLD.format(r=r, op="BROADCAST" if r == 2 else "ALLREDUCE", n=1024) for r in range(4)]
    answer = mismatch.ask(parse({0: ["Starting with 4 processes", *lines]}))
    assert answer is not None
    assert answer.category is Category.COLLECTIVE_MISMATCH
    assert answer.strength is Strength.POSSIBLE


def dated(rank, code, at):
    when = When(earliest=at, latest=at)
    return Failure(
        span=Span(SourceId(0), 10**7 + int(at) + rank, 10, 10**5, 1),
        who=Who(rank=GlobalRank(rank)),
        when=when,
        exit_code=code,
    )


@pytest.mark.parametrize(
    ("ends", "died"),
    [
        ([(7, -9, 100.0), (1, -6, 700.0), (2, -6, 701.0)], True),
        ([(7, -9, 730.0), (1, -6, 700.0), (2, -6, 701.0)], False),  # the agent's own kill of one that did not stop
        ([(7, -9, 710.0), (1, 1, 700.0), (2, -6, 900.0)], False),  # a waiter of that machine had ended before
        ([(7, -15, 100.0), (1, -6, 700.0)], False),
    ],
)
def test_a_kill_that_a_launcher_dates_before_all_aborts_came_before_the_wait(ends, died):
    scene = parse({0: stalled(8, "2.1", {7}, quiet={7}).lines(random.Random(1))[0]})
    scene = replace(scene, failures=tuple(dated(*end) for end in ends))
    assert (hang.ask(scene) is None) is died


def test_a_report_that_names_a_rank_that_waits_in_a_smaller_group_does_not_name_it():
    """Rank 3 is number 1 of a group of two, and waits there for rank 2; both miss the barrier of the whole job."""
    victim = (
        "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0."
    )
    lines = [
        (0, "[rank0]: RuntimeError: [Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 8000 ms"),
        *((r, f"[rank{r}]: RuntimeError: {victim} Please check rank 0 logs for faulty rank.") for r in (1, 3)),
    ]
    job = stalled(4, "2.6", {0, 1, 2, 3}, quiet={0, 1, 2, 3}, extra=lines)
    row, answer, _ = decided(job)
    assert row == "named"
    assert answer.culprits.ranks == (2,)
    assert answer.culprits.strength is Strength.POSSIBLE


def test_the_wait_in_the_chain_names_the_rank_whose_line_begins_it_too():
    job = stalled(8, "2.3", {0}, quiet={0})
    _, answer, scene = decided(job, keep=lambda x: "terminated with" not in x and "Timeout at" not in x)
    assert answer.trigger is not None
    wait = next(link for link in build_chain(scene, answer) if "waited too long" in link.what)
    assert answer.trigger not in wait.events
    assert "ranks 1-7" in wait.what
