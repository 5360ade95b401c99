"""An error that says that nothing could be fallen back to was not dealt with."""

import pytest

from firstfault.analysis.suspects import HANDLED


@pytest.mark.parametrize(
    "text",
    [
        "AISBatchLoaderError: Cannot fall back to sequential GET: batch.requests_list is empty.",
        "RuntimeError: could not fall back to the eager kernel",
        "OSError: read failed; unable to fall back on the local copy",
    ],
)
def test_a_way_back_that_was_not_there_is_no_handling(text):
    assert HANDLED.search(text) is None


@pytest.mark.parametrize(
    "text", ["read failed, falling back to direct GET", "not built: falls back to eager", "will fall back to CPU"]
)
def test_a_way_back_that_was_taken_is(text):
    assert HANDLED.search(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Container killed for its memory. Consider boosting the overhead or disabling the check",
        "RuntimeError: no kernel image; try disabling flash attention",
        "ValueError: too long; avoid it by disabling packing",
    ],
)
def test_advice_to_switch_something_off_is_no_handling(text):
    assert HANDLED.search(text) is None


def test_what_was_switched_off_is():
    assert HANDLED.search("flash attention failed, disabling it") is not None
