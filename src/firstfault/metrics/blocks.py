"""Blocks of lines -> columns of numbers: lines are grouped by shape, and each group is turned into numbers at once.

Must not open a file or judge a value. Reading one line by itself is the measure: every faster way gives the same numbers.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.grid import Grid
from firstfault.metrics.layout import (
    NUMBER,
    Layout,
    has_decimal_commas,
    is_rest_of_line,
    read_layout,
    read_stamp,
    shape_key,
)
from firstfault.metrics.runs import Block, days_of, model_of, read_rows, scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Places = NDArray[np.int64]

MOST_SHAPES = 20_000
"""Shapes remembered of one source; logs of free text have many that are none of a step."""
UNIFORM = 64
"""Lines from which on it pays to ask whether all are of one shape."""
PLACE = "place"
"""Column of a part: which of the pieces of its line, parted by `\r`, a row is; 0 where it is not told. It orders rows and is no metric."""
_NUMBER = re.compile(NUMBER)
_COMMA = re.compile(rb"(?<=\d),(?=\d)")
_WRAPPED = re.compile(rb"^[^\s][^\n]*(?:\n {8,120}[^\s][^\n]*)+", re.MULTILINE)
_AT_WRAP = re.compile(rb" ?\n {8,120}")
FEW = 4
"""Lines of one shape up to which each is read by itself."""
SAMPLE = 8
"""Of the lines that are read by their places one in so many is compared word by word with the model."""
PIECE = 2 << 20
"""Bytes whose runs of digits are looked for at a time."""
GRIDS = 4
"""Lengths of lines that are held against a model byte by byte in one piece."""
SHORTEST, LONGEST = 8, 4096
"""Bytes of a line from and up to which that is done."""
MODELS = 6
"""Shapes that are read by their places in one block; the lines of others are read by the text."""


class Part(NamedTuple):
    """Step lines of one layout, in the order of the source."""

    line: NDArray[np.int64]
    columns: dict[str, Numbers]
    """By name; `PLACE` among them only where a line holds several."""


class Shapes:
    """The layouts of the shapes that were seen."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout | None] = {}
        self._grids: dict[int, Grid] = {}
        self.last: Grid | None = None
        """The model that most lines of the last table fitted."""
        self.commas = False
        """Whether a step line with decimal commas was seen; then all of the source is read with points for them."""
        self.wrapped = False
        """Whether the rest of a step line was seen that a printer wrapped; then such lines are read as one with what stands above them."""

    def of(self, key: bytes, line: bytes) -> Layout | None:
        """The layout of a line with this key."""
        if key not in self._known:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            layout = self._known[key] = read_layout(line)
            self.commas = self.commas or (layout is not None and b"," in line and has_decimal_commas(line))
            self.wrapped = self.wrapped or (layout is not None and is_rest_of_line(layout, line))
        return self._known[key]

    def grid(self, table: NDArray[np.uint8]) -> tuple[Grid | None, NDArray[np.bool_] | None]:
        """A model for lines of one length, and which of them fit it; None where the first of them tells no step.

        The model of the block before serves again where most lines fit it.
        """
        width = table.shape[1]
        known = self._grids.get(width)
        if known is not None:
            fits = known.fits(table)
            if np.count_nonzero(fits) * 2 > len(fits):
                self.last = known
                return known, fits
        line = table[0].tobytes()
        layout = self.of(shape_key(line), line)
        grid = None if layout is None else Grid(line, layout)
        if grid is None or grid.places is None:
            return None, None
        self._grids[width] = self.last = grid
        return grid, grid.fits(table)


