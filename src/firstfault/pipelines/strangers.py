"""Reads files that strangers made, of a kind that can harm who loads it, in copies of this process where that is possible.

Says of each file what became of it. Knows no format: the reader is handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from firstfault.model.evidence import Coverage
from firstfault.model.until import NEVER, OVER
from firstfault.model.words import CoverageState
from firstfault.pipelines.apart import MEMORY, SECONDS, apart, possible
from firstfault.scan.executors import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.model.evidence import Source
    from firstfault.model.until import Until
    from firstfault.readers.store import Store

T = TypeVar("T")

SLOWEST = 1 << 20
"""Bytes a second that a busy machine still reads."""
ROOM = 512 << 20
"""Bytes of memory for any file, however small."""
GROWTH = 64
"""Bytes of memory for a byte of the largest file; a few make a map of it."""
LOST = "not read: it took too much time or memory, as a file does that was made to harm"


class Told(NamedTuple):
    """What a file that was read says of itself."""

    state: CoverageState
    notes: tuple[str, ...]
    """What was odd about it."""


def read_strangers(
    store: Store,
    files: Sequence[Source],
    read: Callable[[Source], T | str],
    kind: Any,
    told: Callable[[T], Told],
    *,
    inline: bool = False,
    keep: Callable[[T], T] = lambda found: found,
    until: Until = NEVER,
) -> tuple[tuple[T, ...], dict[str, Coverage]]:
    """All files that can be read, in order, and what became of each, by shown path.

    Args:
        store: the bytes.
        files: what to read.
        read: reads one, or says why it cannot.
        kind: type of what is read, or text; see `firstfault.pipelines.transport`.
        told: the state of a file that was read.
        inline: keep to one copy at a time.
        keep: makes of what was read what is kept of it, as soon as it has come.
        until: when to leave off.
    """
    if not files:
        return (), {}
    found: Sequence[T | str | None]
    if possible():
        largest = max(store.size(s.id) for s in files)
        seconds = SECONDS + largest / SLOWEST
        memory = min(MEMORY, ROOM + GROWTH * largest)
        workers = 1 if inline else processors()

        if until.left is not None:
            seconds = min(seconds, max(1.0, until.left))

        def piece(number: int) -> T | str:
            return OVER if until.over() else read(files[number])

        def kept_of(one: T | str) -> T | str:
            return one if isinstance(one, str) else keep(one)

        done = apart(piece, len(files), workers, kind, seconds=seconds, memory=memory, keep=kept_of)
        found = done
    else:
        found = [OVER if until.over() else read(source) for source in files]
    kept: list[T] = []
    coverage = {}
    for source, one in zip(files, found, strict=True):
        if isinstance(one, str) or one is None:
            late = one == OVER or (one is None and until.over())
            reason = OVER if late else LOST if one is None else f"not read: {one}"
            coverage[source.path] = Coverage(file=source.path, state=CoverageState.DAMAGED, reason=reason)
            continue
        kept.append(one)
        state, notes = told(one)
        coverage[source.path] = Coverage(
            file=source.path, state=state, reason="; ".join(notes), bytes=store.size(source.id)
        )
    return tuple(kept), coverage
