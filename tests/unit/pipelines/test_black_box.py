"""What a diagnosis makes of a black box alone; the truth is what the invented job was made to do."""

import pickle

import pytest
from box_folder import Box, at

from firstfault.model.words import Category, CoverageState, Form, Phase, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.recorder import format as layout

GLOO = "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:1234"


def verdict(folder, *more):
    return diagnose([folder, *more]).verdict


def test_a_rank_in_its_loader_while_all_others_wait(tmp_path):
    box = Box(tmp_path, world=8)
    loader = {"batches": 7, "waited_s": 300.0, "waiting_s": 300.0, "depth": 0, "workers": 2}
    box.hung({5}, phase="data", loader=loader)
    box.node(
        5,
        layout.STATE,
        401,
        worker=1,
        parent=4005,
        step=8,
        phase="data",
        last="",
        item={"what": "/data/shard-17.tar", "for_s": 301.0, "batch": 8},
    )
    said = verdict(tmp_path)
    assert (said.category, said.culprits.ranks, said.culprits.hosts) == (Category.DATA_LOADING_STALL, [5], ["node-01"])
    assert said.classes.phase is Phase.DATA
    assert said.classes.form is Form.HUNG
    for text in ("after step 7", "0 batches lie ready", "Worker 1", "/data/shard-17.tar", "all_reduce"):
        assert text in said.summary


def test_a_rank_in_a_checkpoint(tmp_path):
    Box(tmp_path, world=8).hung({0}, phase="checkpoint", item={"what": "/ckpt/step-7.pt", "for_s": 300.0, "batch": -1})
    said = verdict(tmp_path)
    assert (said.category, said.culprits.ranks, said.classes.phase) == (
        Category.DATA_LOADING_STALL,
        [0],
        Phase.CHECKPOINT,
    )
    assert "/ckpt/step-7.pt" in said.summary


@pytest.mark.parametrize(
    ("phase", "ages", "shown"),
    [
        ("checkpoint", {"phase_for_s": 300.0, "step_s_ago": 301.0}, False),
        ("augment", {"phase_for_s": 300.0}, False),
        ("data", {"phase_for_s": 300.0, "step_s_ago": 301.0}, False),
        ("data", {"phase_for_s": 300.0, "step_s_ago": 320.0}, True),
        ("checkpoint", {"phase_for_s": 306.0, "step_s_ago": 320.0}, True),
    ],
)
def test_an_item_that_was_done_before_the_present_phase_or_the_last_step_is_not_told(tmp_path, phase, ages, shown):
    item = {"what": "/data/shard-5.tar", "for_s": 305.0, "batch": -1}
    Box(tmp_path, world=8).hung({1}, phase=phase, item=item, **ages)
    assert ("/data/shard-5.tar" in verdict(tmp_path).summary) is shown


@pytest.mark.parametrize(("ahead", "strength"), [(0, "established"), (1, "established"), (4, "supported")])
def test_who_is_steps_ahead_does_not_show_that_it_waits(tmp_path, ahead, strength):
    box = Box(tmp_path, world=2)
    for rank, own in (
        (1, {"phase": "checkpoint", "last": 100.0}),
        (0, {"phase": "forward", "last": 100.3, "step": 7 + ahead}),
    ):
        box.state(rank, layout.HANG, 400, **own)
    said = verdict(tmp_path)
    assert (said.culprits.ranks, str(said.culprits.strength)) == ([1], strength)
    assert ("Rank 0 waits in forward" in said.summary) is (ahead < 2)


def test_a_rank_in_a_phase_of_its_own_word_is_possible_only(tmp_path):
    Box(tmp_path, world=8).hung({3}, phase="augment")
    said = verdict(tmp_path)
    assert (said.culprits.ranks, said.strength) == ([3], Strength.POSSIBLE)
    assert "phase augment" in said.summary


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_who_ended_the_hung_job_does_not_matter(tmp_path, signal):
    Box(tmp_path, world=8).hung({3}, phase="data", signal=signal)
    assert verdict(tmp_path).culprits.ranks == [3]


def test_frameworks_whose_calls_are_not_seen_are_told_by_phases(tmp_path):
    box = Box(tmp_path, world=8)
    for rank in range(8):
        own = {"phase": "data", "last": 100.0} if rank == 2 else {"phase": "backward", "last": 100.3}
        box.state(rank, layout.HANG, 400, **own)
    assert verdict(tmp_path).culprits.ranks == [2]