def read_block(data: bytes, first: int, shapes: Shapes, *, fast: bool = True) -> list[Part]:
    r"""The step lines of a block.

    Args:
        data: whole lines.
        first: number of the first line.
        shapes: of the source, kept between blocks.
        fast: whether many lines of one shape are read by the places of their digits; the numbers are the same.

    Returns:
        One part for each shape; `\r` parts of a line are lines of their own with its number.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    if not fast:
        _look_at(data, shapes)
        data = _with_points(data) if shapes.commas else data
        data = _unwrapped(data) if shapes.wrapped else data
        lines = enumerate(data.split(b"\n")[:-1], first)
        pieces = [(n, at, p) for n, line in lines for at, p in enumerate(line.split(b"\r"))]
        steps = [(n, at, p) for n, at, p in pieces if shapes.of(shape_key(p), p) is not None]
        parts = [(_one_by_one([p], np.array([n], np.int64)), np.array([at])) for n, at, p in steps]
        return [_placed(part, at) if b"\r" in data else part for part, at in parts]
    return read_lines(data, first, shapes)[0]


def read_lines(data: bytes, first: int, shapes: Shapes, place: int = 0) -> tuple[list[Part], int, int]:
    r"""The same of a block in the fast way; it may end behind a `\r`, within a line that goes on in the next.

    Args:
        data: whole pieces of lines.
        first: number of the first line.
        shapes: of the source.
        place: pieces of that line in the blocks before.

    Returns:
        Its parts, how many lines end in it, and how many pieces of the last line were read, where that one goes on.
    """
    if not data.endswith((b"\n", b"\r")):
        data += b"\n"
    if b"\r" in data:  # one byte is looked for ten times as fast as two
        data = data.replace(b"\r\n", b"\n")
    parts: list[Part] = []
    count = 0
    for piece in _pieces(data):
        if place or b"\r" in piece:
            found, lines, place = _read_drawn(piece, first + count, shapes, place)
        else:
            found, lines = _read_whole(piece, first + count, shapes)
        parts += found
        count += lines
    return parts, count, place


def _read_whole(data: bytes, first: int, shapes: Shapes) -> tuple[list[Part], int]:
    """The parts of whole lines, and how many these are."""
    commas, wrapped = shapes.commas, shapes.wrapped
    if commas:
        data = _with_points(data)
    if wrapped:
        data = _unwrapped(data)
    even = _by_last_grid(data, first, shapes)
    if even is not None:
        return [even], len(even.line)
    parts = _read_rows(data, first, shapes)
    if shapes.commas > commas or shapes.wrapped > wrapped:
        return _read_whole(data, first, shapes)
    return parts, int(np.count_nonzero(np.frombuffer(data, np.uint8) == 10))


def _with_points(data: bytes) -> bytes:
    """The same with points for the commas between digits."""
    return _COMMA.sub(b".", data)


def _unwrapped(data: bytes) -> bytes:
    """The same with the rest of each wrapped line behind what stands above it; as many lines, the emptied ones below."""
    return _WRAPPED.sub(lambda rows: _AT_WRAP.sub(b" ", rows[0]) + b"\n" * rows[0].count(b"\n"), data)


def _look_at(data: bytes, shapes: Shapes) -> None:
    """Looks at every line, to know how the source writes its steps."""
    for line in data.replace(b"\r", b"\n").split(b"\n"):
        shapes.of(shape_key(line), line)


def _by_last_grid(data: bytes, first: int, shapes: Shapes) -> Part | None:
    """A piece all of whose lines are as those before it; None where one is not. No byte of a model's row is a newline."""
    grid = shapes.last
    if grid is None or len(data) % (grid.width + 1):
        return None
    columns = grid.read_even(data)
    if columns is None:
        return None
    return Part(np.arange(first, first + len(data) // (grid.width + 1), dtype=np.int64), columns)


def _pieces(data: bytes) -> Iterator[bytes]:
    r"""Stretches of whole lines, or of pieces parted by `\r`, that fit what a processor keeps at hand."""
    at = 0
    while at < len(data):
        stop = at + PIECE
        end = (
            data.rfind(b"\n", at, stop) + 1 or data.rfind(b"\r", at, stop) + 1 or data.find(b"\n", at) + 1 or len(data)
        )
        yield data if end == len(data) and not at else data[at:end]
        at = end


def _read_drawn(data: bytes, first: int, shapes: Shapes, place: int) -> tuple[list[Part], int, int]:
    r"""Lines that are drawn again and again behind a `\r`, each piece a row; the first line goes on from the block before."""
    parts, count = _read_whole(data.replace(b"\r", b"\n"), 0, shapes)
    if b"\n" not in data:
        at = [(np.full(len(part.line), first), part.line + place) for part in parts]
        return [_placed(p._replace(line=n), m) for p, (n, m) in zip(parts, at, strict=True)], 0, place + count
    raw = np.frombuffer(data, np.uint8)
    newline = raw[(raw == 10) | (raw == 13)] == 10
    line = np.cumsum(newline) - newline
    places = np.arange(count) - np.searchsorted(line, line)
    places[line == 0] += place
    placed = [_placed(part._replace(line=first + line[part.line]), places[part.line]) for part in parts]
    return placed, int(np.count_nonzero(newline)), 0 if newline[-1] else int(places[-1]) + 1


def _placed(part: Part, place: Places) -> Part:
    """A part that tells which pieces of their lines its rows are."""
    return part._replace(columns={**part.columns, PLACE: place.astype(np.float64)})


def _read_rows(data: bytes, first: int, shapes: Shapes) -> list[Part]:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    numbers = np.arange(first, first + len(ends), dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    parts, rest = _by_grid(data, starts, ends, numbers, shapes)
    if len(rest) >= UNIFORM:
        if len(rest) < len(ends):
            data = (
                b"\n".join([data[a:b] for a, b in zip(starts[rest].tolist(), ends[rest].tolist(), strict=True)]) + b"\n"
            )
        block = Block(data)
        numbers = numbers[rest]
        more, rest = _by_places(block, numbers, shapes)
        parts += more
        starts, ends, data = block.line_starts(), block.ends, block.data
    if len(rest):
        lines = [data[a:b] for a, b in zip(starts[rest].tolist(), ends[rest].tolist(), strict=True)]
        parts += _by_shape(lines, numbers[rest].tolist(), shapes)
    return parts


def _by_grid(data: bytes, starts: Places, ends: Places, numbers: Places, shapes: Shapes) -> tuple[list[Part], Places]:
    """Rows of the commonest lengths whose every byte fits a model line, and the index of each line that is left."""
    raw = np.frombuffer(data, np.uint8)
    length = ends - starts
    rest = np.arange(len(ends))
    parts: list[Part] = []
    for _ in range(GRIDS):
        if len(rest) < UNIFORM:
            break
        left = length[rest]
        width = int(left[0]) if bool((left == left[0]).all()) else int(np.bincount(np.minimum(left, LONGEST)).argmax())
        rows = rest[left == width]
        if len(rows) < UNIFORM or not SHORTEST <= width < LONGEST:
            break
        if len(rows) == len(ends):
            table = raw.reshape(-1, width + 1)[:, :width]
        else:
            table = np.lib.stride_tricks.sliding_window_view(raw, width)[starts[rows]]
        grid, fits = shapes.grid(table)
        if grid is None or fits is None:
            break
        share = np.count_nonzero(fits)
        if share < len(rows):
            rows, table = rows[fits], table[fits]
        parts.append(Part(numbers[rows], grid.read(table)))
        rest = np.setdiff1d(rest, rows, assume_unique=True) if len(rows) < len(rest) else rest[:0]
        if share < UNIFORM:
            break
    return parts, rest


def _by_places(block: Block, numbers: NDArray[np.int64], shapes: Shapes) -> tuple[list[Part], NDArray[np.int64]]:
    """Rows of the commonest shapes by the places of their digits, and the index of each line that is left."""
    count = len(block.ends)
    rest = np.arange(count)
    parts: list[Part] = []
    if count < UNIFORM:
        return parts, rest
    first, widths = block.split()
    starts = block.line_starts()
    for _ in range(MODELS):
        left = widths[rest]
        if len(rest) < UNIFORM or not left.any():
            break
        width = int(np.bincount(left[left > 0]).argmax())
        rows = rest[left == width]
        if len(rows) < UNIFORM:
            break
        line = block.data[starts[rows[0]] : block.ends[rows[0]]]
        key = shape_key(line)
        layout = shapes.of(key, line)
        model = None if layout is None or layout.is_of_words() else model_of(line)
        if layout is None or model is None or len(model.numbers) != layout.numbers:
            break
        columns, fits = read_rows(block, model, layout, None if len(rows) == count else first[rows])
        good = np.flatnonzero(fits)
        if len(good) < FEW or not _alike(block, key, starts, rows[good]):
            break
        if len(good) < len(rows):
            rows, columns = rows[good], {n: v[good] for n, v in columns.items()}
        parts.append(Part(numbers[rows], columns))
        rest = np.setdiff1d(rest, rows, assume_unique=True) if len(rows) < len(rest) else rest[:0]
    return parts, rest


def _alike(block: Block, key: bytes, starts: NDArray[np.int64], rows: NDArray[np.int64]) -> bool:
    """Whether the lines of a sample all have one key: runs of lines, since shapes may take turns."""
    at = np.concatenate([rows[i : i + SAMPLE] for i in range(0, len(rows), SAMPLE * SAMPLE)] + [rows[-1:]])
    pieces = [block.data[a:b] for a, b in zip(starts[at].tolist(), block.ends[at].tolist(), strict=True)]
    return shape_key(b"\n".join(pieces)) == b"\n".join([key] * len(pieces))


def _by_shape(pieces: list[bytes], numbers: list[int], shapes: Shapes) -> list[Part]:
    """Lines grouped by their keys."""
    groups: dict[bytes, tuple[Layout, list[bytes], list[int]]] = {}
    for number, piece in zip(numbers, pieces, strict=True):
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
    return [p for layout, lines, at in groups.values() for p in _part(lines, np.array(at, dtype=np.int64), layout)]


def _part(lines: list[bytes], numbers: NDArray[np.int64], layout: Layout) -> list[Part]:
    """Lines of one key: their words are the same, so only the places of their numbers are to be held against a model."""
    parts: list[Part] = []
    for _ in range(MODELS):
        if len(lines) < FEW or layout.is_of_words():
            break
        model = model_of(lines[0])
        if model is None or len(model.numbers) != layout.numbers:
            break
        block = Block(b"\n".join(lines) + b"\n")
        first, widths = block.split()
        rows = np.flatnonzero(widths == model.runs)
        columns, fits = read_rows(block, model, layout, first[rows], labels=False)
        good = np.flatnonzero(fits)
        if not len(good):
            break
        parts.append(Part(numbers[rows[good]], {n: v[good] for n, v in columns.items()}))
        left = np.ones(len(lines), dtype=bool)
        left[rows[good]] = False
        lines, numbers = list(compress(lines, left.tolist())), numbers[left]
    return [*parts, _one_by_one(lines, numbers)] if lines else parts


def _one_by_one(lines: list[bytes], numbers: NDArray[np.int64]) -> Part:
    """Lines that differ in the number of their numbers, such as `1-2` and `12`: each has its own layout."""
    rows: list[dict[str, float]] = []
    for line in lines:
        layout = read_layout(line)
        if layout is None:
            rows.append({})
            continue
        tokens = _NUMBER.findall(line)
        row = {
            name: slot.constant if slot.number < 0 else _one(tokens[slot.number], slot.factor)
            for name, slot in layout.slots.items()
        }
        if layout.stamp:
            row["time"] = _time([float(tokens[n].replace(b",", b".")) for n in layout.stamp])
        rows.append(row)
    names = {name for row in rows for name in row}
    return Part(numbers, {name: np.array([row.get(name, np.nan) for row in rows]) for name in sorted(names)})


def stamp_of(line: bytes) -> float | None:
    """The date and time that a line tells, as rows of steps tell theirs; None where it tells none."""
    places = read_stamp(line)
    tokens = _NUMBER.findall(line)
    return _time([float(tokens[n].replace(b",", b".")) for n in places]) if places else None


def _one(token: bytes, factor: float) -> float:
    return float(scaled(np.array([float(token.replace(b",", b""))]), factor)[0])


def _time(parts: list[float]) -> float:
    """Seconds since the epoch of a civil date; the signs that stand before month and day in `2026-08-22` are none."""
    year, month, day = (np.array([abs(int(p))], dtype=np.int64) for p in parts[:3])
    hour, minute, second = parts[3:]
    return float(days_of(year, month, day)[0] * 86400.0 + abs(hour) * 3600 + abs(minute) * 60 + abs(second))
