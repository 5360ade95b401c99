"""The chain and the dropped readings say what the lines say: in order of time, each error once, nothing of nobody.

The truth is what the made-up job did: each file holds what a process of such a job prints.
"""

from __future__ import annotations

import gzip
import lzma

import pytest

from firstfault.model.words import ActionKind, Category, CoverageState, Strength
from firstfault.pipelines.diagnose import diagnose

WAITED = (
    "[rank{r}]:[E312 08:18:21.009718819 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=99, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
)
STEP = "2026-03-12 08:08:1{n} INFO train: step {n} loss 2.31"


def inits(host, ranks, world=4):
    comm = f"ncclCommInitRank comm 0x55d0c003a0 rank {{r}} nranks {world} cudaDev {{d}} nvmlDev {{d}} busId {{bus}}000 commId 0x9f3c"
    return [
        f"{host}:500{d}:500{d} [{d}] NCCL INFO {comm.format(r=r, d=d, bus=f'{d + 1}8')} - Init COMPLETE"
        for d, r in enumerate(ranks)
    ]


def raised(rank, *last):
    head = ["Traceback (most recent call last):", '  File "/app/fit.py", line 90, in <module>', "    main()"]
    return [f"[rank{rank}]: {line}" for line in (*head, *last)]


def told(folder, files):
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return diagnose([folder])


def test_the_error_inside_a_loader_worker_is_told_as_the_fault_and_not_as_what_followed(tmp_path):
    full = "RuntimeError: unable to allocate shared memory(shm) for file </torch_81_25_0>: No space left on device (28)"
    worker = (
        "RuntimeError: Caught RuntimeError in DataLoader worker process 2.",
        "Original Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop',
        "    data = fetcher.fetch(index)",
        full,
    )
    found = told(tmp_path, {"rank0.log": raised(0, *worker)})
    assert "Shared memory" in found.verdict.summary
    assert found.verdict.culprits.shared
    assert [link.evidence[0].line for link in found.chain[:2]] == [4, 8]
    assert "Shared memory" in found.chain[1].what
    assert not [n for n in found.naive if "Shared memory" in n.says]


def test_the_last_step_stands_before_the_wait_though_an_error_without_a_time_follows(tmp_path):
    gone = "[Thu Mar 12 08:08:17 2026] NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    launch = "torch.AcceleratorError: CUDA error: unspecified launch failure"
    steps = [STEP.format(n=n) for n in range(1, 7)]
    found = told(
        tmp_path,
        {
            "gpu-06.log": [*inits("gpu-06", [0, 1]), *steps, WAITED.format(r=0), WAITED.format(r=1)],
            "gpu-07.log": [
                *inits("gpu-07", [3, 2]),
                *steps,
                WAITED.format(r=2).replace("08:18:21", "08:18:29"),
                *raised(3, launch),
            ],
            "dmesg-gpu-07.txt": [gone],
        },
    )
    assert found.verdict.culprits.ranks == [3]
    steps_at = next(i for i, link in enumerate(found.chain) if "last step" in link.what)
    waits_at = next(i for i, link in enumerate(found.chain) if "waited too long" in link.what)
    assert steps_at < waits_at


def test_a_trail_of_nccl_is_no_word_of_a_watchdog(tmp_path):
    retry = "[2026-03-12 08:08:20] h0:5001:5101 [1] transport/net_ib.cc:2024 NCCL WARN NET/IB: Got completion from peer 10.1.0.9<41231> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=65536 vendor_err=129 req_type=Send hca mlx5_3"
    trail = "h0:5001:5101 [1] NCCL INFO transport/net.cc:1298 -> 6"
    waits = [WAITED.format(r=r) for r in (0, 2, 3)]
    found = told(tmp_path, {"h0.log": [*inits("h0", range(4)), retry, trail, *waits]})
    assert found.verdict.category is Category.NETWORK
    of_trail = [link for link in found.chain if any("net.cc:1298" in e.text for e in link.evidence)]
    assert [link.what for link in of_trail] == ["Calls of the collective library failed: rank 1"]


def test_who_led_up_to_a_fault_is_told_by_its_own_line(tmp_path):
    over = "[2026-03-12 08:08:2{n},000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {a}, reducing to {b}"
    floor = "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."
    falls = [over.format(n=n, a=2 ** (4 - n), b=2 ** (3 - n)) for n in range(4)]
    found = told(tmp_path, {"job.log": [*falls, *raised(0, floor), *raised(1, floor)]})
    assert found.verdict.category is Category.NUMERICAL
    assert "ranks 0-1" not in found.chain[0].what
    assert "floor" in found.chain[1].what
    assert "ranks 0-1" in found.chain[1].what