def test_half_of_the_ranks_apart_names_nobody(tmp_path):
    Box(tmp_path, world=8).hung({0, 1, 2, 3}, phase="data")
    assert verdict(tmp_path).culprits.ranks == []


def test_all_in_the_same_call_names_nobody(tmp_path):
    Box(tmp_path, world=4).hung(set())
    said = verdict(tmp_path)
    assert said.culprits.ranks == []
    assert said.category in {Category.UNKNOWN, Category.INFRASTRUCTURE}


def test_a_standstill_that_ended_is_none(tmp_path):
    box = Box(tmp_path, world=4)
    for rank in range(4):
        own = {"phase": "data"} if rank == 2 else {"call": "all_reduce"}
        box.state(rank, layout.HANG, 400, last=100.0, **own)
    for rank in range(4):
        box.state(rank, layout.DEATH, 900, step=90, last=899.0, how="was ended by SIGTERM", signal="SIGTERM")
    said = verdict(tmp_path)
    assert (said.category, said.culprits.ranks) == (Category.INFRASTRUCTURE, [])
    assert "told to stop" in said.summary


def test_different_calls_after_the_same_number(tmp_path):
    Box(tmp_path, world=8).hung({6}, call="broadcast")
    said = verdict(tmp_path)
    assert (said.category, said.culprits.ranks, said.strength) == (
        Category.COLLECTIVE_MISMATCH,
        [6],
        Strength.SUPPORTED,
    )
    assert "broadcast" in said.summary


def test_a_killed_rank_and_its_victims(tmp_path):
    box = Box(tmp_path, world=4)
    box.state(2, layout.DEATH, 100.0, last=99.9, how="was ended by SIGKILL", signal="SIGKILL")
    for rank in (0, 1, 3):
        box.raised(rank, 100.2, "RuntimeError", GLOO)
        box.state(
            rank, layout.DEATH, 100.5 + rank, last=100.0, call="all_reduce", exit_code=1, how="exited with code 1"
        )
    said = verdict(tmp_path)
    assert (said.category, said.culprits.ranks, said.first_failed.ranks) == (Category.INFRASTRUCTURE, [2], [2])
    assert "SIGKILL" in said.summary
    assert "after step 7" in said.summary


def test_an_exception_means_what_it_means_in_a_log(tmp_path):
    box = Box(tmp_path, world=4)
    box.raised(
        1,
        100,
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    )
    for rank in (0, 2, 3):
        box.raised(rank, 101, "RuntimeError", GLOO)
    said = verdict(tmp_path)
    assert (said.category, said.culprits.ranks) == (Category.GPU_CUDA, [1])
    assert said.trigger.file.endswith("rank-00001.0.4001.jsonl")
    assert "CUDA out of memory" in said.trigger.text


def test_a_caught_exception_is_no_fault(tmp_path):
    box = Box(tmp_path, world=2)
    box.raised(1, 100, "TimeoutError", "slow", caught=True)
    for rank in range(2):
        box.state(rank, layout.END, 200, last=199, exit_code=0, how="exited with code 0")
    assert verdict(tmp_path).category is Category.NONE


def test_all_ranks_ended_with_code_0(tmp_path):
    box = Box(tmp_path, world=4)
    for rank in range(4):
        box.state(rank, layout.END, 200 + rank, last=199, exit_code=0, how="exited with code 0")
    assert verdict(tmp_path).failed is False


def test_a_good_end_is_earned_by_all(tmp_path):
    box = Box(tmp_path, world=4)
    for rank in range(3):
        box.state(rank, layout.END, 200 + rank, last=199, exit_code=0, how="exited with code 0")
    assert verdict(tmp_path).failed is None


def test_a_slow_rank_of_a_job_that_was_ended(tmp_path):
    box = Box(tmp_path, world=4)
    for rank in range(4):
        waited = 5.0 if rank == 1 else 35.0
        call = {"name": "all_reduce", "number": 99, "inside": False, "s_ago": 0.1, "in_all_s": waited}
        box.node(rank, layout.DEATH, 100 + rank / 100, step=100, steps=100, pace_s=0.5, phase="forward", still_s=0.1, signal="SIGTERM",
                 last="2026-11-30T09:01:39+00:00", call=call, how="was ended by SIGTERM")  # fmt: skip
    said = verdict(tmp_path)
    assert said.category is Category.INFRASTRUCTURE
    assert said.culprits.ranks == []
    assert "Rank 1 (node-00) was slower" in said.summary


