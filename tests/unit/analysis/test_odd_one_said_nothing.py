"""The check before a collective names two ranks a line: who is named by all others is the odd one, whether it spoke or not."""

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

LINE = (
    "[rank{r}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: "
    "CollectiveFingerPrint(SequenceNumber=31, OpType=ALLREDUCE, TensorShape=[1024], TensorDtypes=Float), but Rank {odd} is "
    "running collective: CollectiveFingerPrint(SequenceNumber=31, OpType=BROADCAST, TensorShape=[1]).Collectives differ in "
    "the following aspects: \t Op type: ALLREDUCEvs BROADCAST\n"
)


@pytest.mark.parametrize(
    ("speak", "odd", "sure"),
    [((0, 1, 3), 2, Strength.SUPPORTED), ((1, 2, 3), 0, Strength.SUPPORTED), ((0, 1, 2), 3, Strength.POSSIBLE)],
    ids=["between", "first", "last"],
)
def test_it_is_named(tmp_path, speak, odd, sure):
    for r in speak:
        (tmp_path / f"rank_{r}.txt").write_text(LINE.format(r=r, odd=odd))
    found = diagnose([tmp_path]).verdict
    assert found.category is Category.COLLECTIVE_MISMATCH
    assert found.culprits.ranks == [odd]
    assert found.culprits.strength is sure


def test_one_accuser_names_nobody(tmp_path):
    (tmp_path / "rank_0.txt").write_text(LINE.format(r=0, odd=1))
    assert diagnose([tmp_path]).verdict.culprits.ranks == []
