"""Several witnesses of one incident: together they say more than any of them, and where they disagree the report says so."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from firstfault.model.words import Strength
from firstfault.pipelines.diagnose import diagnose

HERE = Path(__file__).parent / "loader-behind-a-mount"
TRUTH = json.loads((HERE / "truth.json").read_text())
PARTS = ("logs", "dumps", "stacks", "kernel")
SETS = [c for n in range(1, 5) for c in combinations(PARTS, n)]


def said(parts, folder=HERE):
    return diagnose([folder / part for part in parts])


@pytest.mark.parametrize("parts", SETS, ids="+".join)
def test_nobody_innocent_is_named_and_nothing_wrong_is_claimed(parts):
    found = said(parts).verdict
    assert set(found.culprits.ranks) <= {TRUTH["rank"]}
    assert set(found.culprits.hosts) <= {TRUTH["host"]}
    assert set(found.first_failed.ranks) <= {TRUTH["rank"]}
    true = {*TRUTH["with_kernel"], *TRUTH["without_kernel"], "unknown"}
    assert str(found.category) in true
    if "kernel" not in parts:
        assert str(found.category) not in TRUTH["with_kernel"]


@pytest.mark.parametrize("parts", [c for c in SETS if len(c) > 1], ids="+".join)
def test_a_witness_more_never_makes_it_less_sure_whom_it_hit(parts):
    def sure(some):
        found = said(some).verdict
        named = found.culprits.ranks == [TRUTH["rank"]] or found.first_failed.ranks == [TRUTH["rank"]]
        return named * (1 + max(found.culprits.strength.level, found.strength.level))

    for part in parts:
        if part != "kernel":  # the machine's word moves the blame from the rank to the store
            assert sure(parts) >= sure([p for p in parts if p != part])


def test_the_three_of_the_job_establish_who_it_was():
    alone = {part: said([part]).verdict for part in PARTS}
    together = said(["logs", "dumps", "stacks"]).verdict
    assert max(v.culprits.strength.level for v in alone.values()) < Strength.ESTABLISHED.level
    assert together.culprits.strength is Strength.ESTABLISHED
    assert (together.culprits.ranks, together.culprits.hosts) == ([TRUTH["rank"]], [TRUTH["host"]])
    assert str(together.category) in TRUTH["without_kernel"]
    assert together.strength is Strength.SUPPORTED  # who it was is certain, why is not


def test_all_four_establish_why():
    alone = [said([part]).verdict for part in PARTS]
    pairs = [said(c).verdict for c in SETS if 1 < len(c) < 4]
    found = said(PARTS)
    assert str(found.verdict.category) in TRUTH["with_kernel"]
    assert found.verdict.strength is Strength.ESTABLISHED
    assert all(v.strength.level < Strength.ESTABLISHED.level for v in (*alone, *pairs))
    assert (found.verdict.first_failed.ranks, found.verdict.first_failed.hosts) == ([TRUTH["rank"]], [TRUTH["host"]])
    assert found.verification.withdrawn == []
    files = {line.file.split("/")[0] for line in found.key_lines}
    assert files >= {"dumps", "stacks", "kernel"}


def swapped(to: Path) -> Path:
    """The same incident with the stacks of ranks 1 and 3 in each other's place."""
    for part in PARTS:
        (to / part).mkdir()
        for file in (HERE / part).iterdir():
            (to / part / file.name).write_bytes(file.read_bytes())
    texts = {rank: (HERE / "stacks" / f"rank{rank}.txt").read_text() for rank in (1, 3)}
    pids = {rank: text.split(":", 1)[0].removeprefix("Process ") for rank, text in texts.items()}
    for rank, other in ((1, 3), (3, 1)):
        (to / "stacks" / f"rank{rank}.txt").write_text(texts[other].replace(pids[other], pids[rank]))
    return to


@pytest.mark.parametrize("parts", [("logs", "dumps", "stacks"), PARTS], ids="+".join)
def test_witnesses_that_disagree_are_told_and_weaken_each_other(parts, tmp_path):
    found = said(parts, swapped(tmp_path)).verdict
    assert "The stacks disagree" in found.summary
    assert found.strength.level <= Strength.POSSIBLE.level
    assert found.culprits.strength.level <= Strength.POSSIBLE.level
    assert found.culprits.ranks in ([], [TRUTH["rank"]])


def test_a_machine_that_the_waiting_do_not_wait_for_explains_nothing_more(tmp_path):
    folder = swapped(tmp_path)
    for rank in (1, 3):
        (folder / "stacks" / f"rank{rank}.txt").write_bytes((HERE / "stacks" / f"rank{rank}.txt").read_bytes())
    (folder / "kernel" / "dmesg-node-b.txt").rename(folder / "kernel" / "dmesg-node-a.txt")
    found = said(PARTS, folder).verdict
    assert found.strength is not Strength.ESTABLISHED
    assert found.first_failed.ranks == []
