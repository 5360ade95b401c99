"""Simulated hangs: the diagnosis against what the simulation did, as far as the lines that are left hold it.

A small matrix always; `FIRSTFAULT_TEST_PROFILE=large` adds everything that is possible at one seed, and damaged logs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from hangs import matrix, oracle  # noqa: E402 - the package lies beside this file
from hangs.incident import Spec, make  # noqa: E402
from hangs.judging import Outcome, outcome  # noqa: E402

import checks  # noqa: E402
from firstfault.pipelines.diagnose import diagnose  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGE = os.environ.get("FIRSTFAULT_TEST_PROFILE") == "large"
REACHED = checks.read_reached(HERE / "hangs_reached.toml")["incidents"]
DAMAGED_RIGHT = 0.95


def _parameters(specs: Iterable[Spec]) -> list[object]:
    found = []
    for spec in specs:
        reason = REACHED.get(spec.name)
        marks = () if reason is None else (pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError),)
        found.append(pytest.param(spec, id=spec.name, marks=marks))
    return found


def judged(spec: Spec, folder: Path) -> Outcome:
    """Simulate, diagnose, judge."""
    incident = make(spec)
    return outcome(diagnose([incident.write(folder)]), incident)


@pytest.mark.parametrize("spec", _parameters(matrix.small()))
def test_hang(spec: Spec, tmp_path: Path) -> None:
    found = judged(spec, tmp_path)
    assert not found.wrong, found.wrong
    assert not found.missed, found.missed


@pytest.mark.slow
def test_everything_that_is_possible(tmp_path: Path) -> None:
    """Every 240th of all that is possible in the small profile, all of it in the large one."""
    results = {spec.name: judged(spec, tmp_path / spec.name) for spec in list(matrix.full())[:: 1 if LARGE else 240]}
    assert results
    assert {name: found.wrong for name, found in results.items() if found.wrong} == {}
    assert {name: found.missed for name, found in results.items() if found.missed} == {}


@pytest.mark.slow
def test_damaged_logs(tmp_path: Path) -> None:
    results = {spec.name: judged(spec, tmp_path / spec.name) for spec in matrix.damaged(600 if LARGE else 20)}
    assert {name: found.wrong for name, found in results.items() if found.wrong} == {}
    missed = [name for name, found in results.items() if found.missed]
    assert len(missed) <= (1 - DAMAGED_RIGHT) * len(results), missed


def test_the_same_specification_gives_the_same_incident() -> None:
    spec = Spec("stall_two", "2.4", 16, "rank", "glued")
    first, second = make(spec), make(spec)
    assert first.truth == second.truth
    texts = [[entry.text for entry in entries] for entries in first.files.values()]
    assert texts == [[entry.text for entry in entries] for entries in second.files.values()]


@pytest.mark.parametrize("version", ["2.3", "2.6", "2.8"])
@pytest.mark.parametrize("kind", ["stall_loader", "fabric", "mismatch_size", "crash_memory", "heartbeat"])
def test_logs_with_global_ranks_hold_the_truth(kind: str, version: str) -> None:
    truth = make(Spec(kind, version, 16, "node")).truth
    assert truth.held, truth.why


def test_truth_is_weaker_where_lines_of_a_rank_are_lost() -> None:
    incident = make(Spec("stall_loader", "2.3", 8, "one"))
    waiting = next(rank for rank in range(8) if rank not in incident.injected.culprits)
    name, entries = next(iter(incident.files.items()))
    kept = [entry for entry in entries if all(line.rank != waiting for line in entry.lines)]
    (truth,) = oracle.judge(incident.injected, incident.shape, {name: kept})
    assert incident.truth.held
    assert not truth.held
    assert {waiting, *incident.injected.culprits} <= set(truth.suspects)


def test_what_is_not_reached_is_listed_properly() -> None:
    assert set(REACHED) <= {spec.name for spec in matrix.small()}
    assert all(isinstance(reason, str) and reason for reason in REACHED.values())