def test_ranks_that_wait_alike_are_not_slow(tmp_path):
    box = Box(tmp_path, world=4)
    for rank in range(4):
        call = {"name": "all_reduce", "number": 99, "inside": False, "s_ago": 0.1, "in_all_s": 20.0 + rank}
        box.node(rank, layout.DEATH, 100, step=100, steps=100, pace_s=0.5, phase="forward", still_s=0.1, signal="SIGTERM",
                 last="2026-11-30T09:01:39+00:00", call=call, how="was ended by SIGTERM")  # fmt: skip
    assert "slower" not in verdict(tmp_path).summary


def test_of_two_runs_the_last_is_diagnosed_and_the_other_is_named_as_skipped(tmp_path):
    first = Box(tmp_path, world=2, run="run-1")
    first.raised(1, 100, "ValueError", "an old fault")
    second = Box(tmp_path, world=2, run="run-2")
    second.raised(0, 900, "KeyError", "'label'")
    diagnosis = diagnose([tmp_path])
    assert diagnosis.verdict.culprits.ranks in ([0], [])
    assert diagnosis.verdict.first_failed.ranks == [0]
    states = {c.file.split("/")[0]: c.state for c in diagnosis.coverage}
    assert states == {"run-1": CoverageState.SKIPPED, "run-2": CoverageState.READ}


def test_a_rank_of_an_earlier_run_that_stands_for_ever_does_not_make_that_the_last_run(tmp_path):
    old = Box(tmp_path, world=2, run="run-1")
    old.state(0, layout.HANG, 400, last=100.0, phase="data")
    old.line(0, layout.BEAT, 9000, file=layout.HEARTBEAT_FILE, last=at(100.0), still_s=8900.0, phase="data", step=7)
    new = Box(tmp_path, world=2, run="run-2")
    new.raised(1, 900, "KeyError", "'label'")
    assert diagnose([tmp_path]).verdict.first_failed.ranks == [1]


def test_of_a_rank_that_was_started_again_the_last_start_counts(tmp_path):
    box = Box(tmp_path, world=2)
    box.raised(1, 100, "ValueError", "first start")
    for rank in range(2):
        box.line(rank, layout.HEADER, 200, attempt=1, world=2, launcher=False)
    for rank in range(2):
        box.node(rank, layout.END, 300, attempt=1, exit_code=0, how="exited with code 0", step=3, last="", still_s=0.0)
    assert verdict(tmp_path).category is Category.NONE


def test_a_damaged_line_is_told_and_the_rest_is_read(tmp_path):
    box = Box(tmp_path, world=2)
    path = box.write(1, layout.NOTE, 5)
    with path.open("ab") as file:
        file.write(b'{"firstfault":"record/1","kind":"exc\n')
    box.raised(1, 100, "ValueError", "label 17")
    diagnosis = diagnose([tmp_path])
    assert diagnosis.verdict.first_failed.ranks == [1]
    damaged = [c for c in diagnosis.coverage if c.state is CoverageState.DAMAGED]
    assert [c.reason for c in damaged] == ["1 line could not be read"]


def test_the_order_of_files_changes_nothing(tmp_path):
    for name in ("a", "b"):
        Box(tmp_path / name, world=8, run="run-1").hung({5}, phase="data")
    other = sorted((tmp_path / "b" / "run-1" / "node-01").glob("*.jsonl"))
    for number, file in enumerate(reversed(other)):
        file.rename(file.with_name(f"x{number}.jsonl"))
    one, two = verdict(tmp_path / "a"), verdict(tmp_path / "b")
    assert (one.summary, one.culprits) == (two.summary, two.culprits)


