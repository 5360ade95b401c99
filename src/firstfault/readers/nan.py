"""Whether a source's training metrics are NaN to the end, and from which line on. Reads step lines; says nothing of why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import Event, Span
from firstfault.model.lazy import lazy
from firstfault.readers.identity import locate
from firstfault.readers.progress import Anchor, find_progress
from firstfault.readers.steplines import TRAINING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
NAN, INF, FINE = b"nan", b"inf", b""
_METRIC = lazy(rb"(?i)(?:loss|grad[_ ]?norm)['\"]?\s{0,3}[:=]?\s{0,8}\(?['\"]?[-+]?(?:\d|nan|inf)")
_ROW = lazy(
    rb"(?m)^.{0,80}?(\|[ \t]{1,8}(?:[\w/]{1,30}/)?(?:train_)?(?:total_)?loss[ \t]{0,40}\|[ \t]{0,8}([-+\w.]{1,20})[ \t]{0,20}\|)"
)
"""A row such as `| loss          | 0.0507   |`."""
_LONE = lazy(
    rb"(?mi)^[ \t>*\"'-]{0,12}((?!val|eval|test|dev)[a-z_/ ]{0,24}loss(?:es)?\"?[ \t]{0,8}[:=][ \t]{0,8}(?:tensor\()?([-+]?(?:[\d.]+(?:e[-+]?\d+)?|nan|inf)))\)?,?[ \t]*\r?$"
)
"""A metric on a line of its own, below that of its step: ` averaged_loss = 2.32`."""
_NAN_CELL = lazy(rb"(?i)[-+]?nan$")
_INF = lazy(rb"(?i)loss['\"]?\s{0,3}[:=]?\s{0,8}\(?['\"]?[-+]?inf(?:inity)?\b")
"""A gradient norm of Inf is no such sign: it is what a step that half precision skips prints."""
_ANY_INF = lazy(rb"inf(?:inity)?\b")
_STOPPED = lazy(
    rb"(?i)\b(?:non-?finite|nans?|inf(?:inite|inity)?|diverge[ds]?)\b[^\n]{0,120}?\b(?:stop(?:s|ped|ping)?|abort(?:s|ed|ing)?|exit(?:s|ed|ing)?|terminat(?:es|ed|ing)|giv(?:es|ing) up)\b|"
    rb"\b(?:stop(?:s|ped|ping)?|abort(?:s|ed|ing)?|terminat(?:es|ed|ing))\b[^\n]{0,60}?\b(?:non-?finite|nans?|infinite|diverge[ds]?)\b"
)
"""`WARNING non-finite loss for 2 consecutive logs, stopping early`: the program's own word that it ended for that."""
_NAN = lazy(rb"(?i)(?:loss|grad[_ ]?norm)['\"]?\s{0,3}[:=]?\s{0,8}\(?['\"]?nan\b")


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
    if not any(word in data for word in (b"nan", b"NaN", b"NAN")) and _ANY_INF.search(data) is None:
        return None
    tail = data.rfind(b"\n", 0, max(0, len(data) - TAIL)) + 1
    # As a rule the very last metrics tell that all is well: nothing before them need be read.
    if tail and (signs := list(_metrics(data[tail:], source))) and signs[-1][1] == FINE:
        return None
    signs = list(_metrics(data, source)) or list(_table(data)) or list(_lone(data))
    first = _lasting(data, signs)
    if first is None:
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


def _lasting(data: bytes, signs: Sequence[tuple[int, bytes]]) -> int | None:
    """Where a run of metrics that are no number begins that lasts to the end; None where there is none, or too short a one.

    One shorter than `FEWEST` counts where the program says behind it that it stopped for that.
    """
    first: int | None = None
    length, nans, last = 0, 0, 0
    for at, value in signs:
        if value == FINE:
            first, length, nans = None, 0, 0
            continue
        first = at if first is None else first
        length, nans, last = length + 1, nans + (value == NAN), at
    if first is None:
        return None
    stopped = _STOPPED.search(data, last + len(_segment(data, last))) is not None
    return first if stopped or (nans and length >= FEWEST) else None


def _metrics(data: bytes, source: SourceId) -> Iterator[tuple[int, bytes]]:
    """Where a training step's line with a metric begins, and whether the metric is `NAN`, `INF` or `FINE`."""
    for sign in find_progress(data, source, base=Anchor(0, 1)):
        if sign.kind != TRAINING:
            continue
        segment = _segment(data, sign.sample.offset)
        if _METRIC.search(segment) is not None:
            nan = _NAN.search(segment) is not None
            yield sign.sample.offset, NAN if nan else INF if _INF.search(segment) is not None else FINE


def _table(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The same for loggers that print a table of metrics for every so many steps: its row of the loss."""
    for found in _ROW.finditer(data):
        yield found.start(1), NAN if _NAN_CELL.match(found[2]) is not None else FINE


def _lone(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The same for programs that print each metric on a line of its own."""
    for found in _LONE.finditer(data):
        yield found.start(1), NAN if _NAN_CELL.match(found[2]) is not None else FINE


def _segment(data: bytes, begin: int) -> bytes:
    return data[begin : begin + LONGEST].split(b"\n", 1)[0].split(b"\r", 1)[0]
