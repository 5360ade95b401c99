"""Words that every match holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.scan.literals import required_literals


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("out of mem", {b"out of mem"}),
        (r"rank \d+ died of fright", {b" died of fright"}),
        (r"(?:kill|stopp)ed by", {b"killed by", b"stopped by"}),
        (r"loss[^\n]{0,40}(?:is|was) (?:NaN|nan)", {b"is NaN", b"is nan", b"was NaN", b"was nan"}),
        (r"[Nn]odes? failed", {b"Node failed", b"Nodes failed", b"node failed", b"nodes failed"}),
        (r"(?i)Fatal Error", {b"fatal error"}),
        (r"(?P<a>NCCL) (?P<b>WARN) x", {b"NCCL WARN x"}),
        (r"(?:abcdefgh)+\d", {b"abcdefgh"}),
        (r"(?:abcdefgh)*xyz", {b"xyz"}),
    ],
)
def test_words(pattern, words):
    assert set(required_literals(pattern).words) == words


@pytest.mark.parametrize("pattern", [r"\d+", r"(?:abc)?\d", r"(?:abc|\d+)x*", r"[^\n]"])
def test_no_words(pattern):
    assert required_literals(pattern) is None


PIECES = st.sampled_from(
    [
        "ab",
        "c",
        "[de]",
        "(?:fg|h)",
        "(?:ij)?",
        "k+",
        r"\d",
        "(?:l|mn)+",
        "[^\\n]",
        "(?P<x>op|q)",
        "r{2,3}",
        r"\b",
        "(?i:S)",
    ]
)


@given(pieces=st.lists(PIECES, min_size=1, max_size=6, unique=True), data=st.data())
@settings(max_examples=300, deadline=None)
def test_every_match_holds_a_word(pieces, data):
    pattern = "".join(pieces)
    text = data.draw(st.from_regex(re.compile(pattern.encode(), re.ASCII), fullmatch=True))
    literals = required_literals(pattern)
    if literals is not None:
        searched = text.lower() if literals.any_case else text
        assert any(word in searched for word in literals.words)