def test_cutting_the_box_anywhere_never_raises(tmp_path):
    box = Box(tmp_path, world=4)
    box.hung({1}, phase="data", loader={"waiting_s": 9.0})
    file = tmp_path / "run-1" / "node-00" / "node.jsonl"
    whole = file.read_bytes()
    for length in range(0, len(whole), 487):
        file.write_bytes(whole[:length])
        verdict(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        b'{"firstfault":"record/1"}',
        b'{"firstfault":"record/1","kind":"death","time":5,"rank":"x","host":7,"call":[],"loader":3,"item":"y","threads":{}}',
        b'{"firstfault":"record/1","kind":"hang","rank":1,"time":"2026-11-30T09:00:00+00:00","last":"x","call":{"inside":true,"name":5}}',
        b'{"firstfault":"record/1","kind":"exception","rank":1,"caught":false,"traceback":[1,{"line":"x"}],"chain":[3]}',
        b'{"firstfault":"record/9","kind":"death"}',
    ],
)
def test_odd_records_never_raise(tmp_path, line):
    (tmp_path / "run" / "node-a").mkdir(parents=True)
    (tmp_path / "run" / "node-a" / "node.jsonl").write_bytes(line + b"\n")
    diagnose([tmp_path])


def test_beside_a_log_the_box_says_where_the_rank_was(tmp_path):
    box = Box(tmp_path / "box", world=2)
    box.state(1, layout.DEATH, 101, last=100, phase="optimizer", exit_code=1, how="exited with code 1")
    log = tmp_path / "rank_1.log"
    log.write_text(
        "2026-11-30 09:01:39,000 INFO world size 2\nTraceback (most recent call last):\n"
        '  File "train.py", line 9, in <module>\n    step()\nValueError: loss scale must be positive\n',
        encoding="utf-8",
    )
    said = verdict(tmp_path / "box", log)
    assert said.first_failed.ranks == [1]
    assert said.classes.phase is Phase.OPTIMIZER or "optimizer" in said.summary


def test_stacks_of_a_bundle_that_was_outlived_are_not_used(tmp_path):
    box = Box(tmp_path, world=2)
    folder = tmp_path / "run-1" / "node-00" / "bundle-01"
    for rank in range(2):
        box.line(rank, layout.STATE, 50, file="node.jsonl", bundle=1, part=1, step=1, last="", still_s=9.0)
        folder.mkdir(exist_ok=True)
        frame = "data.py" if rank else "torch/distributed/distributed_c10d.py"
        name = "read_shard" if rank else "all_reduce"
        (folder / f"{layout.name_of(rank, 0, 4000 + rank)}.1.stacks.txt").write_text(
            f"firstfault stacks: rank {rank}, pid {4000 + rank}, attempt 0, host node-00; bundle, part 1\n"
            f'Current thread 0x0000000000000000 (most recent call first):\n  File "{frame}", line 4, in {name}\n  File "train.py", line 9, in <module>\n',
            encoding="utf-8",
        )
        box.state(rank, layout.DEATH, 900, step=90, last=899.0, how="was ended by SIGTERM", signal="SIGTERM")
    said = verdict(tmp_path)
    assert said.culprits.ranks == []
    assert said.category is Category.INFRASTRUCTURE


def test_a_killed_worker_of_a_loader_is_named_with_its_rank(tmp_path):
    box = Box(tmp_path, world=4)
    box.node(2, layout.DEATH, 100, worker=0, parent=4002, step=8, phase="data", last="", signal="SIGKILL", how="was ended by SIGKILL",
             item={"what": "/data/s-8.tar", "for_s": 1.0, "batch": 8})  # fmt: skip
    for rank in range(4):
        box.state(
            rank, layout.DEATH, 109 + rank / 10, last=99.0, phase="data", signal="SIGTERM", how="was ended by SIGTERM"
        )
    said = verdict(tmp_path)
    assert said.category is Category.INFRASTRUCTURE
    assert said.culprits.ranks == [2]
    for text in ("SIGKILL", "/data/s-8.tar"):
        assert text in said.summary


def test_workers_that_go_with_their_ranks_are_no_fault(tmp_path):
    box = Box(tmp_path, world=4)
    for rank in range(4):
        box.node(
            rank,
            layout.DEATH,
            100.1,
            worker=0,
            parent=4000 + rank,
            step=8,
            phase="data",
            last="",
            signal="SIGKILL",
            how="was ended by SIGKILL",
        )
        box.state(rank, layout.DEATH, 100, last=99.0, signal="SIGTERM", how="was ended by SIGTERM")
    said = verdict(tmp_path)
    assert said.culprits.ranks == []
    assert "worker" not in said.summary


