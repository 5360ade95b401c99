"""The checks that every case has to pass, and the list of what is not reached yet.

A check looks at one judgement and tells what is wrong in a sentence, or nothing. `reached.toml` beside the cases names,
per case and check, what is not reached, with the reason; the test of it is then a strict expected failure, so that the
list can only be right.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from casefolder import Case
    from judge import Judgement

NOISE = "noise"
"""Key of the table in `reached.toml` for what is reached without start-up lines only."""


def _confidently_wrong(judgement: Judgement) -> str:
    return "; ".join(judgement.confidently_wrong)


def _must_not(judgement: Judgement) -> str:
    return ", ".join(judgement.must_not)


def _category(judgement: Judgement) -> str:
    return "" if judgement.acceptable else f"{judgement.category} ({judgement.strength}) is not acceptable"


def _culprits(judgement: Judgement) -> str:
    wrong = [
        name for name, right in (("ranks", judgement.ranks_exact), ("hosts", judgement.hosts_exact)) if right is False
    ]
    return f"not exactly the {' and '.join(wrong)} at fault" if wrong else ""


def _trigger(judgement: Judgement) -> str:
    return "the trigger is none of the listed lines" if judgement.trigger is False else ""


CHECKS: dict[str, Callable[[Judgement], str]] = {
    "confidently_wrong": _confidently_wrong,
    "must_not": _must_not,
    "category": _category,
    "culprits": _culprits,
    "trigger": _trigger,
}


def read_reached(file: Path) -> dict[str, dict[str, Any]]:
    """What is not reached yet: case -> check -> reason, and case -> `noise` -> check -> reason."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


def problems(reached: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """What is wrong with the list itself: unknown cases or checks, and missing reasons."""
    known = set(names)
    found = [f"no such case: {name}" for name in reached if name not in known]
    for name, entries in reached.items():
        flat = {**{key: value for key, value in entries.items() if key != NOISE}, **entries.get(NOISE, {})}
        found += [f"{name}: no such check: {check}" for check in flat if check not in CHECKS]
        found += [
            f"{name}: {check} has no reason" for check, why in flat.items() if not isinstance(why, str) or not why
        ]
    return found


def failing(names: Iterable[str], judgement: Judgement) -> str:
    """What is wrong by some checks; empty where nothing is."""
    return "; ".join(f"{name}: {problem}" for name in names if (problem := CHECKS[name](judgement)))


def parameters(cases: Iterable[Case], reached: Mapping[str, Mapping[str, Any]], *, noise: bool = False) -> list[Any]:
    """Parameter sets (case, checks): one with all that must hold, and one, so marked, for each check that is not reached.

    With `noise`, what fails without start-up lines may fail with them, and what `noise` lists must.
    """
    found = []
    for case in cases:
        entries = reached.get(case.name, {})
        listed = entries.get(NOISE, {}) if noise else {}
        held = tuple(check for check in CHECKS if check not in entries and check not in listed)
        if held:
            found.append(pytest.param(case, held, id=case.name))
        for check in CHECKS:
            if check in held:
                continue
            why, strict = (listed[check], True) if check in listed else (entries[check], not noise)
            mark = pytest.mark.xfail(reason=why, strict=strict, raises=AssertionError)
            found.append(pytest.param(case, (check,), id=f"{case.name}-{check}", marks=mark))
    return found
