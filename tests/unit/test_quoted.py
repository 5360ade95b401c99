"""What a Python warning quotes is no error."""

from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

MATCHER = Matcher(load_library().by_id["gpu.out_of_memory"])
ERROR = b"CUDA out of memory. Tried to allocate 2.00 GiB"


def test_a_warning_quotes():
    assert not MATCHER.find(b"/site-packages/x.py:3: UserWarning: handled: " + ERROR)


def test_an_error_before_a_warning_counts():
    assert MATCHER.find(ERROR + b" x.py:3: UserWarning: something else")
