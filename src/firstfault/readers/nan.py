"""Whether a source's training metrics are NaN to the end, and from which line on. Reads step lines; says nothing of why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import Event, Span
from firstfault.model.lazy import lazy
from firstfault.readers.identity import locate
from firstfault.readers.progress import TRAINING, Anchor, find_progress

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.lines import TextStore

REACH = 1 << 20
"""Bytes before the end that are looked at."""
FEWEST = 3
"""Signs in a row from which on it is no single skipped step of half precision."""
LONGEST = 700
_METRIC = lazy(rb"(?i)(?:loss|grad[_ ]?norm)['\"]?\s{0,3}[:=]?\s{0,3}\(?['\"]?[-+]?(?:\d|nan|inf)")
_NAN = lazy(rb"(?i)(?:loss|grad[_ ]?norm)['\"]?\s{0,3}[:=]?\s{0,3}\(?['\"]?nan\b")


def nan_from(store: TextStore, source: SourceId, lines: int, clock: SourceClock) -> Event | None:
    """The first line of a run of NaN that lasts to the last sign of training; None where there is none.

    Args:
        store: of the sources.
        source: which one.
        lines: number of its lines; the run is looked for in the last megabyte.
        clock: of the source.
    """
    size = store.size(source)
    start = max(0, size - REACH)
    data = store.read(source, start, size - start)
    if b"nan" not in data and b"NaN" not in data and b"NAN" not in data:
        return None
    ended = data.endswith(b"\n")
    number = 1 if start == 0 else max(1, lines - data.count(b"\n") + ended)
    run: Event | None = None
    length = 0
    for sign in find_progress(data, source, base=Anchor(start, number), profile=clock.profile, clock=clock):
        if sign.kind != TRAINING:
            continue
        begin = sign.sample.offset - start
        segment = data[begin : begin + LONGEST].split(b"\n", 1)[0].split(b"\r", 1)[0]
        if _METRIC.search(segment) is None:
            continue
        if _NAN.search(segment) is None:
            run, length = None, 0
            continue
        length += 1
        if run is None:
            column = begin - data.rfind(b"\n", 0, begin)
            run = Event(
                signature="numerics.nan_to_the_end",
                span=Span(source, sign.sample.offset, len(segment), sign.sample.line, column),
                text=segment.decode("utf-8", "backslashreplace"),
                who=locate(segment, len(segment), clock.profile).who,
                when=sign.sample.when,
            )
    return run if length >= FEWEST else None
