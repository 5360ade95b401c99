"""Tables of metrics with a header, separated by commas, tabs or semicolons (then with decimal points or commas), as Lightning's CSV logger and others write them.

Long tables are turned into numbers by polars where it is installed, in stretches whose rows all have the header's width; what
is not so regular is read cell by cell, and gives the same numbers. Must not judge a value; tables of GPU counters are not for it (see `firstfault.metrics.devices`).
"""

from __future__ import annotations

import csv
import io
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

    Cells = tuple[NDArray[np.float64], NDArray[np.bool_]]
    """The numbers of each column that is known, in their unit, and which cells are filled."""

MOST = 1 << 30
"""Bytes of a table that are read."""
BLOCK, LARGE_BLOCK = 1 << 20, 8 << 20
"""Bytes that are turned into columns at a time, cell by cell or by polars."""
LARGE = 8 << 20
"""Bytes of a table from which on polars is worth the time that its import takes."""
_QUOTE, _NEWLINE = b'"'[0], b"\n"[0]


class Header(NamedTuple):
    """The first line of a table."""

    separator: str
    columns: tuple[tuple[int, str, float], ...]
    """Place, column and factor of each cell that is known; the first place that tells a column wins."""
    width: int


def header_of(head: bytes) -> Header | None:
    """What the columns of a table are; None where the first line is no header with a step or epoch and a metric."""
    first = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8", "replace")
    for separator in (",", "\t", ";"):
        names = [n.strip().strip('"').lower() for n in first.split(separator)]
        if len(names) < 2 or any(n[:1].isdigit() for n in names):
            continue
        found: dict[str, tuple[int, str, float]] = {}
        for place, name in enumerate(names):
            known = ALIASES.get(name) or ALIASES.get(name.removesuffix("_step").removesuffix("_epoch"))
            if name in {"wall time", "time", "timestamp", "wall_time", "_timestamp"}:
                known = ("time", 1.0)
            if known is not None:
                found.setdefault(known[0], (place, *known))
        if ("step" in found or "epoch" in found) and len(set(found) - {"step", "epoch", "time", "rank"}) > 0:
            return Header(separator, tuple(found.values()), len(names))
    return None


def read_delimited(store: Store, source: SourceId, header: Header) -> list[Part]:
    """The rows of a table, grouped by which of their cells are filled.

    Args:
        store: of the sources.
        source: which one.
        header: its first line, read.
    """
    data = store.read(source, 0, MOST).replace(b"\r\n", b"\n").replace(b"\r", b" ")
    large = len(data) >= LARGE and find_spec("polars") is not None
    read, size = (_by_polars, LARGE_BLOCK) if large else (_by_cells, BLOCK)
    parts: list[Part] = []
    at, line = data.find(b"\n") + 1 or len(data), 1
    while at < len(data):
        end = data.rfind(b"\n", at, at + size) + 1 or data.find(b"\n", at) + 1 or len(data)
        block = data[at:end]
        if header.separator == ";":
            block = block.replace(
                b",", b"."
            )  # 9,965 of a table for other languages; no cell that is wanted has commas else
        bare = _unquoted(block, header.separator) if b'"' in block else block
        if bare is None:
            # A quoted cell may hold newlines, so that no later stretch is sure to begin with a row.
            return parts + _by_rows(
                data[at:].replace(b",", b".") if header.separator == ";" else data[at:], line, header
            )
        parts += _by_columns(bare, line, header, read) or _by_rows(block, line, header)
        line += block.count(b"\n")
        at = end
    return parts


def _unquoted(block: bytes, separator: str) -> bytes | None:
    """Whole lines without the quotation marks around their cells; None where one stands elsewhere, or a cell is of several lines or has a separator."""
    raw = np.frombuffer(block, np.uint8)
    apart = (raw == _NEWLINE) | (raw == ord(separator))
    marks = np.flatnonzero(raw == _QUOTE)
    opening, closing = marks[::2], marks[1::2]
    if len(opening) != len(closing) or block[-1] == _QUOTE:
        return None
    edges = np.concatenate(([0], np.cumsum(apart)))
    inside = edges[closing] != edges[opening]
    if bool(inside.any()) or not bool(apart[closing + 1].all()) or not bool(apart[opening[opening > 0] - 1].all()):
        return None
    return block.replace(b'"', b"")


