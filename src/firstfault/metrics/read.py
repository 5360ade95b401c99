"""Sources -> step tables: which reader a source needs, blocks of long ones worked on by several processes.

Must not judge a value.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.blocks import Part, Shapes, read_block
from firstfault.metrics.steps import Steps, gather_steps
from firstfault.model.words import SourceKind
from firstfault.readers.sourcename import read_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import Source, SourceId
    from firstfault.readers.store import Store

BLOCK = 8 << 20
"""Bytes that are turned into columns at a time."""
SPLIT = 96 << 20
"""Bytes of a source from which on it is worked on by several processes."""
SHARE = 48 << 20
"""Bytes that a process takes at a time."""
TEXTS = frozenset({SourceKind.LOG, SourceKind.METRICS, SourceKind.CONFIG, SourceKind.UNKNOWN})
"""Kinds of sources that may hold step lines; settings and documents only where they are JSON lines."""
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")


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

    if head[8:16] != b"\0" * 8 and b"brain.Event:" in head[:64]:
        from firstfault.metrics.tensorboard import read_events

        parts = read_events(store, source.id)
    elif (header := header_of(head)) is not None:
        parts = read_delimited(store, source.id, header)
    elif size >= SPLIT and (workers or os.cpu_count() or 1) > 1:
        parts = _by_processes(store, source.id, size, workers or os.cpu_count() or 1)
    else:
        parts, _ = read_range(store, source.id, 0, size)
    if not parts:
        return None
    steps = gather_steps(source.path, parts, rank=read_name(source.path).who.rank)
    return steps if steps.height else None


def read_range(store: Store, source: SourceId, start: int, end: int) -> tuple[list[Part], int]:
    """The step lines that begin in a stretch of a source, their lines counted from 0 at its first whole line.

    Returns:
        The parts, and how many lines begin there.
    """
    shapes, fast = Shapes(), find_spec("polars") is not None
    parts: list[Part] = []
    count = 0
    for block in _blocks(store, source, start, end):
        parts += read_block(block, count + 1, shapes, fast=fast)
        count += int(np.count_nonzero(np.frombuffer(block, np.uint8) == 10)) + (not block.endswith(b"\n"))
    return parts, count


def read_share(store: Store, source: SourceId, start: int, end: int) -> tuple[list[Part], int]:
    """The same as `read_range`, in half the bytes where seven digits are enough: a long table has to be held at once."""
    parts, count = read_range(store, source, start, end)
    slim = [
        p._replace(columns={n: v if n in _EXACT else v.astype(np.float32) for n, v in p.columns.items()}) for p in parts
    ]
    return slim, count


_EXACT = frozenset({"step", "time", "samples", "rank", "epoch"})


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
            cut = block.rfind(b"\n") + 1
            if cut and stop < end:
                block = block[:cut]
            else:
                block += store.read(source, stop, _after_newline(store, source, stop, size) - stop)
        yield block
        at += len(block)


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


def _one_thread() -> None:
    """In a worker: polars is to use the core of its process, before it is imported."""
    os.environ["POLARS_MAX_THREADS"] = "1"


def _by_processes(store: Store, source: SourceId, size: int, workers: int) -> list[Part]:
    starts = range(0, size, SHARE)
    context = multiprocessing.get_context("spawn")
    parts: list[Part] = []
    line = 0
    with ProcessPoolExecutor(min(workers, len(starts)), mp_context=context, initializer=_one_thread) as pool:
        jobs = [pool.submit(read_share, store, source, at, min(at + SHARE, size)) for at in starts]
        while jobs:
            found, count = jobs.pop(0).result()
            parts += [p._replace(line=p.line + line) for p in found]
            line += count
    return parts