@pytest.mark.parametrize(("last", "named"), [(99.8, []), (10.0, [0])])
def test_what_a_working_job_was_at_when_it_was_told_to_stop_blames_nobody(tmp_path, last, named):
    """SIGTERM leaves a stack of every rank; only where the ranks had stood still does it show for whom they waited."""
    box = Box(tmp_path, world=4)
    for rank in range(4):
        name = layout.name_of(rank, 0, 4000 + rank)
        frame = (
            'app/train.py", line 94 in train'
            if rank == 0
            else 'lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce'
        )
        path = box.folder / box.host(rank) / f"{name}{layout.SIGTERM}"
        path.write_text(
            f"firstfault stacks: rank {rank}, pid {4000 + rank}, attempt 0, host {box.host(rank)}; SIGTERM\n"
            f'Current thread 0x0000000000000000 (most recent call first):\n  File "/{frame}\n  File "/app/train.py", line 124 in <module>\n'
        )
        box.state(rank, layout.DEATH, 100.0, last=last, how="was ended by SIGTERM", signal="SIGTERM")
    said = verdict(tmp_path)
    assert said.culprits.ranks == named
    if not named:
        assert said.category is Category.INFRASTRUCTURE


def test_who_waits_outside_of_a_call_is_told_from_who_has_begun_fewer(tmp_path):
    """Rank 0 waits by `Work.wait`, which no look sees; rank 5 never began the call."""
    box = Box(tmp_path, world=8)
    for kind, seconds, how in ((layout.HANG, 400, {}), (layout.DEATH, 500, {"signal": "SIGTERM"})):
        for rank in range(8):
            own = {0: {"number": 81}, 5: {"number": 80}}.get(rank, {"call": "all_reduce", "number": 81})
            box.state(rank, kind, seconds, last=100.0, **own, **how)
    assert verdict(tmp_path).culprits.ranks == [5]


def test_numbers_of_calls_tell_nobody_apart_where_those_that_wait_differ(tmp_path):
    box = Box(tmp_path, world=8)
    for kind, seconds, how in ((layout.HANG, 400, {}), (layout.DEATH, 500, {"signal": "SIGTERM"})):
        for rank in range(8):
            own = {0: {"number": 81}, 5: {"number": 80}}.get(
                rank, {"call": "all_reduce", "number": 81 + 40 * (rank % 2)}
            )
            box.state(rank, kind, seconds, last=100.0, **own, **how)
    assert verdict(tmp_path).culprits.ranks == [0, 5]


@pytest.mark.parametrize(("number", "named"), [(699, [3]), (600, []), (700, [])])
def test_where_all_wait_for_their_devices_the_one_that_began_fewer_calls_is_named(tmp_path, number, named):
    """A rank of another group is behind by more with each step, and is not meant."""
    box = Box(tmp_path, world=8)
    for kind, seconds, how in ((layout.HANG, 400, {}), (layout.DEATH, 500, {"signal": "SIGTERM"})):
        for rank in range(8):
            box.state(rank, kind, seconds, step=70, last=100.0, number=number if rank == 3 else 700, **how)
    assert verdict(tmp_path).culprits.ranks == named


@pytest.mark.parametrize("kind", [layout.EXCEPTION, layout.END])
def test_a_hang_that_somebody_ends_is_what_was_seen_before(tmp_path, kind):
    """Ctrl-C moves the rank that hung, and takes the others out of their call."""
    box = Box(tmp_path)
    for rank in range(4):
        own = {"phase": "checkpoint"} if rank == 2 else {"call": "all_reduce"}
        box.state(rank, layout.HANG, 400, last=100.0, **own)
    if kind == layout.EXCEPTION:
        box.raised(1, 500, "RuntimeError", GLOO)
    else:
        box.write(2, layout.END, 500, how="ended")
    for rank in range(4):
        at_last = 501.0 if rank == 2 else 100.0
        box.state(
            rank,
            layout.DEATH,
            510 + rank,
            last=at_last,
            signal="SIGINT",
            phase="checkpoint" if rank == 2 else "forward",
        )
    said = verdict(tmp_path)
    assert (said.culprits.ranks, said.classes.phase) == ([2], Phase.CHECKPOINT)


def test_who_died_before_the_others_stood_still_did_not_hang(tmp_path):
    box = Box(tmp_path)
    box.state(3, layout.DEATH, 100, last=99.0, signal="SIGKILL", how="was ended by SIGKILL")
    for rank in (0, 1, 2):
        own = {"phase": "checkpoint"} if rank == 2 else {"call": "all_reduce"}
        box.state(rank, layout.HANG, 400, last=100.0, **own)
    assert verdict(tmp_path).culprits.ranks == [3]


