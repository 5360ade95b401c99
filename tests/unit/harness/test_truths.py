"""The truths hold: every listed line is there, also behind start-up lines, and every word is one of the closed lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import casefolder
import noise
from firstfault.model.words import Category

if TYPE_CHECKING:
    from pathlib import Path

CASES = casefolder.find([casefolder.CASES])
INCIDENTS = casefolder.find([casefolder.GENERATED])
EACH = pytest.mark.parametrize("case", CASES + INCIDENTS, ids=lambda case: case.name)

EXPECTED_KEYS = {
    "category",
    "acceptable",
    "strength_at_most",
    "root_cause",
    "culprit_ranks",
    "culprit_hosts",
    "first_failed_ranks",
    "trigger",
    "must_not_say",
    "must_not",
    "why_it_is_hard",
    "provenance",
}
MAY_BE_ABSENT = "ais_logs/"
"""The simulated incidents list lines of storage archives that are not kept here."""


def listed_lines_hold(case: casefolder.Case) -> int:
    """Check each listed line of a file that is there; how many there are."""
    lines = {case.shown(file): file.read_bytes().split(b"\n") for file in case.files()}
    held = 0
    for line in case.expected.trigger:
        if line.file.startswith(MAY_BE_ABSENT) and line.file not in lines:
            continue
        assert line.must_contain.encode() in lines[line.file][line.line - 1], line
        held += 1
    return held


@EACH
def test_listed_lines_hold_behind_start_up_lines(case: casefolder.Case, tmp_path: Path) -> None:
    for number in range(1, len(noise.SETS) + 1):
        target = tmp_path / str(number)
        noisy, paths = noise.in_front(case, number, target)
        assert listed_lines_hold(noisy) == listed_lines_hold(case)
        assert paths == noisy.paths
        for file in noisy.files():
            original = (case.folder / file.relative_to(target)).read_bytes()
            assert file.read_bytes().endswith(original)
            assert file.read_bytes().count(b"\n") - original.count(b"\n") == noise.LINES


@EACH
def test_a_case_is_sound(case: casefolder.Case) -> None:
    assert listed_lines_hold(case) > 0 or not case.expected.trigger
    truth = case.expected
    words = {str(category) for category in Category}
    assert truth.category in truth.acceptable <= words
    assert truth.must_not_categories <= words - truth.acceptable
    assert truth.strength_at_most in (None, "possible", "unknown")
    assert truth.strength_at_most != "unknown" or truth.category == "unknown"
    assert not truth.must_not_ranks & (truth.culprit_ranks or set())
    assert not truth.must_not_hosts & (truth.culprit_hosts or set())


def test_a_case_has_every_key_and_puts_the_right_category_first() -> None:
    for case in CASES:
        data = json.loads((case.folder / "expected.json").read_text(encoding="utf-8"))
        assert set(data) == EXPECTED_KEYS, case.name
        assert data["acceptable"][0] == data["category"], case.name
        assert set(data["must_not"]) == {"category", "ranks", "hosts"}, case.name


@pytest.mark.parametrize("lines", noise.SETS, ids=range(1, len(noise.SETS) + 1))
def test_a_set_of_start_up_lines_has_its_length(lines: tuple[str, ...]) -> None:
    assert len(lines) == noise.LINES
    assert not [line for line in lines if "\n" in line]
