"""Blocks of lines -> columns of numbers: lines are grouped by shape, and each group is turned into numbers at once.

Must not open a file or judge a value; works without polars, which only makes long uniform stretches faster.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.layout import NUMBER, RECIPROCAL, Layout, read_layout, shape_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

MOST_SHAPES = 20_000
"""Shapes remembered of one source; logs of free text have many that are none of a step."""
UNIFORM = 64
"""Lines from which on it pays to ask whether all are of one shape."""
_NUMBER = re.compile(NUMBER)
_SMALL_EXPONENT = re.compile(rb"\de[-+]?\d")
_KEPT = b"0123456789.+-E\n"
_TABLE = bytes(b if b in _KEPT else ord("|") for b in range(256))
_DELETED = bytes(b for b in range(256) if b not in _KEPT and b not in b"|:/,=()[]{}<>;'\"%")
_SPACED = bytes(b if b in b"0123456789.+-E," else ord(" ") for b in range(256))
_SMALL = bytes(range(ord("a"), ord("z") + 1))
FEW = 4
"""Lines of one shape up to which each is read by itself."""


SAMPLE = 8
"""Of a block that looks uniform one line in so many is compared word by word; of the others the separators and the numbers
between them must be those of the first."""


class Part(NamedTuple):
    """Step lines of one layout, in the order of the source."""

    line: NDArray[np.int64]
    columns: dict[str, Numbers]


class Shapes:
    """The layouts of the shapes that were seen."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout | None] = {}

    def of(self, key: bytes, line: bytes) -> Layout | None:
        """The layout of a line with this key."""
        if key not in self._known:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            self._known[key] = read_layout(line)
        return self._known[key]


