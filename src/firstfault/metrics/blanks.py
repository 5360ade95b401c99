"""Long uniform blocks by a reader of tables that parts at blanks: the fastest way, for lines whose numbers stand alone.

Must not guess: one row that is not surely of the model's shape, and nothing of the block is read here. Needs polars.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.layout import NUMBER
from firstfault.metrics.runs import scaled
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from firstfault.metrics.layout import Layout

    Numbers = NDArray[np.float64]

MOST_FIELDS = 200
"""Fields of a line up to which it is worth a try."""
_NUMBER = lazy(NUMBER)
_HELD = frozenset({"step", "loss", "val_loss"})
"""Columns whose words are compared in every row; those of the others in a sample, see `firstfault.metrics.blocks`."""


class _Place(NamedTuple):
    """Where a number stands."""

    field: int
    before: str
    after: str
    """Text of its field around it."""
    label: int
    """The field before it that is not empty; -1 where its own text tells what it is."""


def can_read() -> bool:
    """Whether polars is there."""
    return find_spec("polars") is not None


def read_blanks(data: bytes, count: int, line: bytes, layout: Layout) -> dict[str, Numbers] | None:
    """Columns of a block of lines that are all of one layout; None where they are not, or it cannot be told here.

    Args:
        data: whole lines.
        count: how many.
        line: the first of them.
        layout: what its numbers mean.
    """
    import polars as pl

    fields = line.split(b" ")
    places = _places(line, fields, layout)
    if places is None or len(fields) > MOST_FIELDS:
        return None
    plain = {f"c{p.field}" for p in places.values() if not p.before and not p.after}
    schema = {f"c{i}": pl.Float64 if f"c{i}" in plain else pl.String for i in range(len(fields))}
    wanted = [_value(p).alias(name) for name, p in places.items()]
    held = [
        (pl.col(f"c{p.label}") == fields[p.label].decode()).all().alias(f"held {name}")
        for name, p in places.items()
        if name in _HELD and p.label >= 0
    ]
    stamp = _stamp(line, fields, layout)
    if layout.stamp and stamp is None:
        return None
    try:
        frame = (
            pl.scan_csv(data, separator=" ", has_header=False, schema=schema, quote_char=None)
            .select(*wanted, *held, *(stamp or ()))
            .collect()
        )
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None  # a word where a number was, or more fields
    if frame.height != count or any(frame.null_count().row(0)):
        return None
    if not all(frame[f"held {name}"][0] for name in _HELD if f"held {name}" in frame.columns):
        return None
    columns = {name: scaled(frame[name].to_numpy(), layout.slots[name].factor) for name in places}
    if stamp is not None:
        clock = frame["clock"].to_numpy()
        columns["time"] = frame["day"].to_numpy() * 86400.0 + clock // 10**9 + clock % 10**9 / 1e9
    return columns


def _places(line: bytes, fields: list[bytes], layout: Layout) -> dict[str, _Place] | None:
    """Where each column stands; None where one stands nowhere alone, or has a comma."""
    tokens = list(_NUMBER.finditer(line))
    if len(tokens) != layout.numbers or not line.isascii():
        return None
    starts = _starts(fields)
    found: dict[str, _Place] = {}
    for name, slot in layout.slots.items():
        if slot.number < 0 or b"," in tokens[slot.number][0]:
            return None
        start, end = tokens[slot.number].span()
        field = int(np.searchsorted(starts, start, side="right")) - 1
        text, at = fields[field].decode(), start - int(starts[field])
        before, after = text[:at], text[at + end - start :]
        label = next((i for i in range(field - 1, -1, -1) if fields[i]), -1) if not before else -1
        found[name] = _Place(field, before, after, label)
    return found


def _starts(fields: list[bytes]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(f) + 1 for f in fields[:-1])])


def _value(place: _Place) -> pl.Expr:
    import polars as pl

    column = pl.col(f"c{place.field}")
    if not place.before and not place.after:
        return column
    return column.str.strip_prefix(place.before).str.strip_suffix(place.after).cast(pl.Float64, strict=False)


def _stamp(line: bytes, fields: list[bytes], layout: Layout) -> list[pl.Expr] | None:
    """Days since the epoch and nanoseconds of the day, of a date and a time of day that stand beside each other."""
    import polars as pl

    starts = _starts(fields)
    at = layout.stamp_at
    field = int(np.searchsorted(starts, at, side="right")) - 1
    if at < 0 or at + 10 != int(starts[field]) + len(fields[field]) or field + 1 >= len(fields):
        return None
    date, clock = fields[field].decode(), fields[field + 1].decode()
    before = date[:-10]
    if date[-6] != "-" or date[-3] != "-" or clock[2:3] != ":":
        return None
    digits = len(clock) - len(clock.lstrip("0123456789:."))
    after = clock[digits:].replace("%", "%%")
    return [
        pl.col(f"c{field}")
        .str.to_date(before.replace("%", "%%") + "%Y-%m-%d", strict=False, cache=True)
        .to_physical()
        .alias("day"),
        pl.col(f"c{field + 1}")
        .str.to_time("%H:%M:%S" + ("%.f" if "." in clock[:digits] else "") + after, strict=False, cache=False)
        .to_physical()
        .alias("clock"),
    ]
