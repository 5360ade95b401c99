"""Lines of one length whose words and digits stand at the same places: a table of bytes, read column by column.

Must not guess: every byte of a row is held against a model line, digits against digits, blanks before padded numbers against
blanks or digits, all else against itself. Needs numpy alone.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.layout import NUMBER
from firstfault.metrics.runs import POWERS, WHOLE_POWERS, quotient, scaled, seconds_of, sum_digits
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from firstfault.metrics.layout import Layout

    Numbers = NDArray[np.float64]
    Bytes = NDArray[np.uint8]
    _Values = dict[tuple[int, int], NDArray[np.int64]]
    """The number at each piece of a row: of every row, or of all rows at once."""

_WORD = 8
_LOW, _BIT_4 = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x1010101010101010)
MOST_DIGITS = 15
"""Digits up to which a number is exact as a float, whatever they are."""
_NUMBER = lazy(NUMBER)
_RUN = lazy(rb"( {2,})?(\d+)")
_SHAPE = lazy(rb"([-+]?)(\d+(?:,\d{3})*)(?:\.(\d*))?(?:[eE]([-+]?)(\d+))?")
_GROUP = 4
"""Bytes of three digits with the comma before them."""


class _Place(NamedTuple):
    """Where the digits of a number stand in the row: first and last place of each part, the blanks before it counted in."""

    whole: tuple[int, int]
    fraction: tuple[int, int]
    exponent: tuple[int, int]
    negative: bool
    small: bool
    """Whether the exponent is negative."""
    groups: tuple[tuple[int, int], ...] = ()
    """Of the digits behind each comma of `6,012`, three by three."""

    def parts(self) -> tuple[tuple[int, int], ...]:
        """All stretches of its digits; an empty one where it has no such part."""
        return (self.whole, *self.groups, self.fraction, self.exponent)


class Grid:
    """A model line, and how to hold rows of its length against it."""

    def __init__(self, line: bytes, layout: Layout, held: Mapping[int, bytes] | None = None) -> None:
        """A model.

        Args:
            line: a row of it.
            layout: what its numbers mean.
            held: places of digits that may not be any: from the first of two bytes to the second.
        """
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
        for at, (least, most) in (held or {}).items():
            self._low[at], self._span[at] = least, most - least
        self._words: dict[tuple[int, int], int] = {}
        """Places of up to eight bytes -> which of the words that are loaded of each row holds them."""
        self._padded = [self._chunk(piece) for start, end in _stretches(padded) for piece in _chunks(start, end)]
        self.places = _places(line, layout, pads)
        """Of each number that is wanted; None where one is not made of digits in the common way."""
        for place in (self.places or {}).values():
            for part in place.parts():
                for piece in _chunks(*part):
                    self._chunk(piece)
        pieces = list(self._words)
        self._digits = np.array([_kept(piece, 0x0F) for piece in pieces], np.uint64)[:, None]
        self._blanks = np.array([_kept(pieces[i], 0xFF) for i in self._padded], np.uint64)[:, None]
        self._low_of_many = self._span_of_many = np.empty(0, np.uint8)

    def _chunk(self, piece: tuple[int, int]) -> int:
        return self._words.setdefault(piece, len(self._words))

    def fits(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which rows, of this width, are of the model's shape."""
        good: NDArray[np.bool_] = ((rows - self._low) <= self._span).all(axis=1)
        if self._padded:
            good &= self._well_padded(self._loaded(rows)).all(axis=0)
        return good

    def read(self, rows: Bytes) -> dict[str, Numbers]:
        """The columns of rows that fit; one that has the same number everywhere is held once."""
        return self._columns(self._loaded(rows), len(rows))

    def read_even(self, data: bytes) -> dict[str, Numbers] | None:
        """The columns of whole lines, each of the model's width with its newline; None where one of them does not fit."""
        raw = np.frombuffer(data, np.uint8)
        if len(raw) > len(self._low_of_many):
            count = len(raw) // (self.width + 1)
            self._low_of_many = np.tile(np.append(self._low, np.uint8(10)), count)
            self._span_of_many = np.tile(np.append(self._span, np.uint8(0)), count)
        if not ((raw - self._low_of_many[: len(raw)]) <= self._span_of_many[: len(raw)]).all():
            return None
        rows = raw.reshape(-1, self.width + 1)[:, : self.width]
        words = self._loaded(rows)
        if self._padded and not self._well_padded(words).all():
            return None
        return self._columns(words, len(rows))

    def _loaded(self, rows: Bytes) -> NDArray[np.uint64]:
        """The words of all rows, a line of the result for each: up to eight bytes, the last one highest, those before them as 0."""
        words = np.empty((len(self._words), len(rows)), np.uint64)
        for (_, end), i in self._words.items():
            at = max(0, end - _WORD)
            words[i] = rows[:, at : at + _WORD].view("<u8")[:, 0]
            if at + _WORD > end:
                words[i] <<= np.uint64(8 * (at + _WORD - end))
        return words

    def _well_padded(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Where the bytes of padded numbers, each from a blank to a nine, are digits with nothing but blanks before them."""
        held = words[self._padded]
        held &= self._blanks
        digit = held & _BIT_4
        held &= _LOW
        held += _LOW
        held &= _BIT_4
        held &= ~digit  # `!` to `/` have low bits without being digits
        gaps = digit << np.uint64(8)
        gaps &= ~digit  # a digit with a blank behind it
        held |= gaps
        return np.asarray(held == 0)

    def _columns(self, words: NDArray[np.uint64], count: int) -> dict[str, Numbers]:
        if self.places is None:
            raise ValueError("a line whose numbers are not made of digits is no model")
        values = self._values(words)
        columns: dict[str, Numbers] = {}
        for name, slot in self.layout.slots.items():
            if slot.number < 0:
                told = np.array([slot.constant])
            else:
                told = scaled(_number(values, self.places[slot.number]), slot.factor)
            columns[name] = _for_all(told, count)
        if self.layout.stamp:
            places = [self.places[n] for n in self.layout.stamp]
            parts = [_whole(values, p.whole) for p in places[:5]]
            last = places[5]
            seconds = _whole(values, last.whole).astype(np.float64)
            if last.fraction[0] < last.fraction[1]:
                power = WHOLE_POWERS[last.fraction[1] - last.fraction[0]]
                seconds = (seconds * power + _whole(values, last.fraction)) / power
            told = seconds_of(parts, seconds)
            columns["time"] = _for_all(told, count)
        return columns

    def _values(self, words: NDArray[np.uint64]) -> _Values:
        """The whole number that each word is; one for all rows where they have the same bytes there."""
        words &= self._digits
        same = (words == words[:, :1]).all(axis=1)
        moving = np.flatnonzero(~same)
        first = sum_digits(words[:, 0].copy())
        rest = sum_digits(words[moving])
        found = {piece: first[i : i + 1] for piece, i in self._words.items()}
        pieces = list(self._words)
        found.update({pieces[i]: rest[n] for n, i in enumerate(moving.tolist())})
        return found


def _places(line: bytes, layout: Layout, pads: dict[int, int]) -> dict[int, _Place] | None:
    tokens = list(_NUMBER.finditer(line))
    if len(tokens) != layout.numbers:
        return None
    wanted = {slot.number for slot in layout.slots.values() if slot.number >= 0}
    found: dict[int, _Place] = {}
    for index in sorted(wanted | set(layout.stamp)):
        token = tokens[index]
        # In `12:19:04,123` a comma stands before a fraction, in `tps: 6,012` between thousands.
        shape = _SHAPE.fullmatch(token[0].replace(b",", b".") if index in layout.stamp else token[0])
        if shape is None or sum(len(part or b"") for part in shape.group(2, 3, 5)) > MOST_DIGITS:
            return None
        at = token.start()
        start, end = (at + n for n in shape.span(2))
        first = start + len(shape[2].split(b",", 1)[0])
        found[index] = _Place(
            (pads.get(start, start), first),
            (at + shape.start(3), at + shape.end(3)) if shape[3] else (0, 0),
            (at + shape.start(5), at + shape.end(5)) if shape[5] else (0, 0),
            shape[1] == b"-",
            shape[4] == b"-",
            tuple((comma + 1, comma + _GROUP) for comma in range(first, end, _GROUP)),
        )
    return found


@lru_cache(maxsize=4096)
def _chunks(start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Places in pieces of up to eight, from the end on."""
    return tuple((max(start, at - _WORD), at) for at in range(end, start, -_WORD))


def _for_all(values: Numbers, count: int) -> Numbers:
    """Values of so many rows; one that is the same in all of them is held once."""
    if len(values) == count:
        return values
    same: Numbers = np.ndarray((count,), np.float64, values, strides=(0,))  # far cheaper than `broadcast_to`
    same.flags.writeable = False
    return same


def _kept(piece: tuple[int, int], byte: int) -> int:
    """A mask of a word: this byte at the places of a piece, whose last one is the highest."""
    count = piece[1] - piece[0]
    return int.from_bytes(bytes(_WORD - count) + bytes([byte]) * count, "little")


def _whole(values: _Values, place: tuple[int, int]) -> NDArray[np.int64]:
    """The whole number at some places of each row; a blank counts as 0, since its low four bits are none."""
    first, *rest = _chunks(*place)
    value = values[first]
    power = 1
    for piece in rest:
        power *= 100_000_000
        value = value + values[piece] * power
    return value


def _stretches(places: list[int]) -> list[tuple[int, int]]:
    """First places, and the ones behind the last, of runs of whole numbers."""
    cuts = [i for i in range(1, len(places)) if places[i] != places[i - 1] + 1]
    bounds = [0, *cuts, len(places)]
    return [(places[a], places[b - 1] + 1) for a, b in pairwise(bounds) if a < b]


def _number(values: _Values, place: _Place) -> Numbers:
    mantissa = _whole(values, place.whole)
    for group in place.groups:
        mantissa = mantissa * 1000 + _whole(values, group)
    places = place.fraction[1] - place.fraction[0]
    if places:
        mantissa = mantissa * WHOLE_POWERS[places] + _whole(values, place.fraction)
    if place.exponent[0] < place.exponent[1]:
        power = _whole(values, place.exponent)
        if len(mantissa) != len(power):
            mantissa, power = np.broadcast_arrays(mantissa, power) if len(power) > 1 else (mantissa, power)
        told = quotient(mantissa, (-power if place.small else power) - places)
    else:
        told = mantissa / POWERS[places] if places else mantissa.astype(np.float64)
    return -told if place.negative else told
