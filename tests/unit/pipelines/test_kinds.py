"""Small jobs of many frameworks and schedulers whose fault is put in by hand: what is said of each, and of whom."""

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
        path = folder / name.replace("__", ".")
        path.write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize(
    ("last", "category"),
    [
        ("RuntimeError: Malloc for kernel workspace failed, Memory isn't enough, node:Default/Softmax-op3", "gpu_cuda"),
        ("RuntimeError: HBM MULTI BIT ECC ERROR, error code is 507054", "gpu_cuda"),
        ("RuntimeError: SUSPECT MEM ERROR", "gpu_cuda"),
        ("EI0005: The arguments for collective communication are inconsistent between ranks: tag [b], parameter [count]",
         "collective_mismatch"),
        ("tensorflow.python.framework.errors_impl.InvalidArgumentError: indices[0,3] = 900 is not in [0, 900)", "data"),
        ("tensorflow.python.framework.errors_impl.DataLossError: {{node x}} truncated record at 77 [Op:Next]", "data"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting", "gpu_cuda"),
        ("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /b/pool.hpp:70: cudaErrorMemoryAllocation", "gpu_cuda"),
        ("MemoryError", "software"),
        ("lib.guards.NaNGradientError: 3 of 90 tensors at step 812", "numerical"),
        ("OSError: [Errno 28] Kein Speicherplatz auf dem Gerät: '/lustre/run/step_9.pt'", "storage_io"),
        ("OSError: [Errno 122] 超出磁盘限额: '/home/u/run/step_9.pt'", "storage_io"),
        ("OSError: [Errno 98] Adresse wird bereits verwendet", "infrastructure"),
    ],
)  # fmt: skip
def test_the_message_decides_and_not_the_class_of_the_exception(tmp_path, last, category):
    verdict = verdict_of(tmp_path, train__log=f"step 10 loss 2.1 lr 0.1\n{TRACE}{last}\n")
    assert (verdict.failed, verdict.category) == (True, Category(category))


@pytest.mark.parametrize(
    "line",
    [
        "03/04/2026 10:12:44  L    Job preempted by suspension",
        "Completed <exit>; TERM_PREEMPT: job killed after preemption.",
        "512.118s: job.exception type=preempt severity=0 preempted for f7Kx",
        "03/04/2026 03:36:38|  main|n12|W|job 480.1 exceeded hard wallclock time - initiate terminate method",
        "    Exit_status = -29",
        "=>> PBS: job killed: node 1 (gx7) requested job terminate, 'EOF' (code 1099) - received SISTER_EOF attempting to communicate",
    ],
)
def test_the_batch_system_says_why_beside_the_ranks_that_lost_each_other(tmp_path, line):
    lost = "[rank2]: Last error:\n[rank2]: socketProgress: Connection closed by remote peer gx9<50112>\n"
    verdict = verdict_of(tmp_path, job__o12=f"step 10 loss 2.1 lr 0.1\n{lost}", record__txt=line + "\n")
    assert verdict.category is Category.INFRASTRUCTURE
    assert not verdict.culprits.ranks


def test_links_that_do_not_come_up_are_a_possible_network_and_no_rank(tmp_path):
    row = "[ERROR] HCCL({pid},):2026-03-04-10:02:0{i} [hccl_socket_manager.cc:583] [9]   |  192.0.2.2{i}({peer})  |  16666  |   192.0.2.1{i}({i})   |  34  |  client  | time out |   DISABLE  | LinkInfo\n"
    end = "[rank{i}]: RuntimeError: OPS function error: HcclBroadcast, error code is 6\n"
    text = "".join(row.format(pid=400 + i, i=i, peer=4 + i) + end.format(i=i) for i in range(4))
    verdict = verdict_of(tmp_path, npu__log=text)
    assert (verdict.category, str(verdict.strength.value)) == (Category.NETWORK, "possible")
    assert not verdict.culprits.ranks


def test_a_harness_that_ends_well_did_not_fail_by_the_programs_it_graded(tmp_path):
    graded = 'Traceback (most recent call last):\n  File "<string>", line 3, in <module>\nMemoryError\n'
    asked = "openai.APITimeoutError: Request timed out. retrying in 4s\n"
    text = f"[task 1] failed\n{graded}{asked}all 40 problems graded\n"
    assert verdict_of(tmp_path, judge__log=text).category is Category.NONE


def test_the_end_of_an_evaluation_is_no_end_of_a_training(tmp_path):
    text = "step 10 loss 2.1 lr 0.1\nstep 20 loss 2.0 lr 0.1\nEvaluation finished, results written to ev.json\n"
    assert verdict_of(tmp_path, train__log=text).category is not Category.NONE


def test_coloured_bars_that_stay_nan_are_a_failure_at_the_first_of_them(tmp_path):
    bar = "\x1b[1m{n}/90\x1b[0m \x1b[32m" + "━" * 20 + "\x1b[0m \x1b[1m2s\x1b[0m 31ms/step - loss: {v}"
    values = ["0.91", "0.88", "nan", "nan", "nan", "nan"]
    text = "Epoch 1/1\n" + "\r".join(bar.format(n=10 * i, v=v) for i, v in enumerate(values, 1)) + "\nmodel saved\n"
    verdict = verdict_of(tmp_path, fit__log=text)
    assert verdict.category is Category.NUMERICAL
    assert "30/90" in verdict.trigger.text


def test_a_devices_own_line_gets_the_rank_of_the_exception_behind_it(tmp_path):
    kernel = "/pt/aten/src/ATen/native/cuda/Loss.cu:250: nll_loss: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
    trace = "".join(f"[rank5]: {x}\n" for x in TRACE.splitlines())
    text = (
        f"world size: 8\nstep 10 loss 2.1 lr 0.1\n{kernel}{trace}"
        "[rank5]: RuntimeError: CUDA error: device-side assert triggered\n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/proj/run.py", line 88, in <module>\n[rank1]: KeyboardInterrupt\n'
    )
    verdict = verdict_of(tmp_path, all__log=text)
    assert (verdict.first_failed.ranks, verdict.culprits.ranks) == ([5], [5])


def test_a_bus_error_of_a_worker_is_shared_memory_also_without_steps(tmp_path):
    trace = "".join(f"[rank2]: {x}\n" for x in TRACE.splitlines())
    text = (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
        f"{trace}[rank2]: RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. \n"
    )
    verdict = verdict_of(tmp_path, run__log=text)
    assert (verdict.category, verdict.first_failed.ranks) == (Category.INFRASTRUCTURE, [2])


def test_files_that_each_state_one_rank_are_that_ranks(tmp_path):
    files = {f"out_{n}__log": f"JAX process: {n} / 3\n" for n in range(3)}
    files["out_1__log"] += f"{TRACE}ValueError: shard 7 has no field 'y'\n"
    assert verdict_of(tmp_path, **files).first_failed.ranks == [1]


def test_the_first_ranks_of_two_machines_do_not_speak_for_all_of_them(tmp_path):
    files = {f"node_{n}__log": f"rank {8 * n}/16 on cuda:0\n" for n in range(2)}
    files["node_1__log"] += f"{TRACE}ValueError: shard 7 has no field 'y'\n"
    assert verdict_of(tmp_path, **files).first_failed.ranks == []


def test_a_file_named_like_one_that_is_named_after_its_host_is_of_a_host(tmp_path):
    banner = "  host      : box-11\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 71)\n"
    list_of = f"Failures:\n[0]:\n{banner}"
    waited = "[rank0]: torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 4/8 clients joined.\n"
    runtime = "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown\n"
    verdict = verdict_of(
        tmp_path, **{"box-11__log": waited + list_of, "box-12__log": "docker run trainer:1\n" + runtime}
    )
    assert verdict.culprits.hosts == ["box-12"]


def test_the_node_of_an_evicted_pod_is_named_by_the_line_that_assigned_it(tmp_path):
    text = (
        "9m  Normal   Scheduled  pod/fit-0  Successfully assigned ml/fit-0 to pool-a-1\n"
        "9m  Normal   Scheduled  pod/fit-1  Successfully assigned ml/fit-1 to pool-b-2\n"
        "1m  Warning  Evicted    pod/fit-1  The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi.\n"
    )
    verdict = verdict_of(tmp_path, events__txt=text, fit__log="step 10 loss 2.1 lr 0.1\n")
    assert (verdict.category, verdict.culprits.hosts) == (Category.INFRASTRUCTURE, ["pool-b-2"])


def test_all_ranks_of_a_machine_that_is_gone_failed_first(tmp_path):
    row = "(TrainController pid=9) - (ip=192.0.2.{h}, pid={p}) world_rank={r}, local_rank={lr}, node_rank={n}\n"
    rows = [(12, 301, 0, 0, 0), (12, 304, 3, 3, 0), (13, 501, 4, 0, 1), (13, 504, 7, 3, 1)]
    text = "".join(row.format(h=h, p=p, r=r, lr=lr, n=n) for h, p, r, lr, n in rows) + (
        "(raylet) The node with node id: 5c1f0d3be2c7 and address: 192.0.2.13 and node name: 192.0.2.13 has been marked"
        " dead because the detector has missed too many heartbeats from it.\n"
    )
    assert verdict_of(tmp_path, driver__log=text).first_failed.ranks == [4, 5, 6, 7]


def test_processes_killed_by_a_signal_failed_first_whoever_sent_it(tmp_path):
    head = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\n"
    entry = "[{i}]:\n  time      : 2026-03-04_10:02:00\n  host      : n1\n  rank      : {r} (local_rank: {r})\n  exitcode  : -9 (pid: {p})\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID {p}\n"
    text = (
        "world size: 8\nstep 10 loss 2.1 lr 0.1\n" + head
        + "Failures:\n" + entry.format(i=1, r=6, p=76)
        + "Root Cause (first observed failure):\n" + entry.format(i=0, r=2, p=72)
    )  # fmt: skip
    verdict = verdict_of(tmp_path, train__log=text)
    assert verdict.first_failed.ranks == [2, 6]
    assert str(verdict.strength.value) == "possible"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("Epoch 1/4\n", " 90/90 [==============================] - 2s 31ms/step - loss: 0.9\n"),
        ("", "Epoch 2/9 | 100%|██████████| 90/90 [00:02<00:00, 31.0it/s, loss=0.9]\n"),
    ],
)
def test_the_end_of_one_epoch_of_several_is_no_end_of_the_run(tmp_path, first, last):
    assert verdict_of(tmp_path, fit__log=first + last).category is not Category.NONE


