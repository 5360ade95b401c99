"""Ranks that wait at one number by different calls, ranks that are late and alive, and who waits for the first in a barrier.

The truth is what the made-up job did: each file holds what a process of such a job prints.
"""

from __future__ import annotations

import pytest

from firstfault.analysis.questions import hang
from firstfault.analysis.state.picture import picture
from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import concluded, diagnose
from firstfault.pipelines.options import DiagnoseOptions

SITE = "/srv/env/lib/python3.9/site-packages"
WORK = "WorkNCCL(SeqNum=4120, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for {ms} milliseconds before timing out."


def old_watchdog(rank):
    return [
        f"[E ProcessGroupNCCL.cpp:587] [Rank {rank}] Watchdog caught collective operation timeout: " + WORK.format(ms=1800120 + rank),
        "[E ProcessGroupNCCL.cpp:341] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data. To avoid this inconsistency, we are taking the entire process down.",
    ]  # fmt: skip


def aborted(rank, *frames):
    text = ["Traceback (most recent call last):", '  File "fit.py", line 88, in <module>', "    fit()"]
    for file, line, function in frames:
        text += [f'  File "{file}", line {line}, in {function}', "    call()"]
    return [
        *text,
        f"RuntimeError: NCCL communicator was aborted on rank {rank}.  Original reason for failure was: [Rank {rank}] "
        "Watchdog caught collective operation timeout: " + WORK.format(ms=1800120 + rank),
    ]


BACKWARD = (
    (f"{SITE}/pytorch_lightning/strategies/strategy.py", 191, "backward"),
    (f"{SITE}/torch/_tensor.py", 396, "backward"),
    (f"{SITE}/torch/autograd/__init__.py", 173, "backward"),
)
BARRIER = (
    (f"{SITE}/pytorch_lightning/strategies/ddp.py", 318, "barrier"),
    (f"{SITE}/torch/distributed/distributed_c10d.py", 2776, "barrier"),
)
GATHER = (("eval.py", 31, "collect"), (f"{SITE}/torch/distributed/distributed_c10d.py", 2070, "all_gather"))
REDUCE = (("eval.py", 44, "mean"), (f"{SITE}/torch/distributed/distributed_c10d.py", 1320, "all_reduce"))


@pytest.fixture
def job(tmp_path):
    def write(files):
        for name, lines in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with concluded([tmp_path], DiagnoseOptions()) as found:
            scene = found.conclusion.scene
            row = None if scene.hang is None else hang.decide(picture(scene))[0]
        return diagnose([tmp_path]).verdict, row

    return write


def four(ways):
    return {f"worker{r}.err": [*old_watchdog(r), *aborted(r, *ways[r])] for r in range(4)}


@pytest.mark.parametrize(
    ("odd", "small", "large"), [(2, BARRIER, BACKWARD), (0, BARRIER, BACKWARD), (3, GATHER, REDUCE)]
)
def test_one_rank_in_another_call_at_the_same_number_is_the_odd_one(job, odd, small, large):
    verdict, row = job(four({r: small if r == odd else large for r in range(4)}))
    assert row == "ways"
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.culprits.ranks == [odd]


def test_two_against_two_name_nobody(job):
    verdict, row = job(four({r: BARRIER if r < 2 else BACKWARD for r in range(4)}))
    assert row == "ways"
    assert verdict.culprits.ranks == []


def test_all_in_one_call_took_one_way(job):
    verdict, row = job(four(dict.fromkeys(range(4), BACKWARD)))
    assert row != "ways"
    assert verdict.category is not Category.COLLECTIVE_MISMATCH


def test_one_without_a_stack_leaves_the_ways_open(job):
    files = four({r: BARRIER if r == 1 else BACKWARD for r in range(4)})
    files["worker3.err"] = old_watchdog(3)
    _, row = job(files)
    assert row != "ways"


def watchdog(rank, clock="14:40:10"):
    start = f"[rank{rank}]:[E608 {clock}.1234{rank}6789 ProcessGroupNCCL.cpp:"
    work = "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
    return [
        f"{start}632] [Rank {rank}] Watchdog caught collective operation timeout: {work}",
        f"{start}2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 88 PG status: last enqueued work: 90, last completed work: 87",
        f"[rank{rank}]:[E608 14:41:10.1234{rank}6789 ProcessGroupNCCL.cpp:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
    ]  # fmt: skip


def start(rank, world):
    return f"2025-06-08 14:20:01,00{rank} INFO runner: rank {rank}/{world} ready, world size {world}"