def test_one_line_that_says_it_twice_is_no_two_faults(tmp_path):
    line = (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() "
        "that might have already set an error? Error 35: CUDA driver version is insufficient for CUDA runtime version"
    )
    found = told(tmp_path, {"job.log": [*raised(0, line), *raised(1, line)]})
    assert "driver is too old" in found.verdict.summary
    assert found.verdict.strength is Strength.ESTABLISHED
    assert "nothing orders" not in found.verdict.summary
    assert not found.rivals
    assert not found.naive


@pytest.mark.parametrize(
    ("xid", "words", "kind", "hosts"),
    [
        ("31", "MMU Fault: ENGINE GRAPHICS faulted @ 0x7f2a_10000000.", ActionKind.FIX_AND_RERUN, []),
        ("79", "GPU has fallen off the bus.", ActionKind.RESTART_WITHOUT, ["z9"]),
    ],
)
def test_a_machine_is_left_out_for_its_own_faults_only(tmp_path, xid, words, kind, hosts):
    error = {"31": "an illegal memory access was encountered", "79": "unspecified launch failure"}[xid]
    found = told(
        tmp_path,
        {
            "z9.log": [*inits("z9", range(4)), *raised(2, f"torch.AcceleratorError: CUDA error: {error}")],
            "z9.dmesg": [f"[88012.1] NVRM: Xid (PCI:0000:38:00): {xid}, pid=5002, name=python, {words}"],
        },
    )
    assert found.verdict.culprits.ranks == [2]
    assert (found.verdict.action.kind, found.verdict.action.exclude_hosts) == (kind, hosts)


def test_a_file_of_one_rank_by_its_start_up_lines_tells_what_that_rank_did_last(tmp_path):
    files = {f"out-{r}.log": [*inits(f"k{r}", [r]), WAITED.format(r=r)] for r in (0, 1, 3)}
    files["out-2.log"] = [*inits("k2", [2]), "2026-03-12 08:07:10 tokenizing shard 12 of 64"]
    verdict = told(tmp_path, files).verdict
    assert verdict.culprits.ranks == [2]
    assert (verdict.category, verdict.strength) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE)
    assert verdict.trigger is not None
    assert "tokenizing shard 12" in verdict.trigger.text


def test_without_a_cause_no_line_is_said_to_show_it(tmp_path):
    ended = "E0312 08:09:30.000000 41 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 3) local_rank: 1 (pid: 5001) of binary: /opt/venv/bin/python"
    found = told(tmp_path, {"job.log": [*inits("t1", range(2)), STEP.format(n=1), ended]})
    assert found.verdict.category is Category.UNKNOWN
    assert "shows the root cause" not in found.chain[0].why


def test_of_files_packed_in_different_ways_none_is_missing(tmp_path):
    names = ["r0.log", "r1.log.gz", "r2.log.xz", "r3.log"]
    for r, name in enumerate(names):
        text = "\n".join([*inits("e0", [r]), STEP.format(n=1)]).encode()
        pack = {"gz": gzip.compress, "xz": lzma.compress}.get(name.rsplit(".", 1)[-1], bytes)
        (tmp_path / name).write_bytes(pack(text))
    assert {c.state for c in diagnose([tmp_path]).coverage} == {CoverageState.READ}


def test_an_error_whose_frames_are_lost_on_some_ranks_is_one_error(tmp_path):
    error = "RuntimeError: synNodeCreate failed for node: batch_gemm with status 26"
    lines = [*raised(2, error), *raised(3, error), f"[rank0]: {error}", f"[rank1]: {error}"]
    verdict = told(tmp_path, {"job.log": ["world_size=4", *lines]}).verdict
    assert verdict.first_failed.ranks == [0, 1, 2, 3]
    assert "nothing orders" not in verdict.summary


def test_the_message_of_an_error_without_frames_is_told(tmp_path):
    verdict = told(tmp_path, {"job.log": [STEP.format(n=1), "[rank0]: ValueError: 7 heads do not divide by 2"]}).verdict
    assert "7 heads do not divide by 2" in verdict.summary


def test_of_one_rank_alone_nobody_knows_whether_all_would_meet_its_error(tmp_path):
    alone = told(tmp_path / "a", {"job.log": raised(0, "RuntimeError: shapes do not agree")}).verdict
    assert (alone.culprits.ranks, alone.culprits.shared) == ([], False)
    both = told(tmp_path / "b", {"job.log": [*raised(0, "RuntimeError: no"), *raised(1, "RuntimeError: no")]}).verdict
    assert (both.culprits.ranks, both.culprits.shared) == ([], True)