def read_block(data: bytes, first: int, shapes: Shapes, *, fast: bool) -> list[Part]:
    r"""The step lines of a block.

    Args:
        data: whole lines.
        first: number of the first line.
        shapes: of the source, kept between blocks.
        fast: whether polars is there.

    Returns:
        One part for each shape; `\r` parts of a line are lines of their own with its number.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    start = data[: data.index(b"\n")]
    key = shape_key(start)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    count = len(ends)
    if count >= UNIFORM and b"\r" not in data:
        layout = shapes.of(key, start) if fast and b"|" in start and _some_alike(data, key, ends) else None
        columns = None if layout is None else _by_table(data, layout, ends, count, start)
        if columns is not None:
            return [Part(np.arange(first, first + count, dtype=np.int64), columns)]
    groups: dict[bytes, tuple[Layout, list[bytes], list[int]]] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], first):
        for piece in line.split(b"\r") if b"\r" in line else (line,):
            key = shape_key(piece)
            if key in groups:
                group = groups[key]
            else:
                layout = shapes.of(key, piece)
                if layout is None:
                    continue
                group = groups[key] = (layout, [], [])
            group[1].append(piece)
            group[2].append(number)
    return [
        _part(b"\n".join(lines) + b"\n", np.array(numbers, dtype=np.int64), layout, lines[0], None, fast=fast)
        for layout, lines, numbers in groups.values()
    ]


def _some_alike(data: bytes, key: bytes, ends: NDArray[np.int64]) -> bool:
    """Whether the lines of a sample all have one key."""
    at = ends.tolist()
    pieces = [data[at[i - 1] + 1 : at[i]] for i in range(SAMPLE, len(at), SAMPLE)]
    pieces.append(data[at[-2] + 1 : at[-1]])
    return shape_key(b"\n".join(pieces)) == b"\n".join([key] * len(pieces))


def _part(
    data: bytes,
    lines: NDArray[np.int64],
    layout: Layout,
    first: bytes,
    ends: NDArray[np.int64] | None,
    *,
    fast: bool,
) -> Part:
    if fast and len(lines) >= UNIFORM and b"|" in first and b"%|" not in first:
        columns = _by_table(data, layout, ends, len(lines), first)
        if columns is not None:
            return Part(lines, columns)
    if len(lines) < FEW:
        return _one_by_one(data, lines)
    columns = _by_tokens(data, layout, ends, len(lines), first)
    return _one_by_one(data, lines) if columns is None else Part(lines, columns)


def _by_tokens(
    data: bytes, layout: Layout, ends: NDArray[np.int64] | None, count: int, first: bytes
) -> dict[str, Numbers] | None:
    """The same by parting the text at whatever is no number; None where the lines do not all give as many parts."""
    data, first = _capital(data, first), _capital(first, first)
    flat = data.translate(_SPACED, _SMALL).split()
    head = first.translate(_SPACED, _SMALL).split()
    width = len(head)
    if len(flat) != width * count:
        return None
    tokens = _tokens(first)
    columns: dict[str, Numbers] = {}
    for name, slot in layout.slots.items():
        if slot.number < 0:
            columns[name] = np.full(count, slot.constant)
            continue
        place = _place(head, tokens, slot.number)
        if place is None:
            return None
        try:
            columns[name] = _scaled(_floats(flat[place::width]), slot.factor)
        except ValueError:
            return None
    if layout.stamp:
        stamps = _stamps(data, layout, ends, count)
        if stamps is None:
            return None
        columns["time"] = stamps
    return columns


def _capital(data: bytes, first: bytes) -> bytes:
    """Exponents with a capital letter, so that all small ones can go; lines of one shape have them all, or none."""
    return data.replace(b"e-", b"E-").replace(b"e+", b"E+") if _SMALL_EXPONENT.search(first) is not None else data


def _tokens(line: bytes) -> list[bytes]:
    return _NUMBER.findall(line)


def _floats(tokens: list[bytes], *, point: bool = False) -> Numbers:
    """Numbers as floats; a comma is a decimal one where `point` says so, else it parts thousands."""
    try:
        return np.fromiter(map(float, tokens), np.float64, len(tokens))
    except ValueError:
        by = b"." if point else b""
        return np.fromiter((float(t.replace(b",", by)) for t in tokens), np.float64, len(tokens))


def _scaled(values: Numbers, factor: float) -> Numbers:
    if factor == RECIPROCAL:
        with np.errstate(divide="ignore"):
            return np.where(values > 0, 1.0 / values, np.nan)
    return values if factor == 1.0 else values * factor


def _one_by_one(data: bytes, lines: NDArray[np.int64]) -> Part:
    """Lines of one key that differ in the number of their numbers, such as `1-2` and `12`: each has its own layout."""
    rows: list[dict[str, float]] = []
    for line in data.split(b"\n")[:-1]:
        layout = read_layout(line)
        if layout is None:
            rows.append({})
            continue
        tokens = _tokens(line)
        row = {
            name: slot.constant if slot.number < 0 else float(_scaled(_floats([tokens[slot.number]]), slot.factor)[0])
            for name, slot in layout.slots.items()
        }
        if layout.stamp:
            row["time"] = float(_time([_floats([tokens[n]], point=True) for n in layout.stamp])[0])
        rows.append(row)
    names = {name for row in rows for name in row}
    return Part(lines, {name: np.array([row.get(name, np.nan) for row in rows]) for name in sorted(names)})


def _time(parts: list[Numbers]) -> Numbers:
    """Seconds since the epoch of a civil date; the signs that stand before month and day in `2026-08-22` are none."""
    year, month, day = (np.abs(p).astype(np.int64) for p in parts[:3])
    hour, minute, second = parts[3:]
    seconds = _days(year, month, day) * 86400.0 + hour * 3600 + minute * 60 + second
    return np.asarray(seconds, dtype=np.float64)


def _days(year: NDArray[np.int64], month: NDArray[np.int64], day: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days since the epoch, by eras of 400 years that begin in March."""
    year = year - (month <= 2)
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return np.asarray(era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468, dtype=np.int64)


