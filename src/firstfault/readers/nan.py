"""Whether a source's training metrics are NaN to the end, and from which line on. Reads step lines; says nothing of why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import Event, Span
from firstfault.model.lazy import lazy
from firstfault.readers.identity import locate
from firstfault.readers.progress import Anchor, find_progress
from firstfault.readers.steplines import TRAINING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.lines import TextStore

REACH = 1 << 20
"""Bytes before the end that are looked at."""
FEWEST = 3
"""Signs in a row from which on it is no single skipped step of half precision."""
TAIL = 32 << 10
"""Bytes before the end that are looked at first."""
LONGEST = 700
_METRIC = lazy(rb"(?i)(?:loss|grad[_ ]?norm)['\"]?\s{0,3}[:=]?\s{0,3}\(?['\"]?[-+]?(?:\d|nan|inf)")
_ROW = lazy(
    rb"(?m)^.{0,80}?(\|[ \t]{1,8}(?:[\w/]{1,30}/)?(?:train_)?(?:total_)?loss[ \t]{0,40}\|[ \t]{0,8}([-+\w.]{1,20})[ \t]{0,20}\|)"
)
"""A row such as `| loss          | 0.0507   |`."""
_LONE = lazy(
    rb"(?mi)^[ \t>*\"'-]{0,12}((?!val|eval|test|dev)[a-z_/ ]{0,24}loss(?:es)?\"?[ \t]{0,8}[:=][ \t]{0,8}(?:tensor\()?([-+]?(?:[\d.]+(?:e[-+]?\d+)?|nan|inf)))\)?,?[ \t]*\r?$"
)
"""A metric on a line of its own, below that of its step: ` averaged_loss = 2.32`."""
_NAN_CELL = lazy(rb"(?i)[-+]?nan$")
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
    tail = data.rfind(b"\n", 0, max(0, len(data) - TAIL)) + 1
    # As a rule the very last metrics tell that all is well: nothing before them need be read.
    if tail and (signs := list(_metrics(data[tail:], source))) and not signs[-1][1]:
        return None
    signs = list(_metrics(data, source)) or list(_table(data)) or list(_lone(data))
    first: int | None = None
    length = 0
    for at, is_nan in signs:
        if not is_nan:
            first, length = None, 0
            continue
        first = at if first is None else first
        length += 1
    if first is None or length < FEWEST:
        return None
    number = 1 if start == 0 else max(1, lines - data.count(b"\n") + data.endswith(b"\n"))
    line = number + data.count(b"\n", 0, first)
    begin = data.rfind(b"\n", 0, first) + 1
    segment = _segment(data, first)
    whole = data[begin : first + len(segment)]
    found = find_progress(whole, source, base=Anchor(start + begin, line), profile=clock.profile, clock=clock)
    return Event(
        signature="numerics.nan_to_the_end",
        span=Span(source, start + first, len(segment), line, first - begin + 1),
        text=segment.decode("utf-8", "backslashreplace"),
        who=locate(segment, len(segment), clock.profile).who,
        when=found[-1].sample.when if found else clock.event_time(None, start + begin, line),
    )


def _metrics(data: bytes, source: SourceId) -> Iterator[tuple[int, bool]]:
    """Where a training step's line with a metric begins, and whether the metric is NaN."""
    for sign in find_progress(data, source, base=Anchor(0, 1)):
        if sign.kind != TRAINING:
            continue
        segment = _segment(data, sign.sample.offset)
        if _METRIC.search(segment) is not None:
            yield sign.sample.offset, _NAN.search(segment) is not None


def _table(data: bytes) -> Iterator[tuple[int, bool]]:
    """The same for loggers that print a table of metrics for every so many steps: its row of the loss."""
    for found in _ROW.finditer(data):
        yield found.start(1), _NAN_CELL.match(found[2]) is not None


def _lone(data: bytes) -> Iterator[tuple[int, bool]]:
    """The same for programs that print each metric on a line of its own."""
    for found in _LONE.finditer(data):
        yield found.start(1), _NAN_CELL.match(found[2]) is not None


def _segment(data: bytes, begin: int) -> bytes:
    return data[begin : begin + LONGEST].split(b"\n", 1)[0].split(b"\r", 1)[0]