def test_a_failed_test_is_told_with_its_message_and_its_place(tmp_path):
    text = [
        "=================================== FAILURES ===================================",
        "_________________________________ test_wrap __________________________________",
        "",
        "    def test_wrap():",
        ">       build().wrap(policy=None)",
        "",
        "tests/test_fsdp.py:12: ",
        "_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ ",
        "    def wrap(self, policy):",
        ">       raise ValueError('policy must not be None')",
        "E       ValueError: policy must not be None",
        "E       give one",
        "",
        "src/model.py:33: ValueError",
        "=========================== short test summary info ============================",
        "FAILED tests/test_fsdp.py::test_wrap - ValueError: policy must not be None",
    ]
    verdict = told(tmp_path, {"ci.log": text}).verdict
    assert verdict.summary == "ValueError: policy must not be None in wrap (model.py:33)."
    assert any("src/model.py:33" in step for step in verdict.action.steps)


@pytest.mark.parametrize("colour", ["", "\x1b[36m", "\x1b[39m"])
def test_an_exception_that_ray_hands_on_is_of_the_process_in_its_head(tmp_path, colour):
    node = "3f2a0b11c2" * 4
    started = [
        f"(TorchTrainer pid=880) - (node_id={node}, ip=192.0.2.{4 + r // 2}, pid={900 + r}) world_rank={r}, local_rank={r % 2}, node_rank={r // 2}"
        for r in range(4)
    ]
    error = [
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.11/site-packages/ray/air/event_manager.py", line 110, in resolve_future',
        "    result = ray.get(future)",
        f"ray.exceptions.RayTaskError(KeyError): {colour}ray::_RayTrainWorker__execute.get_next(){colour} (pid=902, ip=192.0.2.5)",
        '  File "/app/rl.py", line 61, in loop',
        "    y = batch['labels']",
        "KeyError: 'labels'",
    ]
    assert told(tmp_path, {"driver.log": [*started, *error]}).verdict.first_failed.ranks == [2]


def test_a_collective_of_ascend_that_fails_is_no_fault_of_a_card(tmp_path):
    wrapped = "[rank{r}]: RuntimeError: The Inner error is reported as above. The process exits for this inner error, and the current working operator name is HcclAllreduce."
    waited = "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [3]."
    called = "[ERROR] 2026-03-14-09:30:00 (PID:90{r}, Device:{r}, RankID:{r}) ERR02200 DIST call hccl api failed."
    lines = [x.format(r=r) if x is not waited else x for r in range(3) for x in (called, wrapped, waited)]
    verdict = told(tmp_path, {"job.log": lines}).verdict
    assert verdict.category is not Category.GPU_CUDA
    assert verdict.culprits.ranks == [3]


@pytest.mark.parametrize(
    "lines",
    [
        raised(0, "KeyboardInterrupt"),
        [
            "W0312 08:08:20.000000 41 torch/distributed/elastic/agent/server/api.py:719] Received 2 death signal, shutting down workers"
        ],
    ],
)
def test_a_signal_from_outside_is_no_order_of_the_launcher(tmp_path, lines):
    found = told(tmp_path, {"job.log": [STEP.format(n=1), *lines]})
    stops = [link for link in found.chain if link.what == "Processes were told to stop"]
    assert [("outside" in link.why, "launcher" in link.why) for link in stops] == [(True, False)]


def test_a_rank_whose_own_watchdog_is_stuck_is_not_told_as_one_that_waited(tmp_path):
    stuck = (
        "[rank3]:[E312 08:18:21.009718819 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL's watchdog "
        "got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    )
    found = told(tmp_path, {"job.log": ["world_size=4", stuck, *(WAITED.format(r=r) for r in range(3))]})
    (waits,) = [link for link in found.chain if "waited too long" in link.what]
    assert "ranks 0-2" in waits.what


def test_a_container_that_found_no_room_names_the_disk_and_what_starts_it_only_reports(tmp_path):
    said = "slurmstepd: error: pyxis: "
    full = [
        f"{said}container start failed with error code: 1",
        f"{said}printing enroot log file:",
        f"{said}    [ERROR] No space left on device",
        "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
    ]
    found = told(tmp_path / "a", {"slurm-12.out": full})
    assert found.verdict.category is Category.STORAGE_IO
    assert "Others reported it" in [link.what for link in found.chain]
    full[2] = f"{said}    enroot-nsenter: failed to create user namespace: No space left on device"
    assert told(tmp_path / "b", {"slurm-12.out": full}).verdict.category is Category.INFRASTRUCTURE
