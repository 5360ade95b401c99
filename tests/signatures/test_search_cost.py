"""What ordinary lines cost: the search for all signatures must not stop at them."""

from __future__ import annotations

import msgspec
import pytest

from firstfault.model.patterns import Signature
from firstfault.scan.cut import SEEN
from firstfault.scan.engines import SHIFT, make_engine
from firstfault.scan.ordinary import ORDINARY
from firstfault.scan.words import words_of
from firstfault.signatures.check import check_signatures
from firstfault.signatures.library import Library, load_library

LIBRARY = load_library()


def test_nothing_is_proposed_in_ordinary_lines():
    text = bytearray(ORDINARY)
    proposed = make_engine("re", LIBRARY.plan).propose(text, len(text))
    assert [(LIBRARY.plan.ids[p & 0xFFFF], bytes(text[p >> SHIFT :][:20])) for p in proposed] == []


def test_no_word_ends_as_ordinary_lines_go_on():
    words = words_of(LIBRARY.plan)
    assert words.bare == ()
    assert [w for w in words.all if w[-SEEN:] in ORDINARY] == []


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        (r"\d+ ms", "is dear"),
        (r"learning rate: (?P<value>\S+) \|", "is dear"),
        (r"(?i)Learning Rate: ", "is dear"),
        (r"(?:a|b|c|d|e)(?:a|b|c|d|e)(?:a|b|c|d|e)", "is dear"),
        (r"learning rate: (?P<value>\S+) went mad", None),
        (r"pump (?P<name>\w+) stopped", None),
    ],
)
def test_dear_patterns_are_told(pattern, complaint):
    old = LIBRARY.signatures[0]
    changed = Signature("site.pump", msgspec.structs.replace(old.spec, patterns=[pattern]))
    found = check_signatures([changed], Library([*LIBRARY.signatures, changed], LIBRARY.tables))
    told = [c.what for c in found if "is dear" in c.what]
    assert bool(told) == (complaint is not None)