def left_with_code_0(folder, ended, others="all_reduce", **fields):
    """Ranks that end with code 0, while the others go on and then lose them."""
    box = Box(folder)
    for rank in ended:
        box.state(rank, layout.END, 102, last=100.0, exit_code=0, how="exited with code 0", world=4)
    for rank in set(range(4)) - set(ended):
        box.raised(rank, 103, "RuntimeError", GLOO)
        own = {"last": 101.0, "exit_code": 1, "how": "exited with code 1", "world": 4, **fields}
        box.state(rank, layout.DEATH, 104 + rank, call=others, **own)
    return box


def test_a_rank_that_leaves_with_code_0_while_the_others_go_on_is_named(tmp_path):
    left_with_code_0(tmp_path, [2])
    said = verdict(tmp_path)
    assert (said.culprits.ranks, said.culprits.strength) == ([2], Strength.POSSIBLE)
    assert "code 0" in said.summary


@pytest.mark.parametrize(("ended", "fields"), [([1, 2, 3], {}), ([2], {"step": 5})])
def test_who_ends_with_code_0_when_nearly_all_do_or_before_it_was_called_is_not_blamed(tmp_path, ended, fields):
    left_with_code_0(tmp_path, ended, **fields)
    assert verdict(tmp_path).culprits.ranks == []