def _by_columns(
    block: bytes, before: int, header: Header, read: Callable[[bytes, Header, int], Cells | None] | None = None
) -> list[Part]:
    """The rows of a block all of whose lines have as many cells as the header, each empty or a number; nothing where one has not.

    Args:
        block: whole lines without a quotation mark.
        before: lines before it.
        header: of the table.
        read: turns so many rows into numbers; cell by cell where None.
    """
    block = block.rstrip(b"\n") + b"\n"
    raw = np.frombuffer(block, np.uint8)
    ends, between = np.flatnonzero(raw == _NEWLINE), np.flatnonzero(raw == ord(header.separator))
    count = len(ends)
    if len(between) != count * (header.width - 1):
        return []
    rows = between.reshape(count, -1)
    if not ((rows[:, -1] < ends).all() and (rows[1:, 0] > ends[:-1]).all()):
        return []
    cells = (read or _by_cells)(block, header, count)
    if cells is None:
        return []
    values, filled = cells
    names = [name for _, name, _ in header.columns]
    if bool(filled.all()):
        return [Part(np.arange(before + 1, before + count + 1), dict(zip(names, values, strict=True)))]
    told = np.flatnonzero(filled.sum(axis=0) > 1)
    kinds = np.array([1 << i for i in range(len(names))]) @ filled[:, told]
    parts = []
    for kind in dict.fromkeys(kinds.tolist()):
        at = told[kinds == kind]
        held = [i for i in range(len(names)) if kind >> i & 1]
        parts.append(Part(at + before + 1, {names[i]: values[i, at] for i in held}))
    return parts


def _by_cells(block: bytes, header: Header, count: int) -> Cells | None:
    """The numbers of whole rows of the header's width; None where a cell that is wanted holds none."""
    separator = header.separator.encode()
    cells = block[:-1].replace(b"\n", separator).split(separator)
    values, filled = np.zeros((len(header.columns), count)), np.ones((len(header.columns), count), dtype=bool)
    try:
        for i, (place, _, factor) in enumerate(header.columns):
            column = cells[place :: header.width]
            if b"" in column:
                filled[i] = [cell != b"" for cell in column]
                column = [cell or b"0" for cell in column]
            values[i] = np.fromiter(map(float, column), np.float64, count)
            values[i] *= factor
    except ValueError:
        return None
    return values, filled


def _by_polars(block: bytes, header: Header, count: int) -> Cells | None:
    """The same by polars, which rounds as the language does; None too where a cell is of another form than it takes for a number."""
    import polars as pl

    names = [f"column_{place}" for place in range(header.width)]
    wanted = [names[place] for place, _, _ in header.columns]
    try:
        table = pl.read_csv(
            block,
            has_header=False,
            separator=header.separator,
            quote_char=None,
            schema={name: pl.Float64 if name in wanted else pl.String for name in names},
            columns=wanted,
            encoding="utf8-lossy",
        )
    except pl.exceptions.PolarsError:
        return None
    if table.height != count:
        return None
    values, filled = np.zeros((len(wanted), count)), np.ones((len(wanted), count), dtype=bool)
    for i, (name, (_, _, factor)) in enumerate(zip(wanted, header.columns, strict=True)):
        column = table[name]
        if column.null_count():
            filled[i] = column.is_not_null().to_numpy()
            column = column.fill_null(0.0)
        values[i] = column.to_numpy()
        values[i] *= factor
    return values, filled


def _by_rows(data: bytes, before: int, header: Header) -> list[Part]:
    """The same row by row, for whatever stands in the cells; the header itself is passed over."""
    text = data.decode("utf-8", "replace")
    groups: dict[tuple[str, ...], tuple[list[int], list[list[float]]]] = {}
    for line, cells in enumerate(_rows(text, header.separator), before + 1):
        if line == 1 or len(cells) != header.width:
            continue
        row = [
            (name, value * factor) for at, name, factor in header.columns if (value := _number(cells[at])) is not None
        ]
        if len(row) < 2:
            continue
        group = groups.setdefault(tuple(n for n, _ in row), ([], []))
        group[0].append(line)
        group[1].append([v for _, v in row])
    parts = []
    for names, (lines, rows) in groups.items():
        values = np.array(rows, dtype=np.float64)
        parts.append(Part(np.array(lines, np.int64), {n: values[:, i].copy() for i, n in enumerate(names)}))
    return parts


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    """Cells of each row; none for one that is no row of a table."""
    rows = csv.reader(io.StringIO(text), delimiter=separator)
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:  # a cell of more than 128 KiB, or a zero byte
            yield []


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
