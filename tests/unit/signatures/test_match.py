"""What a match makes fields of."""

import pytest

from firstfault.signatures.library import load_library
from firstfault.signatures.match import DIGITS, Matcher

LINE = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for {} milliseconds before timing out."
)


@pytest.mark.parametrize(("digits", "taken"), [(6, True), (DIGITS - 1, True), (DIGITS, False), (5000, False)])
def test_digits_without_end_are_no_number(digits, taken):
    matcher = Matcher(load_library(()).by_id["nccl.collective_timeout"])
    (match,) = matcher.find(LINE.format("9" * digits).encode())
    assert ("ran_ms" in match.fields) is taken
    assert match.fields["op"] == "ALLREDUCE"