def test_the_end_of_the_last_epoch_is_an_end_of_the_run(tmp_path):
    bars = "".join(f"Epoch {n}/2\n 90/90 [==============================] - 2s 31ms/step - loss: 0.9\n" for n in (1, 2))
    assert verdict_of(tmp_path, fit__log=bars).category is Category.NONE


@pytest.mark.parametrize(("head", "failed"), [("", None), (TRACE, True)])
def test_a_call_that_is_made_once_more_is_no_failure_yet_unless_nobody_caught_its_error(tmp_path, head, failed):
    text = f"step 10 loss 2.1 lr 0.1\n{head}openai.RateLimitError: Error code: 429, retrying in 8 s (2/5)\n"
    assert verdict_of(tmp_path, train__log=text).failed is failed


def test_paddles_log_of_one_process_is_of_its_local_rank(tmp_path):
    files = {
        "launch__log": "LAUNCH INFO 2026-03-04 10:00:00,000 nnodes: 1\n",
        "workerlog__2": f"{TRACE}ValueError: (InvalidArgument) shape of X\n",
    }
    assert verdict_of(tmp_path, **files).first_failed.ranks == [2]


TRIAL = "[W 2026-05-02 08:14:00,000] Trial 4 failed with parameters: {'width': 9} because of the following error: "


