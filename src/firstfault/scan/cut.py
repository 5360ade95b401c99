"""Cuts words to the part of them that ordinary text resembles least; the search for words gets twice as fast by it.

An automaton for thousands of words looks at pairs of letters in their last eight bytes, and reads more of the text only
where they fit: a word that ends in `training` or in a blank stops it in every second step line, however rare its
beginning is. What holds a word holds every part of it, so that cutting loses nothing; here nothing is decided.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

from firstfault.scan.ordinary import COMMON, ORDINARY

SEEN = 8
"""Bytes at the end of a word that the automaton looks at first."""
KEPT = 24
"""Longest word that is kept; what stands farther from the rare end tells little more."""
_TELLING = 12
"""A word of so many bytes is seldom a part of lines that mean something else; a shorter one must be rare to be taken."""
_SHORTNESS = 4
"""Pairs of ordinary text that weigh as much as a byte too few."""
_LOW = 31
"""Of the second letter of a pair the automaton uses these bits."""


def cut(word: bytes) -> bytes:
    """The part of a word, `SEEN` to `KEPT` bytes where it is that long, that ends the rarest."""
    if len(word) <= SEEN:
        return word
    end = min(range(SEEN, len(word) + 1), key=lambda e: _price(word[e - SEEN : e], e))
    return word[max(0, end - KEPT) : end]


def _price(window: bytes, end: int) -> tuple[int, int, int]:
    """How often usual text holds a window, then its pairs: their sum and not the product, since words share a filter."""
    pairs = _pairs()
    common = sum(pairs[a, b & _LOW] for a, b in pairwise(window))
    return ORDINARY.count(window) + COMMON.count(window), common + _SHORTNESS * max(0, _TELLING - end), end


@cache
def _pairs() -> Counter[tuple[int, int]]:
    return Counter((a, b & _LOW) for a, b in pairwise(ORDINARY))
