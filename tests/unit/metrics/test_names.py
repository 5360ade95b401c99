"""The expression of many names finds the longest name that fits, as trying them one by one would."""

import re

import pytest

from firstfault.metrics.columns import ALIASES
from firstfault.metrics.names import alternatives


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_every_name_is_found_whole_with_blanks_or_underscores(name):
    pattern = re.compile(alternatives(ALIASES))
    for text in (name, name.replace(" ", "_")):
        assert pattern.fullmatch(text)
        assert pattern.match(text + "!")[0] == text


def test_the_longest_name_wins_and_others_are_not_found():
    pattern = re.compile(alternatives(["step", "step time", "step_time_ms", "s/it"]))
    assert [m[0] for m in pattern.finditer("step_time_ms step time step_times steps s/it ste")] == [
        "step_time_ms",
        "step time",
        "step_time",
        "step",
        "s/it",
    ]
