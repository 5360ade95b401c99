"""Small jobs whose fault is put in by hand, of kinds that logs of other frameworks had shown: orders to stop, limits, odd sides, ends."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/proj/run.py", line 88, in <module>\n'
    "    main()\n"
    '  File "/proj/run.py", line 61, in main\n'
    "    engine.step()\n"
)


def verdict_of(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".").replace("_-", "-")).write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


TOLD = "W0504 10:02:00.000000 41 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting down workers\n"
LOST = "[rank2]:[E504 10:02:{s}.100200300 ProcessGroupNCCL.cpp:2057] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure\n"


@pytest.mark.parametrize("reason", ["", "2026-05-04 10:01:59 job fit-7 was preempted by a job of higher priority\n"])
def test_a_device_error_after_an_order_to_stop_is_no_fault_of_the_device(tmp_path, reason):
    text = "W0504 10:01:00.000000 41 run.py:3] step 10 loss 2.1 lr 0.1\n" + TOLD + LOST.format(s="31")
    files = {"train__log": text} | ({"events__txt": reason} if reason else {})
    verdict = verdict_of(tmp_path, **files)
    assert verdict.category is Category.INFRASTRUCTURE
    assert not verdict.culprits.ranks
    assert not verdict.first_failed.ranks


def test_a_device_error_before_an_order_to_stop_stays_the_fault(tmp_path):
    early = LOST.format(s="01").replace("10:02:", "10:00:")
    text = early + TOLD
    verdict = verdict_of(tmp_path, train__log=text)
    assert verdict.category is Category.GPU_CUDA
    assert verdict.first_failed.ranks == [2]


def test_a_kernel_line_that_the_order_to_stop_brought_about_blames_no_machine(tmp_path):
    kernel = "May  4 10:02:30 gx-4 kernel: [77.1] NVRM: Xid (PCI:0000:ab:00): 74, pid=881, name=python, NVLink: fatal error detected on link 3\n"
    text = (
        "2026-05-04T10:01:00.000Z gx-4 run[5]: step 10 loss 2.1 lr 0.1\n"
        "2026-05-04T10:02:00.000Z gx-4 run[5]: W0504 10:02:00.000000 41 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting down workers\n"
        "2026-05-04T10:02:31.000Z gx-4 run[5]: [rank3]: torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution\n"
    )
    verdict = verdict_of(tmp_path, job__log=text, kern__log=kernel)
    assert verdict.category is Category.INFRASTRUCTURE
    assert not verdict.culprits.hosts


@pytest.mark.parametrize(
    ("message", "hosts"),
    [
        ("Pod ephemeral local storage usage exceeds the total limit of containers 80Gi.", []),
        ('Container fit exceeded its local ephemeral storage limit "120Gi".', []),
        ('Usage of EmptyDir volume "scratch" exceeds the limit "20Gi".', []),
        ("The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi.", ["pool-b-2"]),
    ],
)
def test_only_the_nodes_own_shortage_is_the_nodes(tmp_path, message, hosts):
    text = (
        "9m  Normal   Scheduled  pod/fit-1  Successfully assigned ml/fit-1 to pool-b-2\n"
        f"1m  Warning  Evicted    pod/fit-1  {message}\n"
    )
    verdict = verdict_of(tmp_path, events__txt=text, fit__log="step 10 loss 2.1 lr 0.1\n")
    assert (verdict.category, verdict.culprits.hosts) == (Category.INFRASTRUCTURE, hosts)


OOM = (
    "{trace}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which "
    "1.10 GiB is free. {others}Including non-PyTorch memory, this process has 14.40 GiB memory in use. Of the allocated memory "
    "13.90 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n"
)
HOLDS = "Process {pid} has 2.70 GiB memory in use. "


@pytest.mark.parametrize(("pids", "own"), [((7102, 7103, 7104), True), ((900, 901, 902), False)])
def test_ranks_of_the_job_on_one_gpu_are_nobodys_fault_and_a_strangers_process_is_another_matter(tmp_path, pids, own):
    others = "".join(HOLDS.format(pid=p) for p in pids)
    text = (
        f"[rank0]: {OOM.format(trace='', others=others)}"
        + "".join(
            f"W0504 10:02:00.000000 7100 torch/distributed/elastic/multiprocessing/api.py:900] Sending process {p} closing signal SIGTERM\n"
            for p in (7102, 7103, 7104)
        )
        + "E0504 10:02:01.000000 7100 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 7101) of binary: /usr/bin/python3\n"
    )
    verdict = verdict_of(tmp_path, train__log=text)
    assert verdict.category is Category.GPU_CUDA
    assert verdict.first_failed.ranks == [0]
    assert bool(verdict.culprits.ranks) is not own
    assert ("of this job" in verdict.summary) is own


WAIT = "[rank{r}]:[E504 10:22:0{r}.100200300 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={q}, OpType={op}, NumelIn={n}, NumelOut={n}, Timeout(ms)=600000) ran for 60000{r} milliseconds before timing out.\n"
STATE = "[rank{r}]:[E504 10:22:0{r}.200200300 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog at work sequence id: {q} PG status: last enqueued work: {q}, last completed work: {done}\n"


def waits(*cells):
    return "".join(WAIT.format(r=r, q=q, op=op, n=n) + STATE.format(r=r, q=q, done=q - 1) for r, q, op, n in cells)


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        ([(0, 90, "ALLREDUCE", 8), (1, 90, "ALLREDUCE", 8), (2, 90, "ALLREDUCE", 8), (3, 90, "BROADCAST", 8)], [3]),
        ([(0, 90, "ALLREDUCE", 8), (1, 90, "ALLREDUCE", 8), (2, 90, "BROADCAST", 8), (3, 92, "ALLREDUCE", 4)], []),
        ([(0, 90, "ALLREDUCE", 8), (1, 90, "ALLREDUCE", 8), (2, 90, "ALLREDUCE", 8), (3, 90, "BROADCAST", 8), (4, 95, "ALLGATHER", 4)], []),
        ([(0, 90, "ALLREDUCE", 8), (1, 90, "ALLREDUCE", 8), (7, 90, "ALLREDUCE", 16)], []),
    ],
)  # fmt: skip
def test_the_odd_one_out_needs_more_than_half_of_its_group_against_it(tmp_path, cells, odd):
    verdict = verdict_of(tmp_path, train__log=waits(*cells))
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert verdict.culprits.ranks == odd


def test_two_ranks_that_wait_for_each_other_in_two_calls_are_a_mismatch_of_nobody(tmp_path):
    other = (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/proj/run.py", line 61, in main\n'
        '[rank1]:   File "/opt/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 4710, in monitored_barrier\n'
        "[rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
    )
    text = "rank 0 of 2 is up\nrank 1 of 2 is up\n" + waits((0, 12, "ALLREDUCE", 1)) + other
    verdict = verdict_of(tmp_path, train__log=text)
    assert verdict.category is Category.COLLECTIVE_MISMATCH
    assert not verdict.culprits.ranks


OLD = "n{h}: [E ProcessGroupNCCL.cpp:475] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType={op}, NumelIn={i}, NumelOut={o}, Timeout(ms)=1800000) ran for 18000{r:02d} milliseconds before timing out.\n"


def old_lines(members, odd):
    return "".join(
        OLD.format(h=r // 4, r=r, op="_REDUCE_SCATTER_BASE" if r in odd else "_ALLGATHER_BASE", i=8000 if r in odd else 1000, o=1000 if r in odd else 8000)
        for r in members
    )  # fmt: skip


def test_all_members_of_a_nameless_group_in_two_ops_are_a_mismatch_of_nobody(tmp_path):
    verdict = verdict_of(tmp_path, train__log=old_lines(range(8), {1, 6}))
    assert (verdict.category, verdict.culprits.ranks) == (Category.COLLECTIVE_MISMATCH, [])


def test_a_part_of_a_nameless_group_may_be_of_several_groups(tmp_path):
    verdict = verdict_of(tmp_path, train__log=old_lines((0, 1, 2, 5, 6, 7), {1}))
    assert verdict.category is Category.UNKNOWN


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("12: h3:4119:4719 [0] misc/socket.cc:511 NCCL WARN socketTryAccept: Accept failed: Too many open files\n12: jax.errors.JaxRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: internal error - please report this issue to the NCCL developers.", "infrastructure"),
        ("[rank4]: RuntimeError: Invalid loss: nan. debugging -- input_dict: {}", "numerical"),
        ("ValueError: total loss became inf at step 91", "numerical"),
        ("AssertionError: Found NaN in gradients", "numerical"),
        ("[rank3]: RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: 192.0.2.17", "software"),
        ("n1:31:41 [0] graph/topo.h:230 NCCL WARN Could not find NET with id 2\n[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, internal error - please report this issue to the NCCL developers, NCCL version 2.25.1", "software"),
        ("[rank1]: RuntimeError: copy_between: NPU function error: rtMemcpyAsync, error code is 507013", "gpu_cuda"),
    ],
)  # fmt: skip
def test_the_words_of_libraries_say_what_kind_of_fault_it_is(tmp_path, line, category):
    verdict = verdict_of(tmp_path, train__log=f"{TRACE}{line}\n")
    assert verdict.category is Category(category)
    assert not verdict.culprits.hosts


def test_a_server_that_is_shut_down_after_the_end_cancels_its_own_tasks(tmp_path):
    server = 'Traceback (most recent call last):\n  File "/opt/lib/python3.12/asyncio/queues.py", line 158, in get\n    await getter\nasyncio.exceptions.CancelledError\n'
    text = f"step 1/2 loss 2.0\nstep 2/2 loss 1.9\nTraining completed successfully\nINFO:     Shutting down\nERROR:    {server}"
    assert verdict_of(tmp_path, agent__log=text).category is Category.NONE


def test_a_stopped_fabric_manager_is_its_machines_and_no_ranks(tmp_path):
    status = "$ systemctl status nvidia-fabricmanager\n× nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Active: failed (Result: exit-code)\n"
    nccl = "gx-7:20{r}:41 [{r}] transport/nvls.cc:172 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'x'\n[rank{r}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda error, NCCL version 2.29.3\n"
    path = tmp_path / "gx-7-systemctl.txt"
    path.write_text(status, encoding="utf-8")
    verdict = verdict_of(tmp_path, node__log="".join(nccl.format(r=r) for r in (0, 3)))
    assert (verdict.culprits.ranks, verdict.culprits.hosts) == ([], ["gx-7"])


P2P = "[rank{r}]:[E504 10:22:0{r}.100200300 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType={op}, NumelIn=64, NumelOut=64, Timeout(ms)=300000) ran for 30000{r} milliseconds before timing out.\n"


@pytest.mark.parametrize(
    ("warning", "category"),
    [
        ("WARNING: num_microbatches (2) is smaller than pipeline_parallel_size (4)\n", Category.COLLECTIVE_MISMATCH),
        ("Number of microbatches (3) is less than the total number of stages (4) which may result in a bubble\n", Category.COLLECTIVE_MISMATCH),
        ("Using 8 microbatches and 4 stages\n", Category.UNKNOWN),
    ],
)  # fmt: skip
def test_sends_and_receives_that_all_wait_behind_a_warning_about_their_order(tmp_path, warning, category):
    text = warning + "".join(P2P.format(r=r, op="RECV" if r == 3 else "SEND") for r in range(4))
    assert verdict_of(tmp_path, train__log=text).category is category


@pytest.mark.parametrize("repeats", [0, 3])
def test_a_process_number_taken_again_is_software_only_where_several_start_at_once(tmp_path, repeats):
    start = "2026-04-05 10:51:4{i},000 INFO run.py:41 process 1/2 on host fit-1, coordinator fit-0:1234\n"
    claim = "E0405 10:52:27.410933 7 coordination_service.cc:962] /job:jax_worker/replica:0/task:1 unexpectedly tried to connect with a different incarnation. It has likely restarted.\n"
    text = "".join(start.format(i=i) for i in range(1 + repeats))
    verdict = verdict_of(tmp_path, fit_1__log=text, fit_0__log=claim)
    assert verdict.category is (Category.SOFTWARE if repeats else Category.UNKNOWN)


def test_what_ray_hands_on_failed_first_on_the_rank_of_the_process_in_its_head(tmp_path):
    text = (
        "(WorkerDict pid=311, ip=192.0.2.9) INFO:2026-09-20 05:11:40,130:[Rank 5] Checkpoint manager remove previous save local path: /mnt/a\n"
        "(WorkerDict pid=312, ip=192.0.2.9) INFO:2026-09-20 05:11:40,131:[Rank 6] Checkpoint manager remove previous save local path: /mnt/a\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/main.py", line 42, in main\n'
        "    run(config)\n"
        "ray.exceptions.RayTaskError(KeyError): ray::WorkerDict.save() (pid=312, ip=192.0.2.9, actor_id=51be, repr=<w>)\n"
        '  File "/opt/verl/checkpoint.py", line 402, in save\n'
        "    state[name]\n"
        "KeyError: 'lm_head.weight'\n"
    )
    assert verdict_of(tmp_path, driver__log=text).first_failed.ranks == [6]


GRADS = "[rank{r}]:[E504 12:22:0{r}.100200300 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn={n}, NumelOut={n}, Timeout(ms)=600000) ran for 60000{r} milliseconds before timing out.\n[rank{r}]:[E504 12:22:0{r}.200200300 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog at work sequence id: 812 PG status: last enqueued work: 815, last completed work: 811\n"


@pytest.mark.parametrize(
    "end",
    [
        "Training finished at step 811 of 2000.\n",
        "[rank0]: Training completed.\n",
        "[rank0]: INFO dataloader exhausted at step 811/2000, leaving the loop\n",
    ],
)
def test_a_rank_that_left_the_loop_while_the_others_reduce_gradients(tmp_path, end):
    head = "[rank0]: world_size=4\n[rank0]: step 810/2000 loss 2.0\n"
    text = head + end + "".join(GRADS.format(r=r, n=28311552) for r in (1, 2, 3))
    verdict = verdict_of(tmp_path, train__log=text)
    assert (verdict.category, verdict.culprits.ranks) == (Category.COLLECTIVE_MISMATCH, [0])


def test_a_wait_for_a_flag_behind_the_end_marker_is_still_the_way_out(tmp_path):
    head = "[rank0]: world_size=4\n[rank0]: step 2000/2000 loss 2.0\n[rank0]: Training completed.\n"
    text = head + "".join(GRADS.format(r=r, n=1) for r in (1, 2, 3))
    assert verdict_of(tmp_path, train__log=text).category is Category.SOFTWARE


def own_file(rank, last):
    told = "".join(
        f"I0614 08:31:{2 * s:02d}.00{rank}771 41 train.py:88] [process {rank}] step {s} {what}\n"
        for s in range(1, 12)
        for what in ("reading batch", "launched", f"done loss=2.{s}1{rank}")
    )
    head = f"I0614 08:30:12.200411 41 train.py:88] [process {rank}] jax 0.9.0, 4 processes, 16 global devices, 4 local devices\n"
    tail = {"early": ("reading batch",), "late": ("reading batch", "launched")}[last]
    return (
        head
        + told
        + "".join(f"I0614 08:31:24.00{rank}771 41 train.py:88] [process {rank}] step 12 {w}\n" for w in tail)
    )


STOP = "2026-06-14T10:02:03Z  Normal   Killing   pod/lm-0   Stopping container train\n"
STALL = "2026-06-14T10:02:03Z  Warning  Watchdog  jobset/lm  no progress seen for 90m, killing all workers\n"


@pytest.mark.parametrize(
    ("ends", "events", "ranks"),
    [
        (("late", "early", "late", "late"), STOP + STALL, [1]),
        (("late", "early", "late", "late"), STOP, []),
        (("late", "early", "early", "late"), STOP + STALL, []),
        (("late", "late", "late", "late"), STOP + STALL, []),
    ],
)
def test_who_stands_at_a_line_that_all_others_passed_held_a_job_up_that_stood_still(tmp_path, ends, events, ranks):
    files = {f"host{r}__log": own_file(r, end) for r, end in enumerate(ends)}
    verdict = verdict_of(tmp_path, events__txt=events, **files)
    assert verdict.culprits.ranks == ranks
    assert verdict.category is (Category.DATA_LOADING_STALL if ranks else Category.INFRASTRUCTURE)
