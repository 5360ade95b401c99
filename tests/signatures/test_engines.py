"""Every engine proposes every example of every signature, wherever it stands in a log."""

from __future__ import annotations

import functools

import pytest

from firstfault.readers.identity import body_starts
from firstfault.scan.engines import NAMES, SHIFT, make_engine
from firstfault.scan.ordinary import ORDINARY
from firstfault.signatures.library import load_library

LIBRARY = load_library()
LINES = sorted({e.line.encode() for s in LIBRARY.signatures for e in s.spec.match if "\n" not in e.line})
ROUNDS = 5


@functools.cache
def text_and_truth() -> tuple[bytearray, list[tuple[int, int, int]]]:
    """Examples between ordinary lines at changing distances; start and end of each segment and its signature."""
    text = bytearray()
    truth = []
    usual = ORDINARY.splitlines(keepends=True)
    for turn in range(ROUNDS):
        for number, line in enumerate(LINES):
            text += usual[(number * 3 + turn) % len(usual)][: 1 + (number * 13 + turn * 29) % 97].rstrip() + b"\n"
            at = len(text)
            for segment in line.split(b"\r"):
                starts = body_starts(segment)
                for index in range(len(LIBRARY.plan.ids)) if turn == 0 else ():
                    if LIBRARY.plan.confirmer(index).find(segment, starts):
                        KNOWN.setdefault(segment, []).append(index)
                truth += [(at, at + len(segment), index) for index in KNOWN.get(segment, [])]
                at += len(segment) + 1
            text += line + b"\n"
    return text, truth


KNOWN: dict[bytes, list[int]] = {}


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_proposes_every_example_at_every_place(name):
    if name != "re":
        pytest.importorskip(name)
    text, truth = text_and_truth()
    assert truth
    proposed: dict[int, list[int]] = {}
    for proposal in make_engine(name, LIBRARY.plan).propose(text, len(text)):
        proposed.setdefault(proposal & ((1 << SHIFT) - 1), []).append(proposal >> SHIFT)
    missed = [
        (LIBRARY.plan.ids[index], bytes(text[start:end]))
        for start, end, index in truth
        if not any(start <= at < end for at in proposed.get(index, ()))
    ]
    assert missed == []
