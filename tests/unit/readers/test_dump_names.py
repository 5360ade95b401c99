"""Which number in the names of several dumps is the rank: the one that varies and fits, wherever it stands."""

import pytest

from firstfault.model.evidence import GlobalRank
from firstfault.readers.dump_names import ranks_of_names

ALL = frozenset(map(GlobalRank, range(8)))


@pytest.mark.parametrize(
    "name",
    [
        "host-a100-0{half}_fr_{rank}_4711.bin",
        "job4711/fr{rank}-of-8.pkl",
        "dump.{rank}.2026-03-04.dat",
        "w{rank}_node{half}_77120.pickle",
    ],
)
def test_the_number_that_varies_and_fits_is_the_rank(name):
    ranks = (0, 1, 3, 4, 5, 6, 7)
    paths = [name.format(rank=r, half=r // 4) for r in ranks]
    assert ranks_of_names(paths, [ALL] * len(paths)) == ranks


@pytest.mark.parametrize(
    "paths",
    [
        ["a_3_9.bin"],  # of one name no number is seen to vary
        ["a_3_9.bin", "b_4_9.bin"],  # other names
        ["a_3_1.bin", "a_4_0.bin"],  # two that vary and fit
        ["a_30_9.bin", "a_40_9.bin"],  # none that fits
        ["a_3_9.bin", "a_3_9.pkl2"],
    ],
)
def test_where_none_or_several_do_nobody_is_told(paths):
    assert ranks_of_names(paths, [ALL] * len(paths)) is None
