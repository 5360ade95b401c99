"""The list of what is not reached: right entries become strict expected failures, wrong ones are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import casefolder
import checks

if TYPE_CHECKING:
    from pathlib import Path

CASE = casefolder.find([casefolder.CASES])[0]
REACHED = {CASE.name: {"trigger": "why", "noise": {"category": "why with noise"}}}


def marks(*, noise: bool) -> dict[str, list[tuple[str, bool]]]:
    """Check -> (reason, strict) of its marks, where it has any."""
    return {
        parameter.values[1][0]: [(mark.kwargs["reason"], mark.kwargs["strict"]) for mark in parameter.marks]
        for parameter in checks.parameters([CASE], REACHED, noise=noise)
        if parameter.marks
    }


ALL = ("confidently_wrong", "must_not", "category", "culprits", "trigger")


def test_what_must_hold_of_a_case_is_one_test_and_what_is_not_reached_one_each() -> None:
    assert [parameter.values for parameter in checks.parameters([CASE], {})] == [(CASE, ALL)]
    assert [parameter.values for parameter in checks.parameters([CASE], REACHED, noise=True)] == [
        (CASE, ("confidently_wrong", "must_not", "culprits")),
        (CASE, ("category",)),
        (CASE, ("trigger",)),
    ]


def test_one_check_that_does_not_hold_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALL:
        monkeypatch.setitem(checks.CHECKS, name, lambda judgement, own=name: "why" if judgement is own else "")
    assert checks.failing(ALL, "culprits") == "culprits: why"  # type: ignore[arg-type]
    assert checks.failing(("trigger",), "culprits") == ""  # type: ignore[arg-type]


def test_what_is_not_reached_is_a_strict_expected_failure() -> None:
    assert marks(noise=False) == {"trigger": [("why", True)]}


def test_start_up_lines_may_break_what_fails_anyway_and_must_break_what_is_listed_for_them() -> None:
    assert marks(noise=True) == {"trigger": [("why", False)], "category": [("why with noise", True)]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[no-such]\ntrigger = 'why'", "no such case: no-such"),
        (f"[{CASE.name}]\nwhom = 'why'", f"{CASE.name}: no such check: whom"),
        (f"[{CASE.name}]\nnoise.whom = 'why'", f"{CASE.name}: no such check: whom"),
        (f"[{CASE.name}]\ntrigger = ''", f"{CASE.name}: trigger has no reason"),
        (f"[{CASE.name}]\nnoise.trigger = false", f"{CASE.name}: trigger has no reason"),
    ],
)
def test_a_wrong_entry_is_found(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "reached.toml").write_text(text)
    assert checks.problems(checks.read_reached(tmp_path / "reached.toml"), [CASE.name]) == [problem]


def test_the_lists_of_this_repository_can_be_read() -> None:
    for folder in (casefolder.CASES, casefolder.GENERATED):
        assert isinstance(checks.read_reached(folder / "reached.toml"), dict)
