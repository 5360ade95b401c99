"""An expression that sees no digit finds the same in every line that differs in digits alone."""

from __future__ import annotations

import random

import pytest

from firstfault.readers.identity import body_starts
from firstfault.signatures.digits import blind
from firstfault.signatures.library import load_library

LIBRARY = load_library()
DIGITS = b"0123456789"


def other_digits(line: bytes, seed: int) -> bytes:
    """The line with other digits in their places."""
    chance = random.Random(seed)
    return bytes(chance.choice(DIGITS) if c in DIGITS else c for c in line)


@pytest.mark.parametrize(
    "pattern",
    [
        r"rank \d{1,6}",
        r"[0-9a-f]{4,16}",
        r"a{3}",
        r"[\w.\-]+",
        r"\x2d\d",
        r"[^\]\n]{0,80}",
        r"\[\d+\]",
        r"[ -\[\x5e-~]",
    ],
)
def test_what_takes_all_digits_alike(pattern):
    assert blind(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"c10::Error",
        r"code [1-9]",
        r"\x31",
        r"[\x30-8]",
        r"(\d+) of \1",
        r"(?P<n>\d)-(?P=n)",
        r"\{3\}",
        r"0-9",
        r"[+-5]",
    ],
)
def test_what_looks_at_a_digit(pattern):
    assert not blind(pattern)


@pytest.mark.parametrize("signature", LIBRARY.signatures, ids=lambda s: s.id)
def test_what_is_said_to_last_holds_for_all_lines_of_a_shape(signature):
    matcher = LIBRARY.plan.confirmer(LIBRARY.plan.ids.index(signature.id))
    for number, example in enumerate((*signature.spec.match, *signature.spec.no_match)):
        line = example.line.encode()
        starts = body_starts(line)
        found, lasting = matcher.look(line, starts)
        assert [(m.start, m.end, m.fields) for m in found] == [
            (m.start, m.end, m.fields) for m in matcher.find(line, starts)
        ]
        if not lasting:
            continue
        for seed in range(4):
            other = other_digits(line, 10 * number + seed)
            again = matcher.find(other, starts)
            assert [(m.start, m.end, m.places) for m in again] == [(m.start, m.end, m.places) for m in found], other


def test_a_value_that_denies_is_looked_at_again():
    matcher = LIBRARY.plan.confirmer(LIBRARY.plan.ids.index("slurm.node_failure"))
    for line in (b"node_failure: 3", b"node_failure: 0"):
        _, lasting = matcher.look(line, body_starts(line))
        assert not matcher.find(line, body_starts(line))
        assert lasting is (not matcher.look(line)[0] and lasting)