def dump(rank, state="scheduled"):
    """The recorder of a rank of 4 that waits in call 81 of the default group."""
    group = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    call = {"record_id": 80, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 81, "p2p_seq_id": 0, "op_id": 81,
            "profiling_name": "gloo:all_reduce", "time_created_ns": 1_000_000_000, "input_sizes": [[8]], "input_dtypes": ["Float"],
            "output_sizes": [[8]], "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 30000, "is_p2p": False, "frames": []}  # fmt: skip
    return pickle.dumps({"version": "2.10", "pg_config": group, "pg_status": {}, "entries": [call]})


def test_a_missing_dump_of_a_rank_that_recorded_tells_nothing_of_it(tmp_path):
    """The recorder asked rank 0 in time, and no other; how the others ended stands in the box."""
    box = left_with_code_0(tmp_path, [2])
    (box.folder / "node-00" / "rank-00000.0.4000.fr").write_bytes(dump(0))
    said = verdict(tmp_path)
    assert said.culprits.ranks == [2]
    assert "No dump is here" not in said.summary


def test_stacks_and_dumps_of_another_run_are_not_of_this_job(tmp_path):
    """Four ranks recorded into a folder, then a job of two, which ended well."""
    before = left_with_code_0(tmp_path, [2])
    there = before.folder / "node-00"
    (there / "rank-00003.0.4003.fr").write_bytes(dump(3))
    head = "firstfault stacks: rank 3, pid 4003, attempt 0, host node-00; fatal signal\n"
    body = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f0000000000 (most recent call first):\n"
    (there / "rank-00003.0.4003.fatal.txt").write_text(
        f'{head}{body}  File "train.py", line 5 in step\n', encoding="utf-8"
    )
    now = Box(tmp_path, world=2, run="run-1.2")
    for rank in range(2):
        now.node(rank, layout.END, 900, exit_code=0, how="exited with code 0", world=2)
    found = diagnose([tmp_path])
    assert (found.verdict.category, found.verdict.failed) == (Category.NONE, False)
    skipped = {c.file.rsplit("/", 1)[-1] for c in found.coverage if c.state is CoverageState.SKIPPED}
    assert {"rank-00003.0.4003.fr", "rank-00003.0.4003.fatal.txt", "node.jsonl"} <= skipped
    assert found.ranks.expected == 2


def test_a_group_of_exceptions_means_what_its_members_mean(tmp_path):
    box = Box(tmp_path, world=2)
    members = [
        {"type": "ValueError", "message": "odd", "traceback": [], "member": True},
        {"type": "OSError", "message": "[Errno 28] No space left on device", "traceback": [], "member": True},
    ]
    box.raised(1, 100, "ExceptionGroup", "many (2 sub-exceptions)", chain=members)
    said = verdict(tmp_path)
    assert (said.category, said.first_failed.ranks) == (Category.STORAGE_IO, [1])


@pytest.mark.parametrize(("code", "told"), [(1, True), (0, False)])
def test_the_text_with_which_a_program_ends_is_told_where_it_ended_so(tmp_path, code, told):
    box = Box(tmp_path, world=2)
    box.write(1, layout.END, 100, how="ended", said="fatal: the dataset is empty")
    box.node(1, layout.DEATH if code else layout.END, 100.1, exit_code=code, how=f"exited with code {code}")
    assert ("the dataset is empty" in verdict(tmp_path).summary) is told


@pytest.mark.parametrize(("states", "told"), [("TT", True), ("TS", False)])
def test_a_process_that_is_stopped_is_told_so(tmp_path, states, told):
    box = Box(tmp_path)
    box.hung({2})
    threads = [{"thread": 4002 + n, "state": state} for n, state in enumerate(states)]
    for part in (1, 2):
        box.state(2, layout.STATE, 400 + part, last=100.0, bundle=1, part=part, silent=True, threads=threads)
    summary = verdict(tmp_path).summary
    assert ("SIGSTOP" in summary) is told
    assert ("interpreter's lock" in summary) is not told


def test_since_when_it_stands_still_is_told_with_the_monitors_line(tmp_path):
    Box(tmp_path, world=4).hung({2}, since=100.0, phase="data")
    since = diagnose([tmp_path]).job["still_since"]
    assert since.value.startswith("2026-11-30T09:01:40")
    assert '"kind":"hang"' in since.evidence[0].text
    assert '"rank":2' in since.evidence[0].text


CAUGHT = """Caught OSError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "worker.py", line 374, in _worker_loop
    data = fetcher.fetch(index)
  File "data.py", line 6, in __getitem__
    return read(path)
{last}
"""


@pytest.mark.parametrize(
    ("last", "category"),
    [
        ("OSError: [Errno 5] Input/output error: '/data/shard-0003.tar'", Category.STORAGE_IO),
        ("data.Unlike: 17 samples where 16 are", Category.DATA),
        ("", Category.DATA),
    ],
)
def test_what_a_worker_raised_is_what_its_rank_raised_again(tmp_path, last, category):
    box = Box(tmp_path, world=4)
    box.raised(2, 100, "OSError", CAUGHT.format(last=last), phase="data")
    box.node(2, layout.DEATH, 101, how="exited with code 1", exit_code=1, step=7, phase="data")
    said = verdict(tmp_path)
    assert (said.category, said.first_failed.ranks) == (category, [2])


def test_what_the_recorder_writes_above_stacks_is_no_word_of_the_rank(tmp_path):
    """A rank that aborted without a reason; the line that says whose stacks follow was quoted as its last words."""
    box = Box(tmp_path)
    for rank in range(4):
        box.write(rank, layout.HEADER, 0, world=4)
    box.node(1, layout.DEATH, 200, how="was ended by SIGABRT", signal="SIGABRT", step=9, phase="forward")
    head = "firstfault stacks: rank 1, pid 4001, attempt 0, host node-00; fatal signal\n"
    body = 'Fatal Python error: Aborted\n\nCurrent thread 0x00007f0000000000 (most recent call first):\n  File "train.py", line 5 in step\n'
    (box.folder / box.host(1) / "rank-00001.0.4001.fatal.txt").write_text(head + body, encoding="utf-8")
    said = verdict(tmp_path)
    assert said.first_failed.ranks == [1]
    assert "SIGABRT" in said.summary
    assert "firstfault stacks" not in said.summary
    assert said.trigger is None or "firstfault stacks" not in said.trigger.text


def spent(*, seen=True, **places):
    return {"looks": 90, "waits_seen": seen, **places}


@pytest.mark.parametrize(
    ("seen", "phases", "named"),
    [
        (True, ["backward", "forward", "backward"], [1]),
        (True, ["optimizer", "backward", "augment", "backward"], [2]),
        # On devices a wait is seen anywhere.
        (False, ["backward", "forward", "backward"], []),
        # All wait, or half of them are elsewhere: nobody is told apart.
        (True, ["backward", "backward", "backward"], []),
        (True, ["backward", "forward", "forward", "backward"], []),
    ],
)
def test_who_is_in_no_wait_while_all_others_are_is_named_under_ddp_too(tmp_path, seen, phases, named):
    box = Box(tmp_path, world=len(phases))
    for rank, phase in enumerate(phases):
        last = 100.3 if phase in {"backward", "optimizer"} else 100.0
        # Of a rank whose interpreter's lock is held nothing was seen.
        seen_of_it = {} if seen and phase == "forward" else {"spent": spent(seen=seen, forward=1.0)}
        box.state(rank, layout.HANG, 400, phase=phase, last=last, **seen_of_it)
    assert verdict(tmp_path).culprits.ranks == named


def test_a_stopped_rank_is_named_where_nothing_else_tells_it_apart(tmp_path):
    box = Box(tmp_path, world=3)
    for rank in range(3):
        box.state(rank, layout.HANG, 400, phase="backward", last=100.0)
        threads = [{"thread": 4000 + rank, "state": "T" if rank == 1 else "S"}]
        box.state(rank, layout.STATE, 401, phase="backward", last=100.0, bundle=1, part=1, threads=threads)
    said = verdict(tmp_path)
    assert said.culprits.ranks == [1]
    assert "SIGSTOP" in said.summary


def test_a_training_thread_that_raised_did_not_complete_whatever_its_process_returned(tmp_path):
    trace = [
        {"file": "/usr/lib/python3.11/threading.py", "line": 975, "function": "run"},
        {"file": "train.py", "line": 5, "function": "work"},
    ]
    for name, own in (("trains", {"trains": True}), ("other", {})):
        box = Box(tmp_path / name, world=2)
        box.raised(1, 100, "ValueError", "label 17 is outside", thread="trainer", traceback=trace, **own)
        for rank in range(2):
            box.state(rank, layout.END, 110 + rank, last=109, exit_code=0, how="exited with code 0")
    assert verdict(tmp_path / "trains").first_failed.ranks == [1]
    assert verdict(tmp_path / "other").failed is False


def test_several_slow_ranks_and_one_under_ddp_are_told(tmp_path):
    for name, slow, text in (
        ("one", {1}, "Rank 1 (node-00) was slower"),
        ("two", {4, 5}, "Ranks 4-5 (node-01) were slower"),
    ):
        box = Box(tmp_path / name, world=8)
        for rank in range(8):
            times = {"forward": 75.0, "backward": 25.0} if rank in slow else {"forward": 25.0, "backward": 75.0}
            box.node(rank, layout.DEATH, 100 + rank / 100, step=400, steps=400, pace_s=0.5, phase="forward", still_s=0.1, signal="SIGTERM",
                     last="2026-11-30T09:01:39+00:00", spent=spent(**times), how="was ended by SIGTERM")  # fmt: skip
        said = verdict(tmp_path / name)
        assert text in said.summary
        assert said.culprits.ranks == []


def test_an_exception_that_is_held_back_is_told_of_who_stands_still(tmp_path):
    box = Box(tmp_path, world=4)
    box.hung({2}, phase="data")
    trace = [
        {"file": "/x/train.py", "line": 40, "function": "main"},
        {"file": "/x/data.py", "line": 7, "function": "read"},
    ]
    told = {"handling": {"type": "ValueError", "message": "bad label\nmore", "traceback": trace}}
    box.state(2, layout.STATE, 401, phase="data", last=100.0, bundle=1, part=1, answer=told)
    assert "ValueError: bad label in read (data.py:7)" in verdict(tmp_path).summary
    # Asked again, it deals with none.
    box.state(2, layout.STATE, 402, phase="data", last=100.0, bundle=1, part=2, answer={"threads": {}})
    assert "ValueError" not in verdict(tmp_path).summary


@pytest.mark.parametrize("told", [True, False])
def test_who_was_told_to_stop_did_not_complete_though_its_program_made_code_0_of_it(tmp_path, told):
    box = Box(tmp_path, world=2)
    for rank in range(2):
        box.state(rank, layout.END, 110 + rank, last=109, exit_code=0, how="exited with code 0")
        if told:
            text = f"{layout.STACKS_OF}rank {rank}, pid {4000 + rank}, attempt 0, host node-00; SIGTERM\n"
            stem = layout.name_of(rank, 0, 4000 + rank)
            (box.folder / "node-00" / f"{stem}{layout.SIGTERM}").write_text(
                text + '  File "train.py", line 9 in main\n'
            )
    said = verdict(tmp_path)
    assert said.category is (Category.INFRASTRUCTURE if told else Category.NONE)
    assert ("told to stop" in said.summary) is told
