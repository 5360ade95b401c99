"""Scans one stretch of one source in this process: the piece of work that executors share out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import SourceId
from firstfault.model.until import NEVER, OVER, STOPPED, Until
from firstfault.readers.identity import profile_source
from firstfault.scan.collect import Collector
from firstfault.scan.regions import BLOCK, regions
from firstfault.scan.results import Part
from firstfault.scan.shapes import Shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.store import Store
    from firstfault.scan.engines import Engine
    from firstfault.scan.plan import Plan

SAMPLE = 256 * 1024
"""Bytes at the head of a source from which its label style is told."""


class Stretch(Struct, frozen=True):
    """Some lines of a source, by absolute offsets; `start` is the start of a line."""

    source: SourceId
    path: str
    start: int
    end: int


def scan_stretch(
    store: Store,
    stretch: Stretch,
    plan: Plan,
    engine: Engine,
    *,
    profile: SourceProfile | None = None,
    shapes: Shapes | None = None,
    block_size: int = BLOCK,
    progress: Callable[[int], None] | None = None,
    until: Until = NEVER,
) -> Part:
    """Scans the lines between two offsets, of which the first is the start of a line.

    profile: of the source, where it is known already.
    shapes: what was found in stretches that were scanned before with the same plan.
    until: when to leave off, between two blocks.
    """

    def read(offset: int, buffer: memoryview) -> int:
        return store.read_into(stretch.source, offset, buffer)

    if until.over():
        return Part(damage=OVER)
    try:
        if profile is None:
            profile = profile_source(store.head(stretch.source, SAMPLE), stretch.path)
        collector = Collector(plan, profile, Shapes() if shapes is None else shapes)
    except KeyboardInterrupt:
        return Part(damage=STOPPED)
    except OSError as error:
        return Part(damage=_unreadable(error))
    try:
        for region in regions(read, stretch.start, stretch.end, block_size):
            collector.take(region, engine.propose(region.data, region.size))
            if progress is not None:
                progress(region.used)
            if until.over() and collector.part.bytes < stretch.end - stretch.start:
                collector.part.damage = OVER
                break
    except KeyboardInterrupt:
        collector.part.damage = STOPPED
    except OSError as error:
        collector.part.damage = _unreadable(error)
    else:
        if collector.part.bytes < stretch.end - stretch.start and not collector.part.damage:
            collector.part.damage = "became shorter while it was read"
    return collector.finish()


def _unreadable(error: OSError) -> str:
    return f"could not be read to its end: {error.strerror or error}"
