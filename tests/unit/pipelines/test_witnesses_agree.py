"""Lines, dumps and stacks of one fault: a witness more that says the same never takes anything from the verdict."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from tests.unit.analysis.test_stacks import DATA, SYNC, WAIT, spy
from tests.unit.pipelines.test_dumps_and_lines import WORLD, dump, watchdog

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

ODD = 3
BROADCAST = ["broadcast (torch/distributed/distributed_c10d.py:2800)", "step (train.py:55)"]
STEPS = "step 10/100 loss 2.1\nstep 20/100 loss 2.0\n"
FAULTS = {
    "absent": (lambda: dump(499, done=True), list, DATA),
    "size": (lambda: dump(size=4096), lambda: watchdog(ODD, size=4096), WAIT),
    "operation": (lambda: dump(op="broadcast"), lambda: watchdog(ODD, op="BROADCAST"), BROADCAST),
}


def started():
    return "".join(
        f"[rank{r}]: Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/{WORLD}\n" for r in range(WORLD)
    )


def write(folder, *, dumps=None, lines=None, stacks=None, start=None):
    folder.mkdir(exist_ok=True)
    for rank, content in (dumps or {}).items():
        (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(content))
    for rank, text in (stacks or {}).items():
        (folder / f"rank{rank}.txt").write_text(text)
    if lines is not None:
        (folder / "job.log").write_text((started() if start is None else start) + STEPS + "\n".join(lines) + "\n")
    return diagnose([folder]).verdict


def witnesses(kind, stack=None):
    odd_dump, odd_lines, odd_stack = FAULTS[kind]
    return {
        "dumps": {r: odd_dump() if r == ODD else dump() for r in range(WORLD)},
        "lines": [line for r in range(WORLD) for line in (odd_lines() if r == ODD else watchdog(r))],
        "stacks": {r: spy(100 + r, (stack or odd_stack) if r == ODD else WAIT) for r in range(WORLD)},
    }


@pytest.mark.parametrize("kind", FAULTS)
def test_a_witness_more_that_agrees_never_weakens(tmp_path, kind):
    told = witnesses(kind)
    found = {
        names: write(tmp_path / "-".join(names), **{n: told[n] for n in names})
        for size in (1, 2, 3)
        for names in combinations(sorted(told), size)
        if names != ("stacks",)  # alone they prove no hang
    }
    for few, less in found.items():
        for many, more in found.items():
            if not set(few) < set(many):
                continue
            if less.category is not Category.UNKNOWN:
                assert more.category is less.category, (few, many)
            assert more.strength.level >= less.strength.level, (few, many)
            if less.culprits.ranks:
                assert more.culprits.ranks == less.culprits.ranks == [ODD], (few, many)
                assert more.culprits.strength.level >= less.culprits.strength.level, (few, many)
    assert found["dumps", "lines", "stacks"].culprits.strength is Strength.ESTABLISHED


def test_stacks_that_all_stand_in_the_collective_bear_a_mismatch_of_sizes_out(tmp_path):
    told = witnesses("size")
    found = write(tmp_path, dumps=told["dumps"], stacks=told["stacks"])
    assert (found.category, found.strength) == (Category.COLLECTIVE_MISMATCH, Strength.ESTABLISHED)
    assert "But" not in found.summary


def test_who_never_came_and_stands_in_the_collective_by_its_stack_is_a_contradiction(tmp_path):
    told = witnesses("absent", WAIT)
    found = write(tmp_path, dumps=told["dumps"], stacks=told["stacks"])
    assert (found.strength, found.culprits.strength) == (Strength.POSSIBLE, Strength.POSSIBLE)
    assert "But its stack shows" in found.summary


def test_who_never_came_and_alone_waits_for_its_device_is_named_by_both(tmp_path):
    told = witnesses("absent", SYNC)
    found = write(tmp_path, dumps=told["dumps"], stacks=told["stacks"])
    assert (found.category, found.culprits.ranks) == (Category.GPU_CUDA, [ODD])
    assert found.culprits.strength is Strength.ESTABLISHED
    assert "CPU side" not in found.summary


def test_where_all_wait_for_their_devices_nobody_s_device_is_told_apart(tmp_path):
    told = witnesses("absent", SYNC)
    stacks = {r: spy(100 + r, SYNC) for r in range(WORLD)}
    assert write(tmp_path, dumps=told["dumps"], stacks=stacks).category is not Category.GPU_CUDA


def error(rank):
    return [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/app/tune.py", line 77, in batch',
        f"[rank{rank}]: KeyError: 'mask'",
    ]


def test_an_error_of_the_rank_for_which_the_others_wait_by_the_dumps_is_surer(tmp_path):
    alone = write(tmp_path / "a", lines=error(ODD))
    both = write(tmp_path / "b", lines=error(ODD), dumps=witnesses("absent")["dumps"])
    assert (both.category, both.first_failed.ranks) == (Category.SOFTWARE, [ODD])
    assert both.strength.level > alone.strength.level
    assert "dumps agree" in both.summary


def test_an_error_of_a_rank_that_waits_by_the_dumps_is_told_to_disagree(tmp_path):
    found = write(tmp_path, lines=error(5), dumps=witnesses("absent")["dumps"])
    assert (found.category, found.strength, found.first_failed.ranks) == (Category.SOFTWARE, Strength.POSSIBLE, [5])
    assert "disagree: there the others wait for rank 3, and rank 5 waits with them" in found.summary


def test_a_dump_that_its_rank_s_own_lines_contradict_is_told(tmp_path):
    lines = [line for r in range(WORLD) if r != 5 for line in watchdog(r)]
    found = write(tmp_path, lines=lines, dumps=witnesses("absent")["dumps"])
    assert found.strength.level <= Strength.POSSIBLE.level
    assert "against its own dump" in found.summary
    assert "miss rank 5" in found.summary


RAS = """NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          8            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         8         8        8  RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4711 on node 10.0.0.9 managing GPU 3

#0-0 (fa93daea854b060b) INCOMPLETE
  Missing communicator data from 1 rank
  Rank {rank} -- GPU 3 managed by process 4711 on node 10.0.0.9
"""


def test_a_report_of_the_rank_for_which_all_wait_makes_it_surer(tmp_path):
    lines = witnesses("absent")["lines"]
    alone = write(tmp_path / "a", lines=lines)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "ras.txt").write_text(RAS.format(rank=ODD))
    both = write(tmp_path / "b", lines=lines)
    assert both.culprits.ranks == alone.culprits.ranks == [ODD]
    assert both.culprits.strength.level > alone.culprits.strength.level
    assert "waited" in both.summary


def test_a_rank_of_which_a_dump_or_a_stack_is_here_is_not_called_silent(tmp_path):
    told = witnesses("absent")
    for name, more in (("dumps", {"dumps": told["dumps"]}), ("stacks", {"stacks": told["stacks"]})):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "world.log").write_text("WORLD_SIZE=8\n")
        write(folder, lines=[line for r in range(WORLD) if r != ODD for line in watchdog(r)], start="", **more)
        ranks = diagnose([folder]).ranks
        assert ODD not in ranks.silent
        assert not ranks.silent


def test_stacks_of_the_named_that_are_here_are_not_asked_for(tmp_path):
    told = witnesses("absent")
    folder = tmp_path / "all"
    write(folder, **told)
    assert not [c for c in diagnose([folder]).collect_next if c.startswith("stacks of the named")]
