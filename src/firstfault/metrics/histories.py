"""JSON documents that hold a list of flat records, each with a step: `trainer_state.json` of the Hugging Face Trainer, an exported array.

Must not judge a value; JSON lines are read as step lines (see `firstfault.metrics.blocks`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES, RECIPROCAL
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.metrics.steps import Steps
    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

LARGEST = 256 << 20
"""Bytes of a document that is read."""
_ARRAY = lazy(rb"\s*\[\s*\{")
_RECORD = lazy(rb"\{[^{}]{2,8192}\}")
_COUNTS = ("step", "epoch")
_SHOWN = ("loss", "val_loss")
"""Whose line is shown for a record of several."""


def is_history(head: bytes) -> bool:
    """Whether a document, by its first bytes, holds a list of records: that of the Trainer, or an array."""
    return b'"log_history"' in head or _ARRAY.match(head) is not None


def read_history(store: Store, source: SourceId) -> list[Part]:
    """The records of a document that tell a step or epoch and a metric, grouped by what they tell; the line of each is that of its loss, else of its first metric.

    Args:
        store: of the sources.
        source: which one.
    """
    if store.size(source) > LARGEST:
        return []
    data = store.read(source, 0, LARGEST)
    begin = max(0, data.find(b'"log_history"'))
    groups: dict[tuple[str, ...], tuple[list[int], list[list[float]]]] = {}
    line, counted = 1, 0
    for record in _RECORD.finditer(data, begin):
        told = _told(record[0])
        if told is None:
            continue
        name, row = told
        at = record.start() + max(0, record[0].find(b'"%s"' % name.encode()))
        line += data.count(b"\n", counted, at)
        counted = at
        lines, rows = groups.setdefault(tuple(row), ([], []))
        lines.append(line)
        rows.append(list(row.values()))
    parts = []
    for names, (lines, rows) in groups.items():
        values = np.array(rows, dtype=np.float64)
        parts.append(Part(np.array(lines, np.int64), {n: values[:, i].copy() for i, n in enumerate(names)}))
    return parts


def _told(text: bytes) -> tuple[str, dict[str, float]] | None:
    """The name of the metric whose line stands for a record, and its columns; None where it tells none, or sums up the run."""
    try:
        record = json.loads(text)
    except ValueError:
        return None
    if "train_runtime" in record:
        return None
    row: dict[str, float] = {}
    first = ""
    for name, value in record.items():
        known = ALIASES.get(name.lower())
        number = _number(value)
        if known is None or number is None or known[0] in row:
            continue
        row[known[0]] = number * known[1] if known[1] != RECIPROCAL else 1 / number if number > 0 else float("nan")
        if known[0] not in _COUNTS and (not first or known[0] in _SHOWN):
            first = name
    return (first, row) if first and any(c in row for c in _COUNTS) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def longest(tables: Sequence[Steps]) -> Iterator[Steps]:
    """The tables without those whose steps and losses another begins with: each checkpoint holds the history up to it again."""
    for n, table in enumerate(tables):
        others = (
            o
            for m, o in enumerate(tables)
            if m != n and (o.height > table.height or (o.height == table.height and m < n))
        )
        if not (_is_history(table) and any(_is_history(o) and _begins_with(o, table) for o in others)):
            yield table


def _is_history(table: Steps) -> bool:
    return table.source.endswith(".json")


def _begins_with(whole: Steps, part: Steps) -> bool:
    for name in ("step", "loss"):
        one, other = whole.values(name), part.values(name)
        if one is None or other is None or not np.array_equal(one[: len(other)], other, equal_nan=True):
            return False
    return True
