"""Megatron-LM's timer blocks: the times of every rank, or the shortest and longest over all ranks, below a step's line.

    times across ranks (ms):
        forward-compute:
         rank  3: 1903.00

Must not judge a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES
from firstfault.metrics.steps import gather_steps
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from firstfault.metrics.steps import Steps
    from firstfault.model.evidence import Source
    from firstfault.readers.store import Store

LARGEST = 64 << 20
"""Bytes of a source up to which its timers are read."""
_HEAD = lazy(rb"^[^\n]{0,80}?(?:\(min, max\) time|times?|max time) across ranks \(ms\):\s*$")
_STEP = lazy(rb"\biteration\s+(\d+)\s*/\s*\d+ \|")
_RANK = lazy(rb"^[^\n]{0,80}?\brank\s+(\d+): (\d+(?:\.\d+)?)\s*$")
_TIMER = lazy(rb"^[^\n]{0,80}?\s{2,}([a-z][\w-]{2,60}?)(?: \.{3,})?:(?: \((?:\d[\d.]*), (\d[\d.]*)\)| (\d[\d.]*))?\s*$")


def read_timers(store: Store, source: Source) -> Steps | None:
    """A table with a row for each step and rank that timer blocks tell; where they tell the longest alone, it is of no rank.

    Args:
        store: of the sources.
        source: which one.
    """
    size = store.size(source.id)
    if size > LARGEST:
        return None
    data = store.read(source.id, 0, size)
    if b" across ranks (ms):" not in data:
        return None
    rows: dict[tuple[int, int], tuple[int, dict[str, float]]] = {}
    step: int | None = None
    column: str | None = None
    inside = False
    for number, line in enumerate(data.split(b"\n"), 1):
        if (found := _STEP.search(line)) is not None:
            step, inside = int(found[1]), False
        elif _HEAD.match(line) is not None:
            inside, column = True, None
        elif inside and step is not None:
            if (ranked := _RANK.match(line)) is not None:
                if column is not None:
                    _keep(rows, (step, int(ranked[1])), number, column, ranked[2])
            elif (timer := _TIMER.match(line)) is not None:
                column = _column(timer[1])
                longest = timer[2] or timer[3]
                if column is not None and longest is not None:
                    _keep(rows, (step, -1), number, column, longest)
            else:
                inside = False
    if not rows:
        return None
    return gather_steps(source.path, _parts(rows))


def _column(name: bytes) -> str | None:
    column = ALIASES.get(name.decode().lower(), ("", 0.0))[0]
    return column if column.endswith("_time") else None


def _keep(
    rows: dict[tuple[int, int], tuple[int, dict[str, float]]], key: tuple[int, int], line: int, column: str, text: bytes
) -> None:
    rows.setdefault(key, (line, {}))[1].setdefault(column, float(text) / 1000)


def _parts(rows: dict[tuple[int, int], tuple[int, dict[str, float]]]) -> list[Part]:
    """Rows with the same columns as one part each."""
    groups: dict[tuple[str, ...], list[tuple[int, list[float]]]] = {}
    for (step, rank), (line, values) in rows.items():
        who = {"step": float(step)} if rank < 0 else {"step": float(step), "rank": float(rank)}
        told = who | values
        groups.setdefault(tuple(told), []).append((line, list(told.values())))
    parts = []
    for names, told_rows in groups.items():
        table = np.array([v for _, v in told_rows])
        lines = np.array([n for n, _ in told_rows], np.int64)
        parts.append(Part(lines, {n: table[:, i].copy() for i, n in enumerate(names)}))
    return parts
