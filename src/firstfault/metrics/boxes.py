"""The metrics that the black box wrote with an exception and the steps of its heartbeats, as a step table.

Must not judge a value.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import DecodeError, Struct, json

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES
from firstfault.metrics.steps import Steps, gather_steps
from firstfault.readers.blackbox import MOST_NUMBER, START, read_box
from firstfault.recorder.format import BEAT

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
    beats = _beats(data)
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


class _Beat(Struct):
    """What a heartbeat tells of a step; the rest of the line is passed over."""

    kind: str
    time: datetime | None = None
    rank: int | None = None
    worker: int | None = None
    step: int | None = None


_BEATS = json.Decoder(_Beat)


def _beats(data: bytes) -> list[Part] | None:
    """The rows of a file of plain heartbeats, read at once; None where any line is another, or is damaged."""
    if b'"metrics"' in data or data.startswith(b"\n") or b"\n\n" in data or not data.startswith(START):
        return None
    try:
        beats = _BEATS.decode_lines(data)
    except (DecodeError, UnicodeDecodeError):
        return None
    whole = data.count(b"\n" + START) + 1 == len(beats)
    if not whole or any(b.kind != BEAT or b.time is None or b.time.tzinfo is None for b in beats):
        return None
    numbers = [n for b in beats for n in (b.rank, b.worker, b.step) if n is not None]
    if numbers and not (min(numbers) >= 0 and max(numbers) < MOST_NUMBER):
        return None
    parts = []
    for ranked in (True, False):
        rows = [(n, b) for n, b in enumerate(beats, start=1) if b.step is not None and b.worker is None and (b.rank is not None) is ranked]  # fmt: skip
        if rows:
            columns = {"step": np.array([b.step for _, b in rows], np.float64)}
            columns["time"] = np.array([b.time.timestamp() for _, b in rows if b.time is not None], np.float64)
            if ranked:
                columns["rank"] = np.array([b.rank for _, b in rows], np.float64)
            parts.append(Part(np.array([n for n, _ in rows], np.int64), columns))
    return parts


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
