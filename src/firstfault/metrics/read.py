"""Sources -> step tables: which reader a source needs, blocks of long ones worked on by several processes.

Must not judge a value.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.blocks import PLACE, Part, Shapes, read_lines
from firstfault.metrics.steps import Steps, gather_steps, joined
from firstfault.model.words import SourceKind
from firstfault.readers.sourcename import read_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from firstfault.metrics.blocks import Numbers
    from firstfault.model.evidence import Source, SourceId
    from firstfault.readers.store import Store

    Share = tuple[int, NDArray[np.int64], dict[str, NDArray[np.generic] | tuple[int, str]]]
    """How many rows, their lines, and of each column its one value or where in a file its values stand, and of which type."""

BLOCK = 2 << 20
"""Bytes that are turned into columns at a time."""
SPLIT, LARGE_SPLIT = 96 << 20, 256 << 20
"""Bytes of a source from which on it is worked on by several processes; of one whose lines are mostly steps, read in less time than processes take to begin."""
SHARE = 64 << 20
"""Bytes that a process takes at a time."""
TEXTS = frozenset({SourceKind.LOG, SourceKind.METRICS, SourceKind.CONFIG, SourceKind.UNKNOWN})
"""Kinds of sources that may hold step lines; settings and documents only where they are JSON lines."""
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
SETTINGS = frozenset({"step", "epoch", "lr", "batch_size", "samples", "rank"})
"""Columns that a document of settings on one line tells too: a step to start from, a learning rate."""


def read_source_steps(store: Store, source: Source, *, workers: int | None = None) -> Steps | None:
    """The step table of a source; None where it is of a kind that holds none, or no step is in it.

    Args:
        store: of the sources.
        source: which one.
        workers: processes for a long source; the number of cores where None.
    """
    if source.kind not in TEXTS:
        return None
    if source.kind is SourceKind.CONFIG and not source.path.lower().endswith(JSON_SUFFIXES):
        return None
    size = store.size(source.id)
    head = store.head(source.id, 4096)
    parts: list[Part]
    from firstfault.metrics.delimited import header_of, read_delimited
    from firstfault.metrics.histories import is_history, read_history

    if head[8:16] != b"\0" * 8 and b"brain.Event:" in head[:64]:
        from firstfault.metrics.tensorboard import read_events

        parts = read_events(store, source.id)
    elif source.path.lower().endswith(".json") and is_history(head):
        parts = read_history(store, source.id)
    elif (header := header_of(head)) is not None:
        parts = read_delimited(store, source.id, header)
    elif (workers or os.cpu_count() or 1) > 1 and _is_slow(store, source.id, size):
        parts = _by_processes(store, source.id, size, workers or os.cpu_count() or 1)
    else:
        parts, _ = read_range(store, source.id, 0, size)
    if not parts:
        return None
    steps = gather_steps(source.path, parts, rank=read_name(source.path).who.rank, by_epoch=_by_plan(store, source.id))
    if steps.height == 1 and source.path.lower().endswith(".json") and SETTINGS.issuperset(steps.columns):
        return None
    return steps if steps.height else None


def _by_plan(store: Store, source: SourceId) -> Callable[[Steps], Steps]:
    """Gives rows that tell an epoch alone their steps, where the log's start tells how many an epoch has."""

    def derive(steps: Steps) -> Steps:
        from firstfault.metrics.epochs import HEAD, plan_of, with_steps

        plan = plan_of(store.read(source, 0, HEAD))
        return steps if plan is None else with_steps(steps, plan)

    return derive


def _is_slow(store: Store, source: SourceId, size: int) -> bool:
    """Whether it takes longer to read a source than to start processes for it."""
    if not SPLIT <= size < LARGE_SPLIT:
        return size >= LARGE_SPLIT
    block = next(iter(_blocks(store, source, 0, BLOCK)), b"")
    steps = sum(len(part.line) for part in read_lines(block, 1, Shapes())[0])
    return steps * 2 < block.count(b"\n") + block.count(b"\r")


def read_range(store: Store, source: SourceId, start: int, end: int) -> tuple[list[Part], int]:
    """The step lines that begin in a stretch of a source, their lines counted from 0 at its first whole line.

    Returns:
        The parts, and how many lines begin there.
    """
    shapes = Shapes()
    parts: list[Part] = []
    count = place = 0
    for block in _blocks(store, source, start, end):
        found, lines, place = read_lines(block, count + 1, shapes, place)
        parts += found
        count += lines
    return parts, count + (place > 0)


