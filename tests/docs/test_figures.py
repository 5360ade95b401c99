"""The figures of quality in the documentation are those that the tests hold: every case right but for what is listed."""

import re
from pathlib import Path

import casefolder
import checks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "measurements.md"


def held():
    """What the tests of the cases and the simulated incidents hold, in the words of the page."""
    cases = casefolder.find([casefolder.CASES, casefolder.GENERATED])
    missed = {
        **checks.read_reached(casefolder.CASES / "reached.toml"),
        **checks.read_reached(casefolder.GENERATED / "reached.toml"),
    }

    def reached(check, judged):
        names = [case.name for case in cases if judged(case.expected)]
        return len([name for name in names if check not in missed.get(name, {})]), len(names)

    who = reached("culprits", lambda e: e.culprit_ranks is not None or e.culprit_hosts is not None)
    line = reached("trigger", lambda e: bool(e.trigger))
    wrong = len(cases) - reached("confidently_wrong", lambda _: True)[0]
    broken = len(cases) - reached("must_not", lambda _: True)[0]
    return {
        "inputs": str(len(cases)),
        "acceptable": str(reached("category", lambda _: True)[0]),
        "culprits exact": f"{who[0]} of {who[1]}",
        "trigger": f"{line[0]} of {line[1]}",
        "confidently wrong": str(wrong),
        "must not": str(broken),
    }


def test_the_figures_of_quality_are_those_that_the_tests_hold():
    text = PAGE.read_text(encoding="utf-8").partition("<!-- quality -->")[2].partition("<!-- /quality -->")[0]
    first = " ".join(text.split()).partition("Without those")[0]
    told = {
        "inputs": re.search(r"(\d+) inputs", first)[1],
        **{
            name: re.search(rf"{name} (\d+(?: of \d+)?)", first)[1]
            for name in ("acceptable", "culprits exact", "trigger", "confidently wrong", "must not")
        },
    }
    assert told == held()
