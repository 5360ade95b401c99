"""Step tables as one polars frame, and to a file: Parquet, CSV, JSON or JSON lines. The only module that needs polars to be there.

Must not judge a value.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.columns import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from firstfault.metrics.steps import Steps

SUFFIXES = (".parquet", ".csv", ".json", ".jsonl")
"""Forms of an exported table, by the end of the file's name."""
ROWS = 100_000
"""Rows that are turned into JSON at a time."""
_WHOLE = frozenset({"line", "rank", "attempt", "step", "samples", "batch_size", "skipped", "nan_steps"})


def to_frame(tables: Sequence[Steps], names: Sequence[str] | None = None) -> pl.DataFrame:
    """One frame of all tables: every column of `UNITS`, null where a source has no value, NaN where it printed one.

    Args:
        tables: the steps of each source.
        names: what the column `source` says of each; its path where None.
    """
    import polars as pl

    parts = []
    for n, table in enumerate(tables):
        series = [pl.repeat(table.source if names is None else names[n], table.height, eager=True).alias("source")]
        series.extend(_series(table, name) for name in list(UNITS)[1:])
        parts.append(pl.DataFrame(series))
    return pl.concat(parts) if parts else pl.DataFrame(schema=_schema())


def _schema() -> dict[str, pl.DataType]:
    import polars as pl

    return {n: pl.String() if n == "source" else pl.Int64() if n in _WHOLE else pl.Float64() for n in UNITS}


def _series(table: Steps, name: str) -> pl.Series:
    import polars as pl

    kind = _schema()[name]
    if name in {"line", "attempt"}:
        return pl.Series(name, table.line if name == "line" else table.attempt, dtype=kind)
    column = table.columns.get(name)
    if column is None:
        return pl.repeat(None, table.height, dtype=kind, eager=True).alias(name)
    values, there = column
    if name in _WHOLE:
        good = there & np.isfinite(values)
        whole = np.where(good, values, 0).round().astype(np.int64)
        return pl.Series(name, whole).set(pl.Series(~good), None) if not good.all() else pl.Series(name, whole)
    series = pl.Series(name, values.astype(np.float64), nan_to_null=False)
    return series if there.all() else series.set(pl.Series(~there), None)


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Writes a frame in the form that the file's name ends in.

    Raises:
        ValueError: the name ends in none of `SUFFIXES`.
        OSError: the file cannot be written.
    """
    match path.suffix.lower():
        case ".parquet":
            frame.write_parquet(path)
        case ".csv":
            frame.write_csv(path)
        case ".json":
            _write_json(frame, path, "[\n", ",\n", "\n]\n")
        case ".jsonl":
            _write_json(frame, path, "", "\n", "\n")
        case _:
            raise ValueError(f"a table is written as {', '.join(SUFFIXES)}")


def _write_json(frame: pl.DataFrame, path: Path, begin: str, between: str, end: str) -> None:
    """One object for each row. JSON has no NaN: what a source printed as no finite number is the string NaN, Infinity or -Infinity."""
    import polars.selectors as cs

    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(begin)
        for part in frame.iter_slices(ROWS):
            odd = [c.name for c in part.select(cs.float()) if not c.is_finite().fill_null(value=True).all()]
            text = part.write_ndjson()
            if odd:
                told = (row | {name: _named(row[name]) for name in odd} for row in part.iter_rows(named=True))
                text = "\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in told)
            file.write(between if rows else "")
            file.write(text.rstrip("\n").replace("\n", between))
            rows += part.height
        file.write(end if rows or begin else "")


def _named(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
