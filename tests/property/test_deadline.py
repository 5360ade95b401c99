"""Whenever the time for an answer is over, no answer is bolder than the part that was read lets it be."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import pytest

import casefolder
import checks
from firstfault.model import until
from firstfault.model.words import Category, CoverageState, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from judge import judge

if TYPE_CHECKING:
    from firstfault.model.diagnosis import Diagnosis

FOLDERS = (casefolder.CASES, casefolder.GENERATED)
REACHED = {
    name: entries for folder in FOLDERS for name, entries in checks.read_reached(folder / "reached.toml").items()
}
POOL = [c for c in casefolder.find(FOLDERS) if "confidently_wrong" not in REACHED.get(c.name, {})][::7]
"""One case in seven, always the same ones."""


class Ticking:
    """A clock that moves on by a step each time somebody looks at it, so that the time is over at another place for each step."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._looks = itertools.count()

    def monotonic(self) -> float:
        return next(self._looks) * self._step


def in_time(case: casefolder.Case, step: float, monkeypatch: pytest.MonkeyPatch) -> Diagnosis:
    """The diagnosis in a second, of a clock with such steps."""
    monkeypatch.setattr(until, "time", Ticking(step))
    return diagnose(case.paths, DiagnoseOptions(engine="inline", deadline=1.0))


def left_off(found: Diagnosis) -> int:
    """Inputs that were not read to their end."""
    return sum(row.reason == until.OVER for row in found.coverage)


@pytest.mark.parametrize("case", POOL, ids=lambda case: case.name)
def test_an_early_answer_is_not_bold(case: casefolder.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (0.3, 0.12, 0.07, 0.04, 0.02, 0.01):
        found = in_time(case, step, monkeypatch)
        verdict = found.verdict
        if not left_off(found):
            break
        assert verdict.category is not Category.NONE
        assert verdict.strength is not Strength.ESTABLISHED
        assert "the best answer so far" in verdict.summary
        assert not judge(found, case.expected).confidently_wrong, step


@functools.cache
def several() -> casefolder.Case:
    """A case of many files."""
    return max(casefolder.find(FOLDERS[:1]), key=lambda case: len(case.files()))


def test_with_time_enough_the_answer_is_the_same() -> None:
    case = several()
    whole, given = diagnose(case.paths), diagnose(case.paths, DiagnoseOptions(deadline=3600))
    assert whole == given


def test_more_time_reads_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [in_time(several(), step, monkeypatch) for step in (0.3, 0.02, 0.005, 0.00001)]
    read = [sum(row.state is CoverageState.READ for row in diagnosis.coverage) for diagnosis in found]
    assert read == sorted(read)
    assert read[0] == 0
    assert read[-1] == sum(row.state is CoverageState.READ for row in diagnose(several().paths).coverage)
    assert left_off(found[0])
    assert not left_off(found[-1])
