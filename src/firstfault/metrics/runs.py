"""Numbers of many lines of one shape at once, by the places of their runs of digits; what is not surely of that shape is left.

Must not guess: a row counts as read only where its runs, the bytes around them and the words before its values are those of
the model line, and its numbers are the very ones that reading it by itself gives. Needs numpy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.columns import RECIPROCAL
from firstfault.metrics.layout import NUMBER
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.layout import Layout

    Numbers = NDArray[np.float64]
    Places = NDArray[np.int64]
    Rows = NDArray[np.bool_]

PAD = b"\n" * 32
"""Bytes around a block, so that words of 16 bytes before its first number can be loaded."""
EXACT = 1 << 53
"""Up to here a whole number is exact as a float, and so its quotient by an exact power of ten rounds as its text does."""
_LARGEST_POWER = 22
POWERS = 10.0 ** np.arange(_LARGEST_POWER + 1)
_NUMBER = lazy(NUMBER)
_RUN = lazy(rb"\d+")
_ZEROS = np.uint64(0x3030303030303030)
_LABEL = 8
"""Bytes before a number that must be those of the model."""


class Block:
    """Bytes of whole lines with the places of their runs of digits."""

    def __init__(self, data: bytes) -> None:
        padded = PAD + data + PAD
        self.data = padded
        self.raw = np.frombuffer(padded, np.uint8)
        size = len(padded) - 7
        self.eights: NDArray[np.uint64] = np.ndarray((size,), "<u8", padded, strides=(1,))
        self.ends = np.flatnonzero(self.raw[len(PAD) : -len(PAD)] == 10) + len(PAD)
        digit = (self.raw - np.uint8(48)) < 10
        edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
        self.starts, self.stops = edges[0::2], edges[1::2]

    def line_starts(self) -> Places:
        """Where each line begins."""
        return np.concatenate(([len(PAD)], self.ends[:-1] + 1))

    def split(self) -> tuple[Places, Places]:
        """Index of the first run of each line, and how many runs it has."""
        count, lines = len(self.starts), len(self.ends)
        width = count // max(lines, 1)
        if count == width * lines and width:
            last, first = self.stops[width - 1 :: width], self.starts[::width]
            if bool((last <= self.ends).all()) and bool((first[1:] > self.ends[:-1]).all()):
                return np.arange(0, count, width), np.full(lines, width)
        upto = np.searchsorted(self.starts, self.ends)
        first = np.concatenate(([0], upto[:-1]))
        return first, upto - first


class Part(NamedTuple):
    """One run of a number of the model line."""

    run: int
    kind: str
    """`whole`, `group` (three digits behind a comma), `fraction` or `exponent`."""


class Number(NamedTuple):
    """A number of the model line."""

    parts: tuple[Part, ...]
    behind: tuple[int, ...]
    """The byte behind each of its runs, which is the model's in every row."""
    label: int
    """The bytes before it, as a word, its last one highest."""
    length: int
    """How many bytes of the label count: those behind the number before it, eight at most."""
    from_end: int
    """Where the label ends before the number's end, for numbers that are padded to a width; 0 where it ends at its start."""


class Model(NamedTuple):
    """A line whose layout is known, by its runs of digits."""

    numbers: tuple[Number, ...]
    runs: int


def model_of(line: bytes) -> Model | None:
    """A line by its runs of digits; None where its numbers are not made of them in the common way."""
    found = list(_RUN.finditer(line))
    at = {m.start(): n for n, m in enumerate(found)}
    stops = [m.end() for m in found]
    numbers = []
    behind = 0
    for token in _NUMBER.finditer(line):
        parts = _parts(token, at)
        if parts is None:
            return None
        start, end = token.start(), token.end() - token[0].endswith(b".")
        gap = line[behind:start]
        padded = gap.endswith(b"  ")
        label = gap.rstrip(b" ") if padded else gap
        numbers.append(
            Number(
                tuple(parts),
                tuple((line + b"\n")[stops[part.run]] for part in parts),
                int.from_bytes(label[-_LABEL:].rjust(_LABEL, b"\0"), "little"),
                min(len(label), _LABEL),
                end - behind - len(label) if padded else 0,
            )
        )
        behind = end
    return Model(tuple(numbers), len(at))


