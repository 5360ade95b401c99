"""Words are cut to their rare part, and to nothing else."""

from __future__ import annotations

import pytest

from firstfault.scan.cut import KEPT, SEEN, cut
from firstfault.scan.ordinary import COMMON, ORDINARY


@pytest.mark.parametrize(
    "word",
    [
        b"Xid",
        b"ENOSPC!!",
        b"device-side assert triggered",
        b"saving the shard failed at iteration ",
        b"iteration iteration iteration ",
        bytes(range(64)),
        b"\xe2\x96\x88" * 20,
    ],
)
def test_a_cut_word_is_a_part_of_the_word(word):
    part = cut(word)
    assert part in word
    assert min(len(word), SEEN) <= len(part) <= KEPT


def test_the_end_is_not_what_ordinary_lines_hold():
    word = b"gradient overflow, skipped at iteration "
    assert word[-SEEN:] in ORDINARY
    assert cut(word)[-SEEN:] not in ORDINARY


def test_a_beginning_that_many_faults_share_is_not_kept_alone():
    word = b"RuntimeError: generator raised"
    assert b"RuntimeError:" in COMMON
    assert not cut(word).endswith(b"Error:")


def test_a_short_word_stays():
    assert cut(b"Killed") == b"Killed"
