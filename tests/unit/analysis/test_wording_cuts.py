"""What is cut short in a sentence holds no half of a secret."""

import pytest

from firstfault.analysis.wording import beginning, both_ends, clipped

PASSWORD = "Tr0ub4dor-and-3-more-Horses"
LINES = (
    f"cannot read the shard of step 9 from https://bob:{PASSWORD}@store.example.com/x which is not there any more, nor was it before",
    f"opening the store failed, password={PASSWORD}{PASSWORD} was refused by the server of the store in the other building",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("cut", [beginning, both_ends, clipped])
def test_no_part_of_a_secret_is_left_by_a_cut(line, cut):
    for limit in range(10, len(line)):
        said = cut(line, limit)
        assert len(said) <= limit
        assert PASSWORD[:6] not in said
        assert PASSWORD[-6:] not in said


def test_what_fits_is_left_as_it_is():
    assert beginning("  as it is  ", 8) == "as it is"
    assert beginning("a line that does not fit", 10, "…") == "a line th…"