def _parts(token: re.Match[bytes], at: dict[int, int]) -> list[Part] | None:
    line = token.string
    parts: list[Part] = []
    stop = token.start()
    for run in _RUN.finditer(line, token.start(), token.end()):
        gap = line[stop : run.start()]
        if not parts and gap in {b"", b"-", b"+"}:
            kind = "whole"
        elif gap in {b",", b"."}:
            kind = "group" if gap == b"," else "fraction"
        elif gap.lower() in {b"e", b"e-", b"e+"}:
            kind = "exponent"
        else:
            return None
        parts.append(Part(at[run.start()], kind))
        stop = run.end()
    return parts


class Reading:
    """Numbers of the rows of a block that may be of a model's shape; all of them are loaded together."""

    def __init__(
        self, block: Block, model: Model, numbers: Sequence[int], first: Places | None, *, labels: bool
    ) -> None:
        """Loads the rows.

        Args:
            block: holds them.
            model: a line of the shape.
            numbers: which numbers of the model are wanted.
            first: index of the first run of each row; None where the rows are all lines of the block.
            labels: whether the words before the numbers are to be compared, where that has not been done.
        """
        self._block = block
        self._numbers = {n: model.numbers[n] for n in sorted(set(numbers))}
        runs = [part.run for number in self._numbers.values() for part in number.parts]
        self._at = {run: i for i, run in enumerate(runs)}
        if first is None:
            self._starts = block.starts.reshape(-1, model.runs).T[runs]
            self._stops = block.stops.reshape(-1, model.runs).T[runs]
        else:
            index = np.array(runs)[:, None] + first
            self._starts, self._stops = block.starts[index], block.stops[index]
        self._length = self._stops - self._starts
        self._least, self._most = self._length.min(axis=1).tolist(), self._length.max(axis=1).tolist()
        self._value = self._digits()
        behind = [byte for number in self._numbers.values() for byte in number.behind]
        right = block.raw[self._stops] == np.array(behind, np.uint8)[:, None]
        self.good: Rows = right.all(axis=0)
        """Rows that are of the shape as far as they were read."""
        if max(self._most) > 16:
            self.good &= (self._length <= 16).all(axis=0)
        self._begin, self._negative = self._signs()
        if labels:
            self._compare_labels()

    def _digits(self) -> Places:
        """The value of every run, of its last 16 digits where it has more."""
        most = max(self._most)
        if min(self._least) == most == 1:
            return np.asarray(self._block.raw[self._starts].astype(np.int64) - 48, dtype=np.int64)
        value = _of_eight(
            self._block.eights[self._stops - 8], np.minimum(self._length, 8) if most > 8 else self._length
        )
        for i in [i for i, length in enumerate(self._most) if length > 8]:
            length = self._length[i]
            upper = _of_eight(self._block.eights[self._stops[i] - 16], np.clip(length - 8, 1, 8))
            value[i] += np.where(length > 8, upper * 100_000_000, 0)
        return value

    def _signs(self) -> tuple[Places, Rows | None]:
        """Where each number begins with its sign, and which are negative; None where none has a sign."""
        first = self._starts[[self._at[n.parts[0].run] for n in self._numbers.values()]]
        sign = self._block.raw[first - 1]
        negative = sign == ord("-")
        signed = negative | (sign == ord("+"))
        if not signed.any():
            return first, None
        return first - signed, negative

    def _compare_labels(self) -> None:
        """Holds the bytes before each number against those of the model."""
        numbers = list(self._numbers.values())
        end = self._begin.copy()
        for i, number in enumerate(numbers):
            if number.from_end:
                end[i] = self._stops[self._at[number.parts[-1].run]] - number.from_end
        words = self._block.eights[end - _LABEL]
        words &= np.array([2**64 - (1 << 8 * (_LABEL - n.length)) for n in numbers], np.uint64)[:, None]
        self.good &= (words == np.array([n.label for n in numbers], np.uint64)[:, None]).all(axis=0)

    def _run(self, run: int) -> tuple[Places, NDArray[np.int64] | int]:
        """Values of a run, and its length (one number where all rows have one)."""
        i = self._at[run]
        return self._value[i], self._least[i] if self._least[i] == self._most[i] else self._length[i]

    def number(self, index: int) -> Numbers:
        """Values of a number of the model in every row, as `float` reads its text."""
        number = self._numbers[index]
        mantissa, digits = self._run(number.parts[0].run)
        places: NDArray[np.int64] | int = 0
        power: NDArray[np.int64] | None = None
        for part in number.parts[1:]:
            value, length = self._run(part.run)
            gap = self._starts[self._at[part.run]] - self._stops[self._at[part.run] - 1]
            if part.kind == "exponent":
                power = self._power(value, self._starts[self._at[part.run]], gap)
                continue
            self.good &= gap == 1
            digits = digits + length
            mantissa = mantissa * WHOLE_POWERS[np.minimum(length, 18)] + value
            if part.kind == "group":
                self.good &= length == 3
            else:
                places = length
        exponent = np.asarray(-places if power is None else power - places)
        values = quotient(mantissa, exponent)
        at = list(self._numbers).index(index)
        if self._negative is not None and bool(self._negative[at].any()):
            values = np.where(self._negative[at], -values, values)
        odd = np.asarray(digits) > 18
        if np.max(digits) > 15 or power is not None:
            odd = odd | (mantissa > EXACT) | (np.abs(exponent) > _LARGEST_POWER)
        if bool(odd.any()):
            rows = np.flatnonzero(np.broadcast_to(odd, values.shape) & self.good)
            self._by_text(values, rows, self._begin[at], self._stops[self._at[number.parts[-1].run]])
        return values

    def _power(self, value: Places, start: Places, gap: Places) -> Places:
        """The exponent of ten, with its sign."""
        sign = self._block.raw[start - 1]
        negative = sign == ord("-")
        self.good &= (gap == 1) | ((gap == 2) & (negative | (sign == ord("+"))))
        return np.where(negative, -value, value)

    def _by_text(self, values: Numbers, rows: Places, begin: Places, stop: Places) -> None:
        """Numbers with more digits than a float holds are read by the language's own reader."""
        data = self._block.data
        texts = [data[a:b] for a, b in zip(begin[rows].tolist(), stop[rows].tolist(), strict=True)]
        try:
            values[rows] = np.fromiter(map(float, texts), np.float64, len(rows))
        except ValueError:
            values[rows] = np.fromiter((float(t.replace(b",", b"")) for t in texts), np.float64, len(rows))

    def stamp(self, places: tuple[int, ...]) -> tuple[list[Places], Numbers]:
        """Year, month, day, hour and minute, and seconds of a date, the numbers at these places of the model."""
        numbers = [self._numbers[n] for n in places]
        parts = []
        for number, width in zip(numbers, (4, 2, 2, 2, 2, 2), strict=True):
            value, length = self._run(number.parts[0].run)
            self.good &= np.asarray(length == width)
            parts.append(value)
        seconds = parts.pop().astype(np.float64)
        fraction = numbers[-1].parts[1:]
        if fraction:
            value, length = self._run(fraction[0].run)
            gap = self._starts[self._at[fraction[0].run]] - self._stops[self._at[fraction[0].run] - 1]
            self.good &= (gap == 1) & (length <= 9) & (len(fraction) == 1)
            power = WHOLE_POWERS[np.minimum(length, 9)]
            seconds = (seconds * power + value) / power
        return parts, seconds


