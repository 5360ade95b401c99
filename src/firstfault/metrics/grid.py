"""Lines of one length whose words and digits stand at the same places: a table of bytes, read column by column.

Must not guess: every byte of a row is held against a model line, digits against digits, blanks before padded numbers against
blanks or digits, all else against itself. Needs numpy alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.layout import NUMBER
from firstfault.metrics.runs import POWERS, WHOLE_POWERS, quotient, scaled, seconds_of, sum_digits
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firstfault.metrics.layout import Layout

    Numbers = NDArray[np.float64]
    Bytes = NDArray[np.uint8]

_WORD = 8
_LOW, _BIT_4 = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x1010101010101010)
MOST_DIGITS = 15
"""Digits up to which a number is exact as a float, whatever they are."""
_NUMBER = lazy(NUMBER)
_RUN = lazy(rb"( {2,})?(\d+)")
_SHAPE = lazy(rb"([-+]?)(\d+)(?:\.(\d*))?(?:[eE]([-+]?)(\d+))?")


class _Place(NamedTuple):
    """Where the digits of a number stand in the row: first and last place of each part, the blanks before it counted in."""

    whole: tuple[int, int]
    fraction: tuple[int, int]
    exponent: tuple[int, int]
    negative: bool
    small: bool
    """Whether the exponent is negative."""


class Grid:
    """A model line, and how to hold rows of its length against it."""

    def __init__(self, line: bytes, layout: Layout) -> None:
        """Of a line, and what its numbers mean."""
        self.layout = layout
        self.width = len(line)
        self._low = np.frombuffer(line, np.uint8).copy()
        self._span = np.zeros(self.width, np.uint8)
        padded: list[int] = []
        pads: dict[int, int] = {}
        for run in _RUN.finditer(line):
            start, end = run.span(2)
            self._low[start:end], self._span[start:end] = ord("0"), 9
            if run[1] is not None and end - start < MOST_DIGITS:
                # The first blank parts the number from its word; the others are places for more digits.
                pads[start] = run.start(1) + 1
                self._low[pads[start] : start], self._span[pads[start] : start] = ord(" "), ord("9") - ord(" ")
                padded += range(pads[start], end)
                self._low[start : end - 1], self._span[start : end - 1] = ord(" "), ord("9") - ord(" ")
        self._padded = [(place, place_end) for place, place_end in _stretches(padded)]
        self.places = _places(line, layout, pads)
        """Of each number that is wanted; None where one is not made of digits in the common way."""

    def fits(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which rows, of this width, are of the model's shape."""
        good: NDArray[np.bool_] = ((rows - self._low) <= self._span).all(axis=1)
        for start, end in self._padded:
            for at in range(end, start, -_WORD):
                good &= _blanks_first(rows, max(start, at - _WORD), at)
        return good

    def read(self, rows: Bytes) -> dict[str, Numbers]:
        """The columns of rows that fit."""
        if self.places is None:
            raise ValueError("a line whose numbers are not made of digits is no model")
        columns: dict[str, Numbers] = {}
        for name, slot in self.layout.slots.items():
            if slot.number < 0:
                columns[name] = np.full(len(rows), slot.constant)
            else:
                columns[name] = scaled(_number(rows, self.places[slot.number]), slot.factor)
        if self.layout.stamp:
            places = [self.places[n] for n in self.layout.stamp]
            parts = [_whole(rows, p.whole) for p in places[:5]]
            last = places[5]
            seconds = _whole(rows, last.whole).astype(np.float64)
            if last.fraction[0] < last.fraction[1]:
                power = WHOLE_POWERS[last.fraction[1] - last.fraction[0]]
                seconds = (seconds * power + _whole(rows, last.fraction)) / power
            columns["time"] = seconds_of(parts, seconds)
        return columns


def _places(line: bytes, layout: Layout, pads: dict[int, int]) -> dict[int, _Place] | None:
    tokens = list(_NUMBER.finditer(line))
    if len(tokens) != layout.numbers:
        return None
    wanted = {slot.number for slot in layout.slots.values() if slot.number >= 0}
    found: dict[int, _Place] = {}
    for index in sorted(wanted | set(layout.stamp)):
        token = tokens[index]
        shape = _SHAPE.fullmatch(token[0])
        if shape is None and index in layout.stamp:
            shape = _SHAPE.fullmatch(token[0].replace(b",", b"."))  # `12:19:04,123`
        if shape is None or sum(len(part or b"") for part in shape.group(2, 3, 5)) > MOST_DIGITS:
            return None
        at = token.start()
        start, end = (at + n for n in shape.span(2))
        found[index] = _Place(
            (pads.get(start, start), end),
            (at + shape.start(3), at + shape.end(3)) if shape[3] else (0, 0),
            (at + shape.start(5), at + shape.end(5)) if shape[5] else (0, 0),
            shape[1] == b"-",
            shape[4] == b"-",
        )
    return found


def _word(rows: Bytes, start: int, end: int) -> NDArray[np.uint64]:
    """Up to eight bytes of each row in a number whose highest byte is the last of them, those before them as 0."""
    at = max(0, end - _WORD)
    words: NDArray[np.uint64] = rows[:, at : at + _WORD].view("<u8")[:, 0] << np.uint64(8 * (at + _WORD - end))
    keep = np.uint64(8 * (_WORD - (end - start)))
    words >>= keep
    words <<= keep
    return words


def _blanks_first(rows: Bytes, start: int, end: int) -> NDArray[np.bool_]:
    """Where the bytes, each from a blank to a nine, are digits with nothing but blanks before them."""
    words = _word(rows, start, end)
    digit = words & _BIT_4
    low = words & _LOW
    low += _LOW
    low &= _BIT_4
    strange = low & ~digit  # `!` to `/` have low bits without being digits
    gaps = (digit << np.uint64(8)) & ~digit & _BIT_4  # a digit with a blank behind it
    strange |= gaps
    fine: NDArray[np.bool_] = strange == 0
    return fine


def _whole(rows: Bytes, place: tuple[int, int]) -> NDArray[np.int64]:
    """The whole number at some places of each row; a blank counts as 0, since its low four bits are none."""
    start, end = place
    if end - start == 1:
        return (rows[:, start] & 15).astype(np.int64)
    words = _word(rows, max(start, end - _WORD), end)
    words &= _LOW
    value = sum_digits(words)
    if end - start > _WORD:
        value += _whole(rows, (start, end - _WORD)) * 100_000_000
    return value


def _stretches(places: list[int]) -> list[tuple[int, int]]:
    """First places, and the ones behind the last, of runs of whole numbers."""
    cuts = [i for i in range(1, len(places)) if places[i] != places[i - 1] + 1]
    bounds = [0, *cuts, len(places)]
    return [(places[a], places[b - 1] + 1) for a, b in pairwise(bounds) if a < b]


def _number(rows: Bytes, place: _Place) -> Numbers:
    mantissa = _whole(rows, place.whole)
    places = place.fraction[1] - place.fraction[0]
    if places:
        mantissa = mantissa * WHOLE_POWERS[places] + _whole(rows, place.fraction)
    if place.exponent[0] < place.exponent[1]:
        power = _whole(rows, place.exponent)
        values = quotient(mantissa, (-power if place.small else power) - places)
    else:
        values = mantissa / POWERS[places] if places else mantissa.astype(np.float64)
    return -values if place.negative else values
