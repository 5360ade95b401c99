"""Dumps that prove calls which do not fit, beside the kernel log of a machine: whose it is decides what it explains."""

from __future__ import annotations

import pickle

from firstfault.model.words import Strength
from firstfault.pipelines.diagnose import diagnose

BEGUN = 1_768_486_880 * 10**9
"""14:21:20 UTC on 2026-01-15."""
LOST = "Jan 15 14:23:20 {host} kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=48112, name=python, GPU has fallen off the bus.\n"


def dump(rank, odd):
    entries = [
        {
            "record_id": n,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": n + 1,
            "p2p_seq_id": 0,
            "op_id": n + 1,
            "profiling_name": "nccl:broadcast" if n == 5 and rank == odd else "nccl:all_reduce",
            "time_created_ns": BEGUN + n * 10**9,
            "input_sizes": [[1024]],
            "input_dtypes": ["Float"],
            "output_sizes": [[1024]],
            "output_dtypes": ["Float"],
            "state": "started" if n == 5 else "completed",
            "time_discovered_started_ns": BEGUN + n * 10**9,
            "time_discovered_completed_ns": None if n == 5 else BEGUN + n * 10**9 + 10**6,
            "retired": n < 5,
            "timeout_ms": 600_000,
            "is_p2p": False,
            "frames": [{"name": "train_step", "filename": "/app/train.py", "line": 77}],
        }
        for n in range(6)
    ]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return pickle.dumps({"version": "2.9", "pg_config": config, "pg_status": {}, "entries": entries}, 2)


def verdict(folder, host):
    for rank in range(4):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(dump(rank, odd=2))
        pid, machine = 48107 + rank, "lab-1" if rank < 2 else "lab-2"
        (folder / f"rank{rank}.log").write_text(
            f"{machine}:{pid}:{pid} [{rank % 2}] NCCL INFO ncclCommInitRankConfig comm 0x55d0c0 rank {rank} nranks 4 "
            f"cudaDev {rank % 2} nvmlDev {rank % 2} busId 1b000 commId 0xfa93daea854b060b - Init COMPLETE\n"
            f"[2026-01-15 14:20:00,000][rank{rank}][INFO] step 100 loss 2.13\n"
            f"[rank{rank}]:[E115 14:33:30.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600012 "
            "milliseconds before timing out.\n"
        )
    (folder / "kern.log").write_text(LOST.format(host=host))
    return diagnose([folder]).verdict


def test_a_machine_that_nothing_ties_to_the_job_does_not_explain_calls_that_differ(tmp_path):
    found = verdict(tmp_path, "elsewhere")
    assert str(found.category) == "collective_mismatch"
    assert found.culprits.ranks == [2]
    assert "elsewhere" not in found.culprits.hosts
    assert "nothing ties that machine to the job" in found.summary


def test_where_the_rank_ran_is_said_beside_a_strange_machine(tmp_path):
    verdict(tmp_path, "elsewhere")
    for file in tmp_path.glob("nccl_trace_rank_*"):
        file.unlink()
    silent = tmp_path / "rank3.log"
    silent.write_text("".join(silent.read_text().splitlines(keepends=True)[:2]))
    found = diagnose([tmp_path]).verdict
    assert found.strength.level <= Strength.POSSIBLE.level
    assert "it ran on lab-2" in found.summary
    assert "no line tells" not in found.summary


def test_a_machine_of_the_job_is_weighed(tmp_path):
    found = verdict(tmp_path, "lab-2")
    assert "nothing ties that machine to the job" not in found.summary
    assert set(found.culprits.hosts) <= {"lab-2"}