WHOLE_POWERS = 10 ** np.arange(19, dtype=np.int64)


def _of_eight(words: NDArray[np.uint64], length: NDArray[np.int64]) -> Places:
    """The value of the last `length` of eight bytes.

    The words are used up.
    """
    shift = (64 - 8 * length).view(np.uint64)
    words ^= _ZEROS
    words >>= shift  # with the shift back this takes away what stands before the digits
    words <<= shift
    return sum_digits(words)


def sum_digits(words: NDArray[np.uint64]) -> Places:
    """The decimal number whose eight digits are the bytes of a word, the last one highest; the words are used up."""
    for factor, width, mask in _SUMS:
        pairs = words >> width
        words *= factor
        words += pairs
        words &= mask
    return words.view(np.int64)


_SUMS = tuple(
    (np.uint64(factor), np.uint64(width), np.uint64(mask))
    for factor, width, mask in ((10, 8, 0x00FF00FF00FF00FF), (100, 16, 0x0000FFFF0000FFFF), (10000, 32, 0xFFFFFFFF))
)


def quotient(mantissa: Places, exponent: NDArray[np.int64]) -> Numbers:
    """A whole number times a power of ten, rounded once."""
    values = mantissa.astype(np.float64)
    least, most = int(exponent.min()), int(exponent.max())
    if least == most and abs(least) <= _LARGEST_POWER:
        power = POWERS[abs(least)]
        return np.asarray(values * power if least >= 0 else values / power, dtype=np.float64)
    powers = POWERS[np.minimum(np.abs(exponent), _LARGEST_POWER)]
    found = np.where(exponent >= 0, values * powers, values / powers)
    if max(-least, most) > _LARGEST_POWER:
        # Larger powers are not exact as floats: such a number is read as its text is.
        each = np.broadcast_to(exponent, found.shape)
        rows = np.flatnonzero(np.abs(each) > _LARGEST_POWER)
        texts = (f"{m}e{e}" for m, e in zip(mantissa[rows].tolist(), each[rows].tolist(), strict=True))
        found[rows] = np.fromiter(map(float, texts), np.float64, len(rows))
    return found