def _by_table(
    data: bytes, layout: Layout, ends: NDArray[np.int64] | None, count: int, first: bytes
) -> dict[str, Numbers] | None:
    """The same by a reader of tables, after all words were taken out; None where that does not give the same numbers."""
    import polars as pl

    data, first = _capital(data, first), _capital(first, first)
    cells = first.translate(_TABLE, _DELETED).split(b"|")
    tokens = _tokens(first)
    wanted: dict[str, int] = {}
    for name, slot in layout.slots.items():
        if slot.number < 0:
            continue
        place = _place(cells, tokens, slot.number)
        if place is None:
            return None
        wanted[name] = place
    stamps = _stamps(data, layout, ends, count)
    if layout.stamp and stamps is None:
        return None
    used = set(wanted.values())
    schema = {f"c{i}": pl.Float64 if i in used else pl.String for i in range(len(cells))}
    try:
        frame = (
            pl.scan_csv(
                data.translate(_TABLE, _DELETED), separator="|", has_header=False, schema=schema, quote_char=None
            )
            .select([f"c{i}" for i in sorted(used)])
            .collect()
        )
    except pl.exceptions.PolarsError:
        return None
    if frame.height != count or any(frame.null_count().row(0)):
        return None  # a line with fewer cells, or a word where a number was
    columns = {
        name: _scaled(frame[f"c{wanted[name]}"].to_numpy(), slot.factor)
        if slot.number >= 0
        else np.full(count, slot.constant)
        for name, slot in layout.slots.items()
    }
    if stamps is not None:
        columns["time"] = stamps
    return columns


def _place(cells: list[bytes], tokens: list[bytes], number: int) -> int | None:
    """Which cell holds a number; None where none is exactly it, or the numbers before do not tell which of several."""
    token = tokens[number]
    before = tokens[:number].count(token)
    places = [i for i, cell in enumerate(cells) if cell == token]
    return places[before] if len(places) == tokens.count(token) else None


def _stamps(data: bytes, layout: Layout, ends: NDArray[np.int64] | None, count: int) -> Numbers | None:
    """Dates that stand at one place of every line, such as `2026-08-22 15:22:22`; None where they do not."""
    at = layout.stamp_at
    if at < 0:
        return None
    raw = np.frombuffer(data, np.uint8)
    if ends is None:
        ends = np.flatnonzero(raw == 10)
    starts = np.empty(count, np.int64)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    if int((ends - starts).min()) < at + 20:
        return None
    window = np.lib.stride_tricks.sliding_window_view(raw, 27)
    if int(starts[-1]) + at >= len(window):
        return None
    text = window[starts + at].T.copy()
    if not ((text[4] == text[4, 0]).all() and (text[13] == ord(":")).all() and (text[16] == ord(":")).all()):
        return None
    date = _whole(text, 0, 4) * 10000 + _whole(text, 5, 2) * 100 + _whole(text, 8, 2)
    # A day has many lines: its number is worked out once for each stretch of one date.
    begins = np.flatnonzero(np.diff(date, prepend=-1))
    dates = date[begins]
    days = np.repeat(_days(dates // 10000, dates // 100 % 100, dates % 100), np.diff(np.append(begins, count)))
    seconds = days * 86400.0 + (_whole(text, 11, 2) * 3600 + _whole(text, 14, 2) * 60 + _whole(text, 17, 2))
    if chr(text[19, 0]) in ".," and bool((text[19] == text[19, 0]).all()):
        length = next(
            (n for n in range(6, 0, -1) if bool(((text[20 : 20 + n] >= 48) & (text[20 : 20 + n] <= 57)).all())), 0
        )
        if length:
            seconds += _whole(text, 20, length) / 10.0**length
    return seconds


def _whole(text: NDArray[np.uint8], start: int, length: int) -> NDArray[np.int32]:
    """A number of decimal digits, each a row."""
    value = text[start].astype(np.int32) - 48
    for i in range(start + 1, start + length):
        value *= 10
        value += text[i]
        value -= 48
    return np.asarray(value, dtype=np.int32)
