"""Dumps of gloo, which keep no states, beside tracebacks of ranks that gave up: what either leaves open the other tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Diagnosis

BEGAN = 1_764_426_200_000_000_000
HANG = 5
"""Number of the collective in which the others wait."""


def entry(rank: int, seq: int, op: str) -> dict[str, object]:
    """One work as gloo's recorder of torch 2.13 writes it."""
    return {
        "record_id": seq - 1,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": 0,
        "profiling_name": f"gloo:{op}",
        "time_created_ns": BEGAN + seq * 1_000_000_000 + rank * 1000,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "time_discovered_started_ns": 0,
        "time_discovered_completed_ns": 0,
        "retired": True,
        "timeout_ms": 5000,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "/srv/app/train.py", "line": 7}],
    }


def dump(rank: int, last: int, world: int) -> str:
    """A dump of a rank that issued so many; a work that ran out of time is retired like one that came through."""
    entries = [entry(rank, n, "all_gather" if n % 2 else "broadcast") for n in range(1, HANG)]
    if last >= HANG:
        entries.append(entry(rank, HANG, "all_reduce"))
    group = {"name": "", "desc": "", "ranks": str(list(range(world)))}
    status = {f"last_{what}_collective": str(last) for what in ("completed", "enqueued")}
    whole = {
        "version": "2.10",
        "pg_config": {"": group},
        "pg_status": {"0": {**status, "last_started_collective": "-1"}},
    }
    return json.dumps({**whole, "comm_lib_version": "", "nccl_comm_state": {}, "entries": entries[:last]})


def gave_up(rank: int, call: str = "all_reduce") -> str:
    """The end of a rank's log whose wait ran out."""
    return "".join(
        f"[rank{rank}]: {line}\n"
        for line in (
            "Traceback (most recent call last):",
            '  File "/srv/app/train.py", line 31, in step',
            f"    dist.{call}(grads)",
            f'  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in {call}',
            "    work.wait()",
            "RuntimeError: [/pytorch/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete",
        )
    )


def job(folder: Path, world: int, culprit: int, *, without: set[int], call: str = "all_reduce") -> Diagnosis:
    """A job in which one rank never comes; some dumps are not there."""
    for rank in range(world):
        if rank not in without:
            (folder / f"fr_trace_rank_{rank}.json").write_text(dump(rank, HANG if rank != culprit else HANG - 1, world))
        line = f"2025-11-29 14:23:30,000 INFO train: rank={rank} world_size={world} step 4 loss 2.5\n"
        (folder / f"rank{rank}.log").write_text(line + (gave_up(rank, call) if rank != culprit else ""))
    return diagnose([folder])


@pytest.mark.parametrize(
    ("world", "gone"), [(4, {1}), (4, {0, 1}), (8, {1}), (8, {0, 1}), (8, {1, 2, 3}), (64, {1, 2, 3})]
)
def test_a_rank_without_a_dump_that_gave_up_is_no_culprit(tmp_path, world, gone):
    culprit = world - 1
    verdict = job(tmp_path, world, culprit, without=gone).verdict
    assert verdict.culprits.ranks == [culprit]
    assert verdict.culprits.strength.level >= Strength.SUPPORTED.level


@pytest.mark.parametrize("world", [4, 8, 64])
def test_the_silent_rank_without_a_dump_is_told_from_those_that_gave_up_without_one(tmp_path, world):
    verdict = job(tmp_path, world, 2, without={1, 2}).verdict
    assert verdict.culprits.ranks == [2]
    assert verdict.category in {Category.UNKNOWN, Category.DATA_LOADING_STALL}
    assert f"ranks 0-1, 3{'' if world == 4 else f'-{world - 1}'} wait" in verdict.summary


def test_who_gave_up_another_call_is_not_placed(tmp_path):
    verdict = job(tmp_path, 4, 2, without={1, 2}, call="broadcast").verdict
    assert "placed by its own lines" not in verdict.summary


def test_where_all_gave_up_the_missing_dump_names_nobody(tmp_path):
    for rank in range(4):
        if rank != 3:
            (tmp_path / f"fr_trace_rank_{rank}.json").write_text(dump(rank, HANG, 4))
        (tmp_path / f"rank{rank}.log").write_text(f"rank={rank} world_size=4 step 4 loss 2.5\n" + gave_up(rank))
    verdict = diagnose([tmp_path]).verdict
    assert verdict.culprits.ranks == []
    assert verdict.strength.level <= Strength.POSSIBLE.level


def test_that_all_came_to_one_collective_last_is_no_sign_of_a_hang(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"comm_lib_trace_rank_{rank}.json").write_text(dump(rank, HANG, 4), encoding="utf-8")
    found = diagnose([tmp_path])
    assert found.verdict.failed is None
    assert found.verdict.category is Category.UNKNOWN
    assert "do not tell whether the last collectives ended" in found.verdict.summary


def test_who_may_wait_in_a_group_of_which_no_other_dump_is_here_is_not_named(tmp_path: Path) -> None:
    for rank, last in ((0, HANG - 1), (2, HANG)):
        told = json.loads(dump(rank, last, 0))
        told["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
        own = {**entry(rank, HANG - 1, "all_reduce"), "process_group": [str(1 + rank // 2), "undefined"], "pg_id": 1}
        told["entries"].append({**own, "record_id": HANG + 1})
        for row in told["entries"]:
            row["process_group"][1:] = ["default_pg"] if row["pg_id"] == 0 else ["undefined"]
        (tmp_path / f"comm_lib_trace_rank_{rank}.json").write_text(json.dumps(told), encoding="utf-8")
    found = diagnose([tmp_path])
    assert found.verdict.culprits.ranks == []
