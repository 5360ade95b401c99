"""Every simulated incident: the verdict against what the simulation did."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

import casefolder
import checks
from firstfault.pipelines.diagnose import diagnose
from judge import Judgement, judge

HERE = Path(__file__).parent
CASES = casefolder.find([HERE])
REACHED = checks.read_reached(HERE / "reached.toml")


@functools.cache
def judged(folder: Path) -> Judgement:
    """One diagnosis an incident serves all its checks."""
    case = casefolder.load(folder)
    return judge(diagnose(case.paths), case.expected)


@pytest.mark.parametrize(("case", "names"), checks.parameters(CASES, REACHED))
def test_incident(case: casefolder.Case, names: tuple[str, ...]) -> None:
    problem = checks.failing(names, judged(case.folder))
    assert not problem, problem


def test_what_is_not_reached_is_listed_properly() -> None:
    assert checks.problems(REACHED, [case.name for case in CASES]) == []
