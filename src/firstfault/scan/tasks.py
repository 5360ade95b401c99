"""Splits the work: large sources by byte range at line starts, small ones in batches. It scans nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.scan.stretch import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import Source
    from firstfault.readers.store import Store

SMALLEST = 16 << 20
LARGEST = 128 << 20
UNDIVIDED = SMALLEST + SMALLEST // 2
"""Bytes up to which a source is never split."""
_BATCH = 32
_LOOK = 64 * 1024

Task = tuple[Stretch, ...]
"""Stretches that one worker scans one after the other."""


def split(store: Store, sources: Iterable[Source], workers: int) -> list[Task]:
    """Tasks for a number of workers, in order of sources and offsets.

    A line belongs to the stretch in which it starts, so that every stretch begins at the start of a line.
    """
    listed = list(sources)
    total = sum(store.size(s.id) for s in listed)
    size = max(SMALLEST, min(LARGEST, total // max(1, workers * 8)))
    tasks: list[Task] = []
    batch: list[Stretch] = []
    weight = 0
    for source in listed:
        stretches = _stretches(store, source, size)
        if len(stretches) > 1:
            tasks.extend((s,) for s in stretches)
            continue
        batch.extend(stretches)
        weight += stretches[0].end
        if len(batch) >= _BATCH or weight >= size:
            tasks.append(tuple(batch))
            batch, weight = [], 0
    if batch:
        tasks.append(tuple(batch))
    return tasks


def whole(store: Store, source: Source) -> Stretch:
    """All of a source as one stretch."""
    return Stretch(source.id, source.path, 0, store.size(source.id))


def _stretches(store: Store, source: Source, size: int) -> list[Stretch]:
    end = store.size(source.id)
    borders = [0]
    while end - borders[-1] > size + size // 2:
        border = _line_start(store, source, borders[-1] + size)
        if border >= end:
            break
        borders.append(border)
    return [Stretch(source.id, source.path, a, b) for a, b in zip(borders, [*borders[1:], end], strict=True)]


def _line_start(store: Store, source: Source, offset: int) -> int:
    """The first start of a line at or after an offset; the end of the source where there is none."""
    at = offset - 1
    while True:
        try:
            block = store.read(source.id, at, _LOOK)
        except OSError:
            return store.size(source.id)
        if not block:
            return store.size(source.id)
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
