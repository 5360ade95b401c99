"""Hangs whose lines name no group and no number, or in which few wait alone: from the text of the logs to the answer.

The truth is what the made-up job did: each file holds what a process of such a job prints.
"""

from __future__ import annotations

import pytest

from firstfault.analysis.questions import hang
from firstfault.analysis.state.picture import picture
from firstfault.model.words import Category, Phase, Strength
from firstfault.pipelines.diagnose import concluded, diagnose
from firstfault.pipelines.options import DiagnoseOptions

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
GAVE_UP = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 60000ms for recv operation to complete"
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.3]:41733"


def stack(rank, call, line, last=GAVE_UP):
    text = [
        "Traceback (most recent call last):",
        '  File "/srv/feed/train.py", line 90, in <module>',
        "    main()",
        f'  File "/srv/feed/train.py", line {line}, in main',
        f"    dist.{call}(mean)",
        f'  File "{TORCH}/c10d_logger.py", line 83, in wrapper',
        "    return func(*args, **kwargs)",
        f'  File "{TORCH}/distributed_c10d.py", line 3252, in {call}',
        "    work.wait()",
        last,
    ]
    return [f"[rank{rank}]: {x}" for x in text]


def steps(rank, world, upto=3):
    lines = [f"2026-03-02 10:00:0{rank % 10},100 - feed - INFO - rank {rank} of {world} is up"]
    for n in range(1, upto + 1):
        lines += [
            f"2026-03-02 10:00:1{n},100 - feed - INFO - rank {rank}: reading /mnt/feed/part-{rank}-{n}.jsonl",
            f"2026-03-02 10:00:1{n},400 - feed - INFO - rank {rank}: part {n} mean 0.500",
        ]
    return lines