def scaled(values: Numbers, factor: float) -> Numbers:
    """Values in the unit of their column."""
    if factor == RECIPROCAL:
        with np.errstate(divide="ignore"):
            return np.where(values > 0, 1.0 / values, np.nan)
    return values if factor == 1.0 else values * factor


def read_rows(
    block: Block, model: Model, layout: Layout, first: Places | None, *, labels: bool = True
) -> tuple[dict[str, Numbers], Rows]:
    """Columns of the rows that may be of a model's shape, and which of the rows are; the others hold nothing.

    Args:
        block: holds them.
        model: a line of the shape.
        layout: what its numbers mean.
        first: index of the first run of each row; None where the rows are all lines of the block.
        labels: whether the words before the numbers are to be compared, where that has not been done.
    """
    wanted = [slot.number for slot in layout.slots.values() if slot.number >= 0]
    reading = Reading(block, model, [*wanted, *layout.stamp], first, labels=labels)
    columns: dict[str, Numbers] = {}
    for name, slot in layout.slots.items():
        if slot.number < 0:
            columns[name] = np.full(len(reading.good), slot.constant)
        else:
            columns[name] = scaled(reading.number(slot.number), slot.factor)
    if layout.stamp:
        columns["time"] = seconds_of(*reading.stamp(layout.stamp))
    return columns, reading.good


def seconds_of(parts: list[Places], seconds: Numbers) -> Numbers:
    """Seconds since the epoch of the calendar without a zone; a day's number is worked out once for each stretch of one date."""
    year, month, day, hour, minute = parts
    date = year * 10000 + month * 100 + day
    if len(date) == 1:
        return days_of(year, month, day) * 86400.0 + hour * 3600 + minute * 60 + seconds
    begins = np.flatnonzero(np.diff(date, prepend=-1))
    dates = date[begins]
    days = np.repeat(days_of(dates // 10000, dates // 100 % 100, dates % 100), np.diff(np.append(begins, len(date))))
    return days * 86400.0 + hour * 3600 + minute * 60 + seconds


def days_of(year: Places, month: Places, day: Places) -> Places:
    """Days since the epoch, by eras of 400 years that begin in March."""
    year = year - (month <= 2)
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return np.asarray(era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468, dtype=np.int64)
