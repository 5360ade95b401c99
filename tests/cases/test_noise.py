"""The same cases with harmless start-up lines in front of every file: the verdict must not mind them."""

from __future__ import annotations

import functools
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import casefolder
import checks
import noise
from firstfault.pipelines.diagnose import diagnose
from judge import Judgement, judge

HERE = Path(__file__).parent
CASES = casefolder.find([HERE])
REACHED = checks.read_reached(HERE / "reached.toml")


def sets_of(case: casefolder.Case) -> list[int]:
    """Two of the four sets of lines, in turn over the cases; all where one of them is known to hide something.

    `bench/quality/score.py --noise` runs every case with every set.
    """
    every = range(1, len(noise.SETS) + 1)
    if checks.NOISE in REACHED.get(case.name, {}):
        return list(every)
    turn = sum(case.name.encode()) % len(every)
    return sorted(every[(turn + step) % len(every)] for step in (0, 1))


@functools.cache
def judged(folder: Path) -> dict[int, Judgement]:
    """One judgement a set of lines, for all the checks of a case."""
    found = {}
    whole = casefolder.load(folder)
    for number in sets_of(whole):
        with TemporaryDirectory() as target:
            case, paths = noise.in_front(whole, number, Path(target))
            found[number] = judge(diagnose(paths), case.expected)
    return found


@pytest.mark.parametrize(("case", "names"), checks.parameters(CASES, REACHED, noise=True))
def test_case_with_start_up_lines(case: casefolder.Case, names: tuple[str, ...]) -> None:
    problems = {
        number: problem
        for number, judgement in judged(case.folder).items()
        if (problem := checks.failing(names, judgement))
    }
    assert not problems, problems
