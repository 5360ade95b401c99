"""The part of the cost lint that needs no clock."""

from __future__ import annotations

import pytest

from firstfault.signatures.cost import costs_of


@pytest.mark.parametrize(
    "pattern",
    [
        r"CUDA out of memory\. Tried to allocate ",
        r"^Killed by signal (?P<signal>\d+)\.",
        r"node (?P<host>\S+) reason set to: Not responding",
    ],
)
def test_fair_patterns(pattern):
    assert costs_of(pattern) == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"\d+ \w+", "shorter than"),
        (r"[A-Z]+\d", "no word"),
        (r"loss: \d", "healthy jobs"),
    ],
)
def test_dear_patterns(pattern, why):
    assert any(why in sentence for sentence in costs_of(pattern))
