"""What NCCL's own report of a job says of ranks, beside lines and dumps: who is dead, and that counts alone name nobody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from test_dumps_and_lines import dump, watchdog

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

WORLD = 8
REPORT = """NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4  {size:8}  {size:8}   RUNNING  {errors}

Errors
======

"""
DEAD = """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process {pid} on node 10.0.0.9 managing GPU 1

"""
INCOMPLETE = """#0-0 (fa93daea854b060b) INCOMPLETE
  Missing communicator data from 1 rank
  Rank {rank} -- GPU 1 managed by process 4711 on node 10.0.0.9
"""
MISMATCH = """Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 640
  1 rank has launched up to operation 641
  Rank {rank} -- GPU 1 managed by process 4711 on node 10.0.0.9
"""


def verdict_of(
    folder: Path, report: str, *, size: int = WORLD, silent: tuple[int, ...] = (), dumps: bool = True
) -> Verdict:
    """The verdict on a hang of which NCCL reported; silent ranks left neither a line nor a dump."""
    lines = [line for rank in range(WORLD) if rank not in silent for line in watchdog(rank)]
    (folder / "job.log").write_text(f"world_size={WORLD} rank=0\n" + "\n".join(lines) + "\n")
    for rank in range(WORLD):
        if dumps and rank not in silent:
            (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump()))
    (folder / "ras.txt").write_text(REPORT.format(size=size, errors="INCOMPLETE") + report)
    return diagnose([folder]).verdict


@pytest.mark.parametrize("dumps", [False, True])
@pytest.mark.parametrize("dead", [0, 5])
def test_the_dead_process_is_the_rank_that_the_report_gives_it(tmp_path, dumps, dead):
    report = DEAD.format(pid=4711) + INCOMPLETE.format(rank=dead)
    verdict = verdict_of(tmp_path, report, silent=(dead,), dumps=dumps)
    assert verdict.culprits.ranks == [dead]
    assert verdict.category is Category.UNKNOWN


@pytest.mark.parametrize("dumps", [False, True])
def test_of_two_that_are_not_seen_the_one_that_is_reported_dead_is_named(tmp_path, dumps):
    report = DEAD.format(pid=4711) + INCOMPLETE.format(rank=5)
    assert verdict_of(tmp_path, report, silent=(3, 5), dumps=dumps).culprits.ranks == [5]


@pytest.mark.parametrize("dumps", [False, True])
def test_a_rank_that_gave_no_data_is_named_where_no_process_is_listed_as_dead(tmp_path, dumps):
    verdict = verdict_of(tmp_path, INCOMPLETE.format(rank=5), silent=(5,), dumps=dumps)
    assert verdict.culprits.ranks == [5]


def test_a_rank_of_a_smaller_communicator_is_no_global_rank(tmp_path):
    report = DEAD.format(pid=4711) + INCOMPLETE.format(rank=1)
    assert 1 not in verdict_of(tmp_path, report, size=4, silent=(5,)).culprits.ranks


def test_a_dead_process_that_the_report_gives_no_rank_is_not_taken_for_one(tmp_path):
    report = DEAD.format(pid=9999) + INCOMPLETE.format(rank=5)
    verdict = verdict_of(tmp_path, report, silent=(3,))
    # Rank 5 waits by lines and by its dump; rank 3 is missed by both, and is named as it is without the report.
    (tmp_path / "without").mkdir()
    without = verdict_of(tmp_path / "without", "", silent=(3,))
    assert (verdict.culprits.ranks, verdict.culprits.strength) == ([3], without.culprits.strength)


@pytest.mark.parametrize("rank", [0, 6])
def test_counts_that_differ_name_nobody(tmp_path, rank):
    verdict = verdict_of(tmp_path, MISMATCH.format(rank=rank))
    assert verdict.culprits.ranks == []


def test_without_any_other_witness_the_report_names_no_rank_of_an_unknown_world(tmp_path):
    (tmp_path / "ras.txt").write_text(DEAD.format(pid=4711) + INCOMPLETE.format(rank=5))
    verdict = diagnose([tmp_path]).verdict
    assert (verdict.culprits.ranks, verdict.strength) == ([], Strength.UNKNOWN)
    assert (verdict.culprits.hosts, verdict.culprits.strength) == (["10.0.0.9"], Strength.POSSIBLE)
    assert "process 4711 on 10.0.0.9" in verdict.summary
