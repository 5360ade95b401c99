"""The metrics that the black box wrote with an exception and the steps of its heartbeats, as a step table.

Must not judge a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firstfault.metrics.beats import read_beats
from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES
from firstfault.metrics.steps import Steps, gather_steps
from firstfault.readers.blackbox import read_box

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

MOST = 256 << 20
"""Bytes of a file that are read."""


def read_box_steps(store: Store, source: SourceId, path: str) -> Steps | None:
    """The steps of a file of the recorder; None where it tells none.

    Args:
        store: of the sources.
        source: which one.
        path: as shown.
    """
    data = store.read(source, 0, MOST)
    beats = read_beats(data)
    if beats is not None:
        return gather_steps(path, beats) if beats else None
    groups: dict[tuple[str, ...], tuple[list[int], list[list[float]]]] = {}
    for record in read_box(data, source, path).records:
        rank = None if record.who.rank is None else float(record.who.rank)
        told = record.fields.get("metrics")
        rows: list[dict[str, float]] = (
            [_known(m) for m in told if isinstance(m, dict)] if isinstance(told, list) else []
        )
        if record.step is not None and record.who.worker is None:
            rows.append({"step": float(record.step)})
            if record.when.earliest is not None:
                rows[-1]["time"] = record.when.earliest
        for row in rows:
            if "step" in row:
                if rank is not None:
                    row["rank"] = rank
                lines, values = groups.setdefault(tuple(row), ([], []))
                lines.append(record.span.line)
                values.append(list(row.values()))
    if not groups:
        return None
    return gather_steps(path, list(_parts(groups)))


def _parts(groups: dict[tuple[str, ...], tuple[list[int], list[list[float]]]]) -> Iterator[Part]:
    """Rows with the same columns as one part each."""
    for names, (lines, rows) in groups.items():
        values = np.array(rows, dtype=np.float64)
        yield Part(np.array(lines, np.int64), {name: values[:, i].copy() for i, name in enumerate(names)})


def _known(told: dict[str, Any]) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, value in told.items():
        known = ALIASES.get(str(name).lower())
        number = _number(value)
        if known is not None and number is not None:
            row.setdefault(known[0], number * known[1])
    return row


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and value.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
        return float(value)
    return None