ALIVE = {
    "export": ["2025-06-08 14:{m}:05,410 INFO export: tile {m} of 400 written to the report"],
    "games": ["[2025-06-08 14:{m}:05] arena: game {m} of 64 finished, draw"],
}


@pytest.mark.parametrize("kind", ALIVE)
def test_a_late_rank_that_prints_on_during_the_wait_was_busy(job, kind):
    lines = [line.format(m=m) for m in range(29, 40) for line in ALIVE[kind]]
    files = {f"logs/rank{r}.log": [start(r, 4), *watchdog(r)] for r in (1, 2, 3)}
    files["logs/rank0.log"] = [start(0, 4), *lines]
    verdict, _ = job(files)
    assert verdict.category is Category.DATA_LOADING_STALL
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.culprits.ranks == [0]
    assert verdict.trigger is not None
    assert ":39:05" in verdict.trigger.text


def test_a_late_rank_whose_lines_end_before_the_wait_may_be_dead(job):
    files = {f"logs/rank{r}.log": [start(r, 4), *watchdog(r)] for r in (1, 2, 3)}
    files["logs/rank0.log"] = [start(0, 4), "2025-06-08 14:22:05,410 INFO export: tile 3 of 400 written to the report"]
    verdict, _ = job(files)
    assert verdict.category is Category.UNKNOWN
    assert verdict.culprits.ranks == [0]


REPORT = [
    "E0608 14:41:12.140000 4181 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 1 (pid: 4241) of binary: /srv/env/bin/python",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2025-06-08_14:41:11",
    "  host      : bench-3",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : -6 (pid: 4241)",
    "  error_file: <N/A>",
    "  traceback : Signal 6 (SIGABRT) received by PID 4241",
]


def test_of_two_files_of_a_rank_the_one_that_goes_on_tells(job):
    files = {}
    for r in range(4):
        files[f"run/none_ab12cd34/attempt_0/{r}/stderr.log"] = [
            "UserWarning: no device id was given",
            *(watchdog(r) if r else []),
        ]
        files[f"run/none_ab12cd34/attempt_0/{r}/stdout.log"] = [start(r, 4)]
    files["launch.log"] = REPORT
    files["run/none_ab12cd34/attempt_0/0/stdout.log"] += [
        f"2025-06-08 14:{m}:05,410 INFO bench: question {m} of 900" for m in range(29, 40)
    ]
    verdict, _ = job(files)
    assert verdict.category is Category.DATA_LOADING_STALL
    assert verdict.trigger is not None
    assert "question 39 of 900" in verdict.trigger.text


VICTIM = "Rank {r} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
RAN_OUT = "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 3600000ms for recv operation to complete"
GONE = "[../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.1.0.4]:20118"


def barrier(rank, why):
    return [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/srv/prep/run.py", line 40, in <module>',
        f"[rank{rank}]:     dist.monitored_barrier(group)",
        f"[rank{rank}]: RuntimeError: {VICTIM.format(r=rank)}",
        f"[rank{rank}]:  Original exception: ",
        f"[rank{rank}]: {why}",
    ]


@pytest.mark.parametrize("world", [3, 8])
def test_who_waits_for_the_first_rank_of_a_monitored_barrier_names_it(job, world):
    lines = [start(r, world) for r in range(world)]
    verdict, row = job({"all.log": lines + [x for r in range(1, world) for x in barrier(r, RAN_OUT)]})
    assert row == "named"
    assert verdict.culprits.ranks == [0]


def test_where_the_first_rank_names_another_that_one_is_late(job):
    lines = [start(r, 4) for r in range(4)]
    first = [
        "[rank0]: RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 3600000 ms",
        f"[rank0]: {RAN_OUT}",
    ]
    verdict, _ = job({"all.log": [*lines, *first, *barrier(1, RAN_OUT), *barrier(2, RAN_OUT)]})
    assert verdict.culprits.ranks == [3]


def test_a_first_rank_whose_connection_broke_is_not_called_late(job):
    lines = [start(r, 4) for r in range(4)]
    verdict, _ = job({"all.log": lines + [x for r in (1, 2, 3) for x in barrier(r, GONE)]})
    assert verdict.category is not Category.DATA_LOADING_STALL


def test_a_first_rank_that_waits_elsewhere_itself_is_not_called_late(job):
    lines = [start(r, 2) for r in range(2)]
    own = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/srv/prep/run.py", line 31, in <module>',
        "[rank0]:     dist.all_reduce(total)",
        f"[rank0]: RuntimeError: {RAN_OUT}",
    ]
    verdict, row = job({"all.log": [*lines, *own, *barrier(1, RAN_OUT)]})
    assert row != "named"
    assert verdict.culprits.ranks != [0]
