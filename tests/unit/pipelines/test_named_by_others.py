"""A rank that a launcher's line, a stall check, a barrier or a device's own error names, and numbers that name nobody."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions


def told(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline"))


def timeout(rank):
    return (
        f"[rank{rank}]:[E1112 08:28:20.014462300 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=1201, OpType=ALLREDUCE, NumelIn=33554432, NumelOut=33554432, Timeout(ms)=600000) "
        f"ran for {600010 + rank} milliseconds before timing out.\n"
    )


TASKS = {f"err-{r:02d}.log": "" if r == 9 else timeout(r) for r in range(16)}
SRUN = (
    "starting 16 tasks on v1 v2\n"
    "srun: error: v2: task 9: {how}\n"
    "srun: error: v1: tasks 0-7: Aborted (core dumped)\n"
    "srun: error: v2: tasks 8,10-15: Aborted (core dumped)\n"
)


@pytest.mark.parametrize("name", ["slurm-8.out", "slurm-481516.out", "launch-try3.log", "job.out.3"])
@pytest.mark.parametrize("how", ["Segmentation fault (core dumped)", "Bus error (core dumped)"])
def test_the_task_that_the_launcher_names_is_the_rank_and_a_number_in_the_name_of_its_file_is_none(tmp_path, name, how):
    found = told(tmp_path, {**TASKS, name: SRUN.format(how=how)}).verdict
    assert found.culprits.ranks in ([9], [])
    assert found.first_failed.ranks == [9]


def test_one_launcher_on_each_machine_starts_ranks_that_are_no_tasks(tmp_path):
    files = {f"rank{r}.log": timeout(r) for r in range(8)}
    files["slurm-8.out"] = (
        "srun: error: v2: task 1: Segmentation fault (core dumped)\nsrun: error: v1: task 0: Terminated\n"
    )
    found = told(tmp_path, files).verdict
    assert 1 not in found.culprits.ranks
    assert 8 not in found.culprits.ranks


WARNED = (
    "[1,0]<stderr>:[2026-11-12 08:12:01.123456: W /tmp/hvd/horovod/common/stall_inspector.cc:107] One or more tensors were "
    "submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than "
    "60 seconds.\n"
)


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        ("Missing ranks:\n[1,0]<stderr>:3: [DistributedOptimizer_Allreduce/cond/HorovodAllreduce_grads_0 ...]\n", [3]),
        ("Stalled ranks:\n[1,0]<stderr>:2!: [allreduce.layer1.weight, allreduce.layer2.weight ...]\n", [2]),
        ("Stall detected, shutting down: stalled for more than 1800 seconds. Missing ranks: 3\n", [3]),
        ("Missing ranks:\n[1,0]<stderr>:5: [training/Adam/HorovodBroadcast_lr_0]\n", [5]),
    ],
)
def test_the_ranks_that_horovod_misses_are_named(tmp_path, lines, ranks):
    start = "".join(f"[1,{r}]<stdout>:step 100 loss 2.1\n" for r in range(6))
    ended = "mpirun: killing job...\n"
    found = told(tmp_path, {"hvd.log": start + WARNED + "[1,0]<stderr>:" + lines + ended}).verdict
    assert found.failed is True
    assert found.culprits.ranks == ranks


def barrier(rank, inner, missing):
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/t.py", line 20, in sync\n'
        f"[rank{rank}]:     dist.monitored_barrier(group=g, timeout=timedelta(seconds=300))\n"
        f"[rank{rank}]: RuntimeError: [Rank {inner}]: Rank {missing} failed to pass monitoredBarrier in 300000 ms\n"
        f"[rank{rank}]:  Original exception: \n"
        f"[rank{rank}]: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 300000ms for recv "
        "operation to complete\n"
    )


@pytest.mark.parametrize(
    ("group", "own", "missing", "late"),
    [
        ("rank {r}: creating group ranks=[1, 3]", 1, 1, [3]),
        ("[rank{r}]: new_group(ranks=[1,5])", 1, 1, [5]),
        ("INFO init process_group tp1 with ranks: [4, 5, 6, 7]", 4, 2, [6]),
    ],
)
def test_the_rank_that_a_barrier_of_a_part_misses_is_named_by_its_number_in_the_job(
    tmp_path, group, own, missing, late
):
    files = {
        f"rank{own}.log": group.format(r=own) + "\n" + barrier(own, 0, missing),
        f"rank{late[0]}.log": group.format(r=late[0]) + "\n2026-11-12 08:01:40 unpacking /data/x.tar.zst\n",
    }
    assert told(tmp_path, files).verdict.culprits.ranks == late


def test_a_barrier_of_a_part_that_nobody_lists_names_nobody(tmp_path):
    files = {"rank1.log": barrier(1, 0, 1), "rank3.log": "2026-11-12 08:01:40 unpacking /data/x.tar.zst\n"}
    assert told(tmp_path, files).verdict.culprits.ranks in ([], [3])


def test_a_rank_in_two_listed_groups_at_the_same_place_says_nothing_of_either(tmp_path):
    head = "creating group ranks=[1, 3]\ncreating group ranks=[1, 2]\n"
    files = {f"rank{r}.log": head for r in (2, 3)} | {"rank1.log": head + barrier(1, 0, 1)}
    assert told(tmp_path, files).verdict.culprits.ranks == []


HEAD = "[ERROR] 2026-11-12-08:{at} (PID:{pid}, Device:{rank}, RankID:{rank}) {what}\n"
NOTIFY = (
    "EI0002: [PID: {pid}] 2026-11-12-08:41:02.100.000 The wait execution of the Notify register times out. Reason: The Notify "
    "register has not received the Notify record from remote rank [5].base information: [streamID:[12], taskID[9]]\n"
)
WRAPPER = (
    "RuntimeError: The Inner error is reported as above. The process exits for this inner error, and the current working "
    "operator name is aclnnMatmul.\n"
)
STARS = (
    "[ERROR] RUNTIME(4005,python):2026-11-12-08:11:01.123.456 [device_error_proc.cc:1212]4105 ProcessStarsCoreErrorInfo:The "
    "extend info: errcode:(0x800000, 0, 0) errorStr: The DDR address of the MTE instruction is out of range.\n"
)
CORE = (
    "EZ9999: Inner Error!\nEZ9999: [PID: 4005] 2026-11-12-08:11:01.200.000 The error from device(chipId:5, dieId:0), serial "
    "number is 4, there is an exception of aicore error, core id is 12, error code = 0x800000\n"
)


@pytest.mark.parametrize(
    "own",
    [
        STARS + WRAPPER + HEAD.format(at="11:02", pid=4005, rank=5, what="ERR00100 PTA call acl api failed") + CORE,
        WRAPPER + HEAD.format(at="11:02", pid=4005, rank=5, what="ERR00100 PTA call acl api failed"),
        '[rank5]: Traceback (most recent call last):\n[rank5]:   File "/t.py", line 9, in <module>\n[rank5]:     step()\n'
        "[rank5]: " + WRAPPER + CORE,
    ],
)
def test_a_wrapper_that_says_that_the_error_stands_above_it_is_the_error_of_the_core(tmp_path, own):
    files = {
        f"plog/rank_{r}.log": HEAD.format(at="41:02", pid=4000 + r, rank=r, what="ERR02200 DIST call hccl api failed.")
        + NOTIFY.format(pid=4000 + r)
        for r in range(8)
        if r != 5
    }
    found = told(tmp_path, {**files, "plog/rank_5.log": own}).verdict
    assert found.category is Category.GPU_CUDA
    assert found.culprits.ranks == [5]


def test_an_error_of_the_program_on_the_same_rank_is_no_error_of_the_core(tmp_path):
    own = "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/t.py\", line 9, in <module>\n[rank5]: KeyError: 'x'\n"
    files = {f"rank_{r}.log": f"[rank{r}]: " + NOTIFY.format(pid=4000 + r) for r in range(8) if r != 5}
    found = told(tmp_path, {**files, "rank_5.log": own}).verdict
    assert found.category in {Category.SOFTWARE, Category.DATA}
