"""Where the cells of a table stand in its bytes, and the numbers and times in them, for all rows at once.

Must not guess: what is not surely of a common form is left to the way that reads one cell by itself. Needs numpy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.runs import sum_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Words = NDArray[np.uint64]

_WORD = 8
_LONG = 32
"""Bytes of a cell up to which it is held against others."""
_SHORT = 40
"""Bytes of a cell from which on it is read by itself."""
_SPACE, _NEWLINE = 32, 10
_PLAIN = np.zeros(256, dtype=bool)
_PLAIN[_NEWLINE] = _PLAIN[_SPACE:127] = True
"""Bytes of which a block is made that is read here: others part cells in one reading and not in another."""
_FIRST = np.zeros(256, dtype=bool)
_FIRST[list(b"0123456789+-")] = True
"""What a number begins with."""
_LOW, _HIGH, _ZEROS = (np.uint64(int.from_bytes(bytes([b]) * _WORD, "little")) for b in (0x7F, 0x80, 0x30))
_TO_HIGH = np.uint64(int.from_bytes(bytes([0x76]) * _WORD, "little"))
"""Lifts what is more than nine over the highest bit of a byte."""
_DATE = b"0000-00-00 00:00:00.000"
_ISO = (len(_DATE) - 4, len(_DATE))
"""Characters of a time of whole seconds, and of one with thousandths."""


class Cells:
    """The cells of those lines of a block that have as many of them as asked."""

    def __init__(self, data: bytes, width: int, separator: bytes) -> None:
        """Finds them.

        Args:
            data: whole lines, each byte of it printable.
            width: cells of a row.
            separator: between two cells; empty where blanks are, of which then several count as one.
        """
        padded = data + bytes(_LONG + _WORD)
        self._raw = np.frombuffer(padded, np.uint8)
        self._data = data
        self._words: Words = np.ndarray((len(data) + _LONG,), "<u8", padded, strides=(1,))
        raw = self._raw[: len(data)]
        ends = np.flatnonzero(raw == _NEWLINE)
        starts = np.concatenate(([0], ends[:-1] + 1))
        if separator:
            between = np.flatnonzero(raw == separator[0])
            self.rows, at = _rows(between, starts, ends, width - 1)
            left = np.concatenate([starts[self.rows][None], between[at] + 1])
            right = np.concatenate([between[at], ends[self.rows][None]])
        else:
            blank = (raw == _SPACE) | (raw == _NEWLINE)
            edges = np.flatnonzero(np.diff(blank, prepend=True, append=True))
            begin, stop = edges[::2], edges[1::2]
            self.rows, at = _rows(begin, starts, ends, width)
            left, right = begin[at], stop[at]
        self._left, self._right = left, right
        """Of each cell, a line of them for each column."""

    def bounds(self, column: int) -> tuple[Places, Places]:
        """Where the cells of a column begin and end, blanks around them left out."""
        left, right = self._left[column].copy(), self._right[column].copy()
        while (more := (left < right) & (self._raw[left] == _SPACE)).any():
            left += more
        while (more := (left < right) & (self._raw[right - 1] == _SPACE)).any():
            right -= more
        return left, right

    def begins(self, column: int, text: bytes) -> NDArray[np.bool_]:
        """Which cells of a column begin with some bytes."""
        left = self._left[column]
        found: NDArray[np.bool_] = self._raw[left] == text[0]
        for n, byte in enumerate(text[1:], 1):
            found &= self._raw[left + n] == byte
        return found

    def only(self, rows: NDArray[np.bool_]) -> None:
        """Keeps some of the rows."""
        if not rows.all():
            self.rows, self._left, self._right = self.rows[rows], self._left[:, rows], self._right[:, rows]

    def texts(self, column: int, rows: Sequence[int] | None = None) -> list[str]:
        """The cells of a column, of some of the rows alone where told."""
        left, right = self.bounds(column)
        if rows is not None:
            left, right = left[list(rows)], right[list(rows)]
        return [self._data[a:b].decode() for a, b in zip(left.tolist(), right.tolist(), strict=True)]

    def numbers(self, column: int, read: Callable[[str], float]) -> NDArray[np.float64]:
        """The number that each cell of a column begins with; NaN where it begins with none.

        Args:
            column: which one.
            read: gives the number of one cell; asked for what is no whole number of a few digits.
        """
        left, right = self.bounds(column)
        words = self._words[left] ^ _ZEROS
        other = (((words & _LOW) + _TO_HIGH) | words) & _HIGH
        other &= ~other + np.uint64(1)  # the lowest byte that is no digit
        digits = (np.frexp(other.astype(np.float64))[1] - 1) // _WORD
        digits[other == 0] = _WORD
        some = digits > 0
        words <<= (64 - _WORD * np.where(some, digits, 1)).astype(np.uint64)
        values = np.where(some, sum_digits(words), np.nan)
        behind = self._raw[left + digits]
        odd = (
            (digits == _WORD)
            | (some & (behind == ord(".")))
            | (~some & _FIRST[self._raw[left]])
            | (right - left > _SHORT)
        )
        for row in np.flatnonzero(odd & (left < right)).tolist():
            values[row] = read(self._data[left[row] : right[row]].decode())
        values[left >= right] = np.nan
        return values

    def alike(self, columns: Sequence[int]) -> tuple[NDArray[np.int64], list[int]] | None:
        """Which rows have the same cells in some columns: for each row the number of its kind, and the first row of each kind; None where a cell is long."""
        which = np.zeros(len(self.rows), np.int64)
        for column in columns:
            left, right = self.bounds(column)
            length = right - left
            if len(length) and int(length.max()) > _LONG:
                return None
            for done in range(0, _LONG, _WORD):
                count = np.clip(length - done, 0, _WORD)
                if not count.any():
                    break
                shift = (64 - _WORD * np.maximum(count, 1)).astype(np.uint64)
                word = np.where(count > 0, self._words[left + done] << shift, np.uint64(0))
                kinds = np.unique(word, return_inverse=True)[1]
                which = np.unique((which << 32) + kinds, return_inverse=True)[1]
        return which, np.unique(which, return_index=True)[1].tolist()

    def times(self, column: int) -> NDArray[np.float64] | None:
        """Seconds since the epoch of the calendar without a zone; None where a cell is not of the common form."""
        left, right = self.bounds(column)
        if not len(left):
            return np.empty(0)
        length = int(right[0] - left[0])
        if length not in _ISO or bool((right - left != length).any()):
            return None
        texts = np.lib.stride_tricks.sliding_window_view(self._raw, length)[left]
        model = np.frombuffer(_DATE[:length], np.uint8)
        digit = model == ord("0")
        slashes = texts[:, [4, 7]] == ord("/")
        if bool(slashes.any()):
            if not bool((slashes[:, 0] == slashes[:, 1]).all()):
                return None
            texts[:, [4, 7]] = np.where(slashes, ord("-"), texts[:, [4, 7]])
        if not bool((texts[:, ~digit] == model[~digit]).all() and (texts[:, digit] - ord("0") <= 9).all()):
            return None
        try:
            return np.asarray(
                texts.view(f"S{length}")[:, 0].astype("datetime64[ms]").astype(np.int64) / 1000, np.float64
            )
        except ValueError:
            return None


def is_plain(data: bytes) -> bool:
    """Whether a block holds nothing but newlines, blanks and printable characters of ASCII."""
    return bool(_PLAIN[np.frombuffer(data, np.uint8)].all())


def _rows(marks: Places, starts: Places, ends: Places, count: int) -> tuple[Places, Places]:
    """Lines that have so many marks, and the index of these: a row for each of the marks."""
    if len(marks) == count * len(ends):
        at = np.arange(len(marks)).reshape(-1, count).T
        if not len(marks) or bool((marks[at[0]] >= starts).all() and (marks[at[-1]] < ends).all()):
            return np.arange(len(ends)), at
    first = np.searchsorted(marks, starts)
    rows = np.flatnonzero(np.diff(first, append=len(marks)) == count)
    return rows, first[rows] + np.arange(count)[:, None]
