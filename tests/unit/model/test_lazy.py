import re

import pytest

from firstfault.model.lazy import lazy


def test_a_lazy_pattern_does_what_the_pattern_does():
    pattern = lazy(r"(?P<n>\d+)", re.IGNORECASE)
    assert pattern.search("ab12")["n"] == "12"
    assert pattern.sub("#", "1 22") == "# #"
    assert [m.span() for m in pattern.finditer("1 22")] == [(0, 1), (2, 4)]
    assert pattern.pattern == r"(?P<n>\d+)"
    assert lazy(rb"a+").fullmatch(b"aaa") is not None


def test_it_is_compiled_at_its_first_use():
    wrong = lazy("(")
    with pytest.raises(re.error):
        wrong.search("x")