def test_a_trial_that_a_study_goes_on_without_is_no_failure(tmp_path):
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB."
    told = f"{TRIAL}OutOfMemoryError('CUDA out of memory. Tried to allocate 3.00 GiB').\n{TRACE}{oom}\n"
    after = "[I 2026-05-02 08:20:00,000] Trial 5 finished with value: 0.4 and parameters: {'width': 3}.\n"
    assert verdict_of(tmp_path, study__log=told + after).failed is None
    # A study that does not catch it prints it once more when it ends.
    raised = verdict_of(tmp_path, study__log=f"{told}{TRACE}{oom}\n")
    assert (raised.failed, raised.category) == (True, Category.GPU_CUDA)


def test_a_server_that_stopped_answering_explains_a_loader_that_waited_too_long(tmp_path):
    steps = "".join(f"[2026-05-02 08:0{n}:00] step {n} loss 2.{n}\n" for n in range(1, 6))
    rank = TRACE.replace("\n", "\n[rank3]: ")
    log = f"{steps}[rank3]: {rank}RuntimeError: DataLoader timed out after 90 seconds\n"
    kernel = "May  2 08:05:10 n7 kernel: nfs: server filer-2 not responding, still trying\n"
    found = verdict_of(tmp_path, train__log=log, dmesg__txt=kernel)
    assert (found.category, found.culprits.ranks) == (Category.STORAGE_IO, [])


def test_a_number_that_no_job_has_as_a_rank_is_none(tmp_path):
    work = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran"
    line = f"[E ProcessGroupNCCL.cpp:474] [Rank 40000000] {work} for 600015 milliseconds before timing out.\n"
    (tmp_path / "a.log").write_text(line, encoding="utf-8")
    found = diagnose([tmp_path])
    assert found.verdict.failed is True
    assert "40000000" not in found.verdict.summary
    assert "40000001" not in found.verdict.summary