def read_share(store: Store, source: SourceId, start: int, end: int, path: str) -> tuple[list[Share], int]:
    """The same as `read_range`, its columns left in a file: half the bytes where seven digits are enough, what is one number once.

    Line numbers that follow each other are told by the first of them, a column of one value by that value.
    """
    parts, count = read_range(store, source, start, end)
    shares: list[Share] = []
    with Path(path).open("wb") as file:
        for part in _merged(parts):
            length = len(part.line)
            line = part.line[:1] if length > 1 and part.line[-1] - part.line[0] == length - 1 else part.line
            told: dict[str, NDArray[np.generic] | tuple[int, str]] = {}
            for name, values in part.columns.items():
                if values.strides == (0,) or bool((values == values[0]).all()):
                    told[name] = values[:1] if name in _EXACT else values[:1].astype(np.float32)
                    continue
                slim = values if name in _EXACT else values.astype(np.float32)
                told[name] = (file.tell(), slim.dtype.str)
                slim.tofile(file)
                # NumPy writes past the file object's own place.
                file.seek(0, os.SEEK_END)
            shares.append((length, line, told))
    return shares, count


def _merged(parts: list[Part]) -> Iterator[Part]:
    """Parts that follow each other with the same columns as one: to read a column back piece by piece costs more than its numbers."""
    for _, group in groupby(parts, key=lambda part: part.columns.keys()):
        same = list(group)
        if len(same) == 1:
            yield same[0]
            continue
        columns = {name: joined([part.columns[name] for part in same]) for name in same[0].columns}
        yield Part(np.concatenate([part.line for part in same]), columns)


def _whole(share: Share, line: int, path: str) -> Part:
    """A part as it was before it was left in a file, its lines counted on from a line."""
    length, lines, told = share
    at = lines + line if len(lines) == length else np.arange(lines[0] + line, lines[0] + line + length)
    columns: dict[str, Numbers] = {}
    for name, where in told.items():
        if isinstance(where, tuple):
            columns[name] = np.fromfile(path, where[1], length, offset=where[0])
        else:
            columns[name] = np.broadcast_to(where, length)
    return Part(at, columns)


_EXACT = frozenset({"step", "time", "samples", "rank", "epoch", PLACE})


def _blocks(store: Store, source: SourceId, start: int, end: int) -> Iterator[bytes]:
    """Blocks of whole lines that begin in a stretch."""
    size = store.size(source)
    at = start
    if start > 0:
        at = _after_newline(store, source, start - 1, size)
    while at < end:
        block = store.read(source, at, min(BLOCK, end - at))
        if not block:
            return
        stop = at + len(block)
        if stop < size and not block.endswith(b"\n"):
            cut = block.rfind(b"\n") + 1 or (block.rfind(b"\r") + 1 if stop < end else 0)
            if not cut and stop == end:
                yield from _last_line(store, source, at, size)
                return
            block = block[:cut] if cut else block + _to_newline(store, source, stop, size)
        yield block
        at += len(block)


def _last_line(store: Store, source: SourceId, at: int, size: int) -> Iterator[bytes]:
    """The line that begins somewhere, in blocks."""
    while at < size:
        block = store.read(source, at, BLOCK)
        end = block.find(b"\n") + 1
        if end or not block:
            yield block[:end]
            return
        stop = at + len(block)
        if stop < size:
            cut = block.rfind(b"\r") + 1
            block = block[:cut] if cut else block + _to_newline(store, source, stop, size)
        yield block
        at += len(block)
        if block.endswith(b"\n"):
            return


def _to_newline(store: Store, source: SourceId, at: int, size: int) -> bytes:
    return store.read(source, at, _after_newline(store, source, at, size) - at)


def _after_newline(store: Store, source: SourceId, at: int, size: int) -> int:
    """Where the next line begins; the end of the source where none does."""
    while at < size:
        piece = store.read(source, at, 1 << 16)
        found = piece.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not piece:
            break
        at += len(piece)
    return size


def _by_processes(store: Store, source: SourceId, size: int, workers: int) -> list[Part]:
    starts = range(0, size, SHARE)
    context = multiprocessing.get_context("spawn")
    parts: list[Part] = []
    line = 0
    with (
        TemporaryDirectory() as folder,
        _kept_memory(),
        ProcessPoolExecutor(min(workers, len(starts)), mp_context=context) as pool,
    ):
        jobs = []
        for at in starts:
            path = f"{folder}/{at}"
            jobs.append((path, pool.submit(read_share, store, source, at, min(at + SHARE, size), path)))
        while jobs:
            path, job = jobs.pop(0)
            found, count = job.result()
            parts += [_whole(share, line, path) for share in found]
            Path(path).unlink()
            line += count
    return parts


@contextmanager
def _kept_memory() -> Iterator[None]:
    """Processes that begin here keep the memory of one block for the next: to ask the system anew costs more than to read."""
    before = {name: os.environ.get(name) for name in _KEPT}
    os.environ.update({name: value for name, value in _KEPT.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


_KEPT = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(512 << 20)}
"""Settings of the C library's allocator (glibc); others do not know them."""
