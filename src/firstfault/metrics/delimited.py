"""Tables of metrics with a header, separated by commas or tabs, as Lightning's CSV logger and others write them.

Must not judge a value; tables of GPU counters are not for it (see `firstfault.metrics.devices`).
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

MOST = 1 << 30
"""Bytes of a table that are read."""


class Header(NamedTuple):
    """The first line of a table."""

    separator: str
    columns: tuple[tuple[int, str, float], ...]
    """Place, column and factor of each cell that is known; the first place that tells a column wins."""
    width: int


def header_of(head: bytes) -> Header | None:
    """What the columns of a table are; None where the first line is no header with a step or epoch and a metric."""
    first = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8", "replace")
    for separator in (",", "\t"):
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
    text = store.read(source, 0, MOST).decode("utf-8", "replace")
    groups: dict[tuple[str, ...], tuple[list[int], list[list[float]]]] = {}
    for line, cells in enumerate(csv.reader(io.StringIO(text), delimiter=header.separator), 1):
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


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
