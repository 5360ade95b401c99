"""What is said of the ranks that failed first is what the job shows of them."""

import pytest

from firstfault.analysis.questions.storage_symptom import Symptom
from firstfault.analysis.storage_words import _victims


@pytest.mark.parametrize("ranks", [(3,), (3, 4)])
def test_of_a_rank_that_is_merely_silent_no_read_is_told(ranks):
    assert "got" not in _victims(ranks, Symptom.WAIT)
    assert "No line shows" in _victims(ranks, Symptom.WAIT)


def test_of_a_rank_that_could_not_decode_it_is_told_so():
    assert _victims((2,), Symptom.CONTENT) == "Rank 2 could not decode what it had read."


@pytest.mark.parametrize("seen", [Symptom.READ, Symptom.READING])
def test_of_a_rank_whose_read_failed_it_is_told_so(seen):
    assert _victims((0,), seen) == "Rank 0 got its data short or not at all."