@pytest.fixture
def job(tmp_path):
    def write(**files):
        for name, lines in files.items():
            (tmp_path / f"{name}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return diagnose([tmp_path]).verdict, row(tmp_path)

    return write


def row(folder):
    with concluded([folder], DiagnoseOptions()) as found:
        scene = found.conclusion.scene
        return None if scene.hang is None else hang.decide(picture(scene))[0]


@pytest.mark.parametrize("odd", [0, 2, 3])
def test_a_rank_in_another_call_than_all_others_took_another_way(job, odd):
    calls = {r: ("broadcast", 61) if r == odd else ("all_reduce", 57) for r in range(4)}
    verdict, applied = job(**{f"rank_{r}": [*steps(r, 4), *stack(r, *calls[r])] for r in range(4)})
    assert applied == "apart"
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.strength is Strength.SUPPORTED
    assert verdict.culprits.ranks == [odd]
    assert "broadcast (train.py:61)" in verdict.summary


def test_of_two_ranks_the_one_in_a_barrier_left_the_loop_early_as_a_possibility(job):
    verdict, applied = job(
        rank_0=[*steps(0, 2), *stack(0, "all_reduce", 57)],
        rank_1=[*steps(1, 2), *stack(1, "monitored_barrier", 64)],
    )
    assert applied == "apart"
    assert verdict.culprits.ranks == [1]
    assert verdict.culprits.strength is Strength.POSSIBLE
    assert verdict.strength is Strength.POSSIBLE


def test_of_two_ranks_in_two_calls_that_are_no_barrier_nobody_is_named(job):
    verdict, _ = job(
        rank_0=[*steps(0, 2), *stack(0, "all_reduce", 57)],
        rank_1=[*steps(1, 2), *stack(1, "broadcast", 64)],
    )
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.culprits.ranks == []


def test_ranks_in_one_call_are_not_apart_however_it_ended(job):
    verdict, applied = job(
        rank_0=[*steps(0, 2), *stack(0, "all_reduce", 57)],
        rank_1=[*steps(1, 2), *stack(1, "all_reduce", 57, CLOSED)],
    )
    assert applied == "unaccounted"
    assert verdict.category is Category.UNKNOWN
    assert verdict.culprits.ranks == []


def test_where_a_rank_left_no_traceback_different_calls_of_the_others_prove_nothing(job):
    calls = {0: ("all_reduce", 57), 1: ("broadcast", 61), 2: ("all_reduce", 57)}
    files = {f"rank_{r}": [*steps(r, 4), *(stack(r, *calls[r]) if r in calls else [])] for r in range(4)}
    verdict, applied = job(**files)
    assert applied == "quiet"
    assert verdict.culprits.ranks == [3]
    assert verdict.category is not Category.COLLECTIVE_MISMATCH


@pytest.mark.parametrize("late", [0, 3])
def test_the_one_of_several_complete_logs_that_says_nothing_is_named_with_its_last_words(job, late):
    files = {f"rank_{r}": [*steps(r, 4), *(stack(r, "all_reduce", 57) if r != late else [])] for r in range(4)}
    files[f"rank_{late}"] = files[f"rank_{late}"][:-1]
    verdict, applied = job(**files)
    assert applied == "quiet"
    assert verdict.culprits.ranks == [late]
    assert verdict.culprits.strength is Strength.POSSIBLE
    assert verdict.category is Category.DATA_LOADING_STALL
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.trigger is not None
    assert f"rank {late}: reading" in verdict.trigger.text


def test_of_many_that_say_nothing_nobody_is_named(job):
    files = {f"rank_{r}": [*steps(r, 4), *(stack(r, "all_reduce", 57) if r < 2 else [])] for r in range(4)}
    verdict, _ = job(**files)
    assert verdict.culprits.ranks == []


def test_a_rank_without_a_file_is_not_taken_for_a_silent_one(job):
    files = {f"rank_{r}": [*steps(r, 4), *stack(r, "all_reduce", 57)] for r in range(3)}
    assert job(**files)[0].culprits.ranks == []


LOST = (
    "[rank{r}]:[W302 10:00:20.820357828 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=3, "
    "addr=[::ffff:127.0.0.1]:52974, remote=[::ffff:127.0.0.1]:48761): Failed to recv, got 0 bytes. Connection was likely closed. "
    "Did the remote server shutdown or crash?"
)
ERROR = "[rank{r}]: torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
AGENT = "W0302 10:00:21.268000 29954 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 29970 closing signal SIGTERM"


def test_where_the_store_is_lost_and_no_launcher_holds_one_it_went_with_rank_0(job):
    files = {f"rank_{r}": [*steps(r, 3), LOST.format(r=r), ERROR.format(r=r)] for r in (1, 2)}
    verdict, _ = job(rank_0=steps(0, 3), **files)
    assert verdict.culprits.ranks == [0]
    assert verdict.culprits.strength is Strength.POSSIBLE
    assert verdict.culprits.hosts == []
    assert verdict.category is Category.UNKNOWN


def test_a_launcher_holds_the_store_itself(job):
    files = {f"rank_{r}": [*steps(r, 3), LOST.format(r=r), ERROR.format(r=r)] for r in (1, 2)}
    assert job(rank_0=[*steps(0, 3), AGENT], **files)[0].culprits.ranks == []


def timeout(rank, clock, op, seq, numel, group, *, ran=600021, out=None):
    guid, desc = group
    return [
        (
            f"[rank{rank}]:[E302 {clock}.000284243 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
            f"OpType={op}, NumelIn={numel}, NumelOut={out or numel}, Timeout(ms)=600000) ran for {ran} milliseconds before timing out."
        ),
        (
            f"[rank{rank}]:[E302 {clock}.000336331 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID {guid}({desc}) Rank {rank}]  failure detected by watchdog at work "
            f"sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {seq - 1}"
        ),
    ]


def down(rank, clock):
    return [
        f"[rank{rank}]:[E302 {clock}.006500797 ProcessGroupNCCL.cpp:758] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
    ]


WORLD = "10:00:02    INFO Starting in World(world_size=2, rank={r}, local_rank={r}, local_world_size=2, num_nodes=1)"
WHOLE, SHARDS = ("0", "default_pg"), ("3", "mesh_dp_shard_cp")


def in_two_groups(ends):
    return {
        "rank_0": [WORLD.format(r=0), *timeout(0, "10:12:46", "ALLREDUCE", 12, 1, WHOLE), *down(0, ends)],
        "rank_1": [
            WORLD.format(r=1),
            *timeout(1, "10:12:47", "_ALLGATHER_BASE", 19128, 7866368, SHARDS, out=15732736),
            *down(1, ends),
        ],
    }


def test_ranks_that_wait_in_two_groups_and_live_on_took_two_ways(job):
    verdict, applied = job(**in_two_groups("10:13:47"))
    assert applied == "circle"
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.culprits.ranks == [0]
    assert verdict.culprits.strength is Strength.POSSIBLE


def test_ranks_that_end_at_once_may_not_have_told_of_their_other_waits(job):
    verdict, applied = job(**in_two_groups("10:12:47"))
    assert applied == "circle"
    assert verdict.category is Category.UNKNOWN
    assert verdict.culprits.ranks == []


SAVE = "[saver.py:147] 03/02/2026 10:00:0{n} >> [Rank {r}] Starting dcp.save() to /mnt/fs/run7/global_step_600"
SAVED = "[saver.py:160] 03/02/2026 10:09:0{n} >> [Rank {r}] Saved checkpoint to /mnt/fs/run7/global_step_600"


def saving(begun, waiting, more=()):
    lines = [WORLD.replace("world_size=2", "world_size=8").format(r=0)]
    lines += [SAVE.format(n=r, r=r) for r in begun]
    lines += list(more)
    return lines + [x for r in waiting for x in timeout(r, "10:15:18", "ALLREDUCE", 88214, 1, WHOLE)]


def test_ranks_that_wait_inside_a_save_that_nobody_ended_speak_for_a_slow_store(job):
    verdict, applied = job(node=saving(range(8), (1, 3, 5)))
    assert applied == "saving"
    assert verdict.category is Category.STORAGE_IO
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.classes.phase is Phase.CHECKPOINT
    assert verdict.culprits.ranks == []


def test_a_save_that_ended_or_of_some_ranks_alone_is_none(job):
    assert job(node=saving(range(8), (1, 3, 5), [SAVED.format(n=9, r=0)]))[1] != "saving"
    assert job(node=saving([0], (1, 3, 5)))[1] != "saving"
    assert job(node=saving([0, 2], (1, 3, 5)))[1] != "saving"


PAIR = (
    "[rank{r}]:[W302 09:41:04.938412804 ProcessGroupNCCL.cpp:4025] Warning: [PG ID 9 PG GUID 37(PIPELINE_MODEL_PARALLEL_GROUP) Rank 0] An unbatched P2P op "
    "(send/recv) was called on this ProcessGroup with size 4.  In lazy initialization mode, this will result in a new 2-rank NCCL communicator to be created. "
)
PIPE = ("37", "PIPELINE_MODEL_PARALLEL_GROUP")


def test_single_sends_and_receives_that_set_up_pairs_may_meet_in_different_orders(job):
    lines = [WORLD.replace("world_size=2", "world_size=4").format(r=0), PAIR.format(r=0)]
    lines += [x for r in (0, 2) for x in timeout(r, "10:15:18", "RECV", 1119 + r, 4194304, PIPE)]
    verdict, applied = job(node=lines)
    assert applied == "pairs"
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.culprits.ranks == []
    assert job(node=[x for x in lines if "unbatched" not in x])[0].category is Category.UNKNOWN


CAUGHT = "RuntimeError: [Rank 1] Caught collective operation timeout: WorkNCCL(SeqNum=115237, OpType=BROADCAST, TensorShape=[1], Timeout(ms)=3600000) ran for 3600077 milliseconds before timing out."
TRAINED = "        1/100      21.4G      1.212      1.874        640: 100%|{b}| 38411/38411 [21:09:44<00:00, 1.98s/it]"
CHECKED = "                 Class     Images  Instances      mAP50-95):   0%|  | 0/20214 [00:00<?, ?it/s]\r                 Class     Images  Instances      mAP50-95): 100%|{b}| 20214/20214 [{took}<00:00, 5.63it/s]"


def one_waits(*before):
    raised = [x.removeprefix("[rank1]: ") for x in stack(1, "broadcast", 373, CAUGHT)]
    agent = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 2292) of binary: /opt/conda/bin/python"
    return [*before, *raised, agent]


