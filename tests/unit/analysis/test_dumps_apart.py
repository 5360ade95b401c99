"""Dumps that do not belong together, and what they may still say: of other moments, of other jobs, of a killed process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, CoverageState, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

BEGIN = 1_780_000_000_000_000_000
SECOND = 1_000_000_000


def dump(
    folder: Path, rank: int, world: int, last: int, *, done: int, op: str = "all_reduce", size: int = 1024
) -> None:
    """One dump of a rank that issued collectives up to `last` and completed those up to `done`; `op` is the last one."""
    entries = [
        {
            "record_id": seq - 1,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": seq,
            "op_id": seq,
            "is_p2p": False,
            "profiling_name": f"nccl:{op if seq == last else 'all_reduce'}",
            "state": "completed" if seq <= done else "scheduled",
            "time_created_ns": BEGIN + seq * SECOND,
            "input_sizes": [[size if seq == last else 1024]],
            "output_sizes": [[size if seq == last else 1024]],
            "input_dtypes": ["Float"],
            "output_dtypes": ["Float"],
            "timeout_ms": 600_000,
        }
        for seq in range(1, last + 1)
    ]
    top = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}},
        "pg_status": {
            "0": {"last_enqueued_collective": last, "last_started_collective": last, "last_completed_collective": done}
        },
        "entries": entries,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps(top), encoding="utf-8")


def verdict(folder: Path) -> Verdict:
    return diagnose([folder]).verdict


@pytest.mark.parametrize("ahead", [1, 2, 30])
def test_a_peer_that_is_through_shows_that_the_job_went_on(tmp_path: Path, ahead: int) -> None:
    for rank in range(8):
        last = 95 if rank == 7 else 96 + (rank % 2) * ahead
        dump(tmp_path, rank, 8, last, done=last if rank == 7 else last - 1)
    found = verdict(tmp_path)
    assert found.failed is None
    assert found.culprits.ranks == []
    assert "different moments" in found.summary


def test_all_at_one_number_but_one_is_a_hang_as_before(tmp_path: Path) -> None:
    for rank in range(8):
        dump(tmp_path, rank, 8, 95 if rank == 7 else 96, done=95)
    found = verdict(tmp_path)
    assert (found.failed, found.culprits.ranks) == (True, [7])


@pytest.mark.parametrize("small", [2, 4, 6])
def test_dumps_of_two_worlds_name_nobody_where_no_line_tells_which_is_this_one(tmp_path: Path, small: int) -> None:
    for rank in range(small):
        dump(tmp_path / "a", rank, small, 19 if rank == 1 else 20, done=19)
    for rank in range(8):
        dump(tmp_path / "b", rank, 8, 19 if rank == 6 else 20, done=19)
    found = verdict(tmp_path)
    assert (found.failed, found.culprits.ranks) == (None, [])
    assert f"{small} and 8 members" in found.summary


@pytest.mark.parametrize("each", [2, 3, 4])
def test_files_named_by_local_rank_are_of_no_known_rank(tmp_path: Path, each: int) -> None:
    for node in range(each):
        for local in range(2):
            dump(tmp_path / f"node{node}", local, 2 * each, 19 if (node, local) == (1, 0) else 20, done=19)
    found = verdict(tmp_path)
    assert (found.failed, found.culprits.ranks) == (None, [])
    assert "named by local rank" in found.summary


def test_two_copies_of_each_dump_are_no_local_ranks(tmp_path: Path) -> None:
    for copy in ("a", "b"):
        for rank in range(4):
            dump(tmp_path / copy, rank, 4, 19 if rank == 1 else 20, done=19)
    assert verdict(tmp_path).culprits.ranks == [1]


def test_the_log_tells_which_of_two_worlds_is_this_one(tmp_path: Path) -> None:
    for rank in range(4):
        dump(tmp_path / "a", rank, 4, 19 if rank == 1 else 20, done=19)
    for rank in range(8):
        dump(tmp_path / "b", rank, 8, 19 if rank == 6 else 20, done=19)
    lines = [f"Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/8" for r in range(8)]
    lines.append("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")
    (tmp_path / "job.log").write_text("\n".join([*lines, "world_size=8"]) + "\n", encoding="utf-8")
    assert verdict(tmp_path).culprits.ranks == [6]


def test_sides_of_a_difference_are_parted_by_size_too(tmp_path: Path) -> None:
    for rank in range(8):
        op, size = ("broadcast", 1024) if rank == 2 else ("all_reduce", 7 if rank == 5 else 1024)
        dump(tmp_path, rank, 8, 20, done=19, op=op, size=size)
    found = verdict(tmp_path)
    assert found.category is Category.COLLECTIVE_MISMATCH
    assert sorted(found.culprits.ranks) == [2, 5]
    assert "all_reduce of 7 by rank 5" in found.summary


def test_a_pickle_that_asks_for_an_object_is_told_to_be_refused(tmp_path: Path) -> None:
    for rank in range(3):
        dump(tmp_path, rank, 4, 9 if rank == 1 else 10, done=9)
    (tmp_path / "nccl_trace_rank_3").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    row = next(r for r in diagnose([tmp_path]).coverage if r.file.endswith("_3"))
    assert row.state is CoverageState.DAMAGED
    assert "refused" in row.reason


def test_a_killed_rank_that_left_a_dump_is_told(tmp_path: Path) -> None:
    for rank in range(4):
        dump(tmp_path / "dumps", rank, 4, 19 if rank == 3 else 20, done=19)
    lines = [
        f"rig-01:{5100 + r}:{5100 + r} [{r}] NCCL INFO comm 0x7d{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {r + 1}b000 commId 0x5 - Init COMPLETE"
        for r in range(4)
    ]
    (tmp_path / "rig-01.log").write_text("\n".join([*lines, "world_size=4"]) + "\n", encoding="utf-8")
    kill = "May 28 20:27:20 rig-01 kernel: Memory cgroup out of memory: Killed process 5102 (python) total-vm:91234567kB, anon-rss:61234567kB"
    (tmp_path / "rig-01.dmesg").write_text(kill + "\n", encoding="utf-8")
    found = verdict(tmp_path)
    assert found.category is Category.INFRASTRUCTURE
    assert "a killed process cannot write" in found.summary
    assert found.strength is not Strength.ESTABLISHED


def test_an_absent_and_a_frozen_rank_are_told_apart(tmp_path: Path) -> None:
    for rank in range(4):
        dump(tmp_path, rank, 4, {1: 19}.get(rank, 20), done={2: 10}.get(rank, 19))
    found = verdict(tmp_path)
    assert found.culprits.ranks == [1, 2]
    assert "Rank 1 never issued" in found.summary
    assert "rank 2 stopped completing work" in found.summary
    assert found.category is Category.UNKNOWN