def test_a_bar_that_ran_through_the_wait_of_all_others_is_of_the_rank_that_did_not_wait(job):
    verdict, _ = job(train=one_waits(TRAINED.format(b="#" * 9), CHECKED.format(b="#" * 9, took="59:10")))
    assert verdict.category is Category.DATA_LOADING_STALL
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.culprits.ranks == [0]
    assert verdict.trigger is not None
    assert "0/20214" in verdict.trigger.text


@pytest.mark.parametrize(
    "before",
    [
        [TRAINED.format(b="#" * 9)],
        [TRAINED.format(b="#" * 9), CHECKED.format(b="#" * 9, took="09:10")],
        [CHECKED.format(b="#" * 9, took="59:10")],
    ],
)
def test_a_bar_of_training_one_that_was_short_or_one_of_an_unknown_kind_is_nobodys(job, before):
    verdict, _ = job(train=one_waits(*before))
    assert verdict.culprits.ranks == []
    assert verdict.category is Category.UNKNOWN


JOINED = "Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {m}/4"
DONE = "[2026-03-02 10:05:1{r},370][feed.cli][INFO] - run finished"
AT_WORK = "[2026-03-02 10:05:1{r},370][feed.cli][INFO] - rank {r}: epoch 3 finished, loading the next shard"


def alone_at_the_end(last):
    others = {f"rank_{r}": [JOINED.format(r=r, m=r + 1), last.format(r=r)] for r in (1, 2, 3)}
    own = [JOINED.format(r=0, m=1), "[2026-03-02 10:05:11,100][feed][INFO] - saving the final weights"]
    own += timeout(0, "10:15:18", "ALLREDUCE", 40962, 1, WHOLE)
    return {"rank_0": own, **others}


def test_a_rank_that_waits_after_all_others_had_ended_is_in_a_collective_of_its_own(job):
    verdict, _ = job(**alone_at_the_end(DONE))
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.culprits.ranks == [0]


def test_others_that_were_at_work_have_not_ended(job):
    verdict, _ = job(**alone_at_the_end(AT_WORK))
    assert verdict.category is Category.UNKNOWN
    assert verdict.culprits.ranks == []


def test_all_who_wait_for_the_id_of_rank_0_name_it(job):
    asked = (
        "torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
    )  # fmt: skip
    verdict, applied = job(**{f"rank_{r}": [f"[rank{r}]: {asked.format(r=r)}"] for r in (1, 2, 3)})
    assert applied == "named"
    assert list(verdict.culprits.ranks) == [0]
    assert verdict.category is Category.UNKNOWN
