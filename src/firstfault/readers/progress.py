"""Looks through a source for lines that prove that a step was done, and says who did it and when; never whether that is enough.

What such a line looks like is the matter of `firstfault.readers.steplines`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, structs

from firstfault.model.evidence import ProgressSample, When, Who
from firstfault.model.lazy import lazy
from firstfault.readers.identity import locate
from firstfault.readers.steplines import EVALUATION, KERAS_BAR, TRAINING, TRIGGERS, of_run, read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

MOST_BYTES = 4 * 1024 * 1024
"""How far from an anchor progress is looked for, each way."""
FIRST_CHUNK = 16 * 1024
CHUNK = 256 * 1024
LONGEST_SEGMENT = 4096


class Progress(Struct, frozen=True):
    """One sign of progress."""

    kind: str
    """training, preparation or evaluation."""
    sample: ProgressSample
    epoch: int | None = None
    """As printed; may count from 0 or 1."""
    what: str = ""
    """Description of the bar, or the shape of the line."""


class Anchor(NamedTuple):
    """A place from which lines are counted."""

    offset: int
    """Byte offset; the end of the source is one too."""
    line: int
    """Number of the line that holds it."""


START = Anchor(0, 1)
"""Where every source begins."""


def find_progress(
    data: bytes,
    source: SourceId,
    *,
    base: Anchor = START,
    profile: SourceProfile | None = None,
    clock: SourceClock | None = None,
) -> list[Progress]:
    """Every sign of progress in a stretch of a source, by offset; the last one of each line's bar redrawn by carriage returns too.

    Args:
        data: the bytes.
        source: where they come from.
        base: offset and line number of their first byte.
        profile: of the source; without it no rank is told.
        clock: of the source; without it no time is told.
    """
    return list(_signs(data, source, base, profile, clock))


def _signs(
    data: bytes, source: SourceId, base: Anchor, profile: SourceProfile | None, clock: SourceClock | None
) -> Iterator[Progress]:
    line, counted = base.line, 0
    for start, end in _candidates(data):
        segment = data[start:end]
        shape = read_progress(segment)
        if shape is None:
            continue
        if shape.what == KERAS_BAR:
            shape = of_run(data, start, shape)
        line += data.count(b"\n", counted, start)
        counted = start
        who, when = _who_when(data, start, segment, line, base, profile, clock)
        sample = ProgressSample(
            source,
            line,
            base.offset + start,
            shape[1],
            shape[2],
            who.rank,
            when,
            who.host,
            who.pid,
            who.local_rank,
        )
        yield Progress(shape[0], sample, shape[3], shape[4])


def _last_sign(data: bytes, source: SourceId, base: Anchor, kind: str) -> Progress | None:
    """The last sign of one kind in a stretch, without rank and time; lines before it are not read."""
    end = len(data)
    while end > 0:
        # Some whole lines at a time: as a rule one of the very last is a sign.
        begin = data.rfind(b"\n", 0, max(0, end - _LOOK_BACK)) + 1
        for left, right in reversed(list(_candidates(data[begin:end]))):
            start = begin + left
            shape = read_progress(data[start : begin + right])
            if shape is not None and shape.kind == kind:
                shape = of_run(data, start, shape) if shape.what == KERAS_BAR else shape
                line = base.line + data.count(b"\n", 0, start)
                sample = ProgressSample(source, line, base.offset + start, shape.step, shape.total, None, When())
                return Progress(kind, sample, shape.epoch, shape.what)
        end = begin
    return None


_LOOK_BACK = 1024
_NOBODY = Who()


def _candidates(data: bytes) -> Iterator[tuple[int, int]]:
    r"""Start and end of the lines (or `\r` parts) that hold a trigger, ascending."""
    seen = 0
    ahead = [(at, text) for text in TRIGGERS if (at := data.find(text)) >= 0]
    while ahead:
        at = min(ahead)[0]
        low = max(seen, at - LONGEST_SEGMENT)
        start = max(data.rfind(b"\n", low, at) + 1, data.rfind(b"\r", low, at) + 1, low)
        seen = max(_segment_end(data, at), at + 1)
        yield start, seen
        ahead = [(next_at, text) for at, text in ahead if (next_at := at if at >= seen else data.find(text, seen)) >= 0]


_END = lazy(rb"[\r\n]")


def _segment_end(data: bytes, at: int) -> int:
    """Where the line or its part ends, at most `LONGEST_SEGMENT` on."""
    most = min(len(data), at + LONGEST_SEGMENT)
    found = _END.search(data, at, most)
    return most if found is None else found.start()


def _who_when(  # noqa: PLR0917
    data: bytes,
    start: int,
    segment: bytes,
    line: int,
    base: Anchor,
    profile: SourceProfile | None,
    clock: SourceClock | None,
) -> tuple[Who, When]:
    if profile is None:
        return _NOBODY, When()
    place = locate(segment, 0, profile)
    who = place.who
    begin = data.rfind(b"\n", 0, start) + 1
    if who.rank is None and begin < start:
        who = locate(data[begin : min(start, begin + 200)].split(b"\r", 1)[0], 0, profile).who
    return who, When() if clock is None else clock.event_time(place.stamp, base.offset + begin, line)


def progress_before(
    store: TextStore,
    source: SourceId,
    anchor: Anchor,
    profile: SourceProfile,
    *,
    kind: str = TRAINING,
    limit: int = MOST_BYTES,
    clock: SourceClock | None = None,
) -> Progress | None:
    """The last sign of progress before a line; None where the `limit` bytes before it hold none."""
    for data, base in _backwards(store, source, anchor, limit):
        found = _last_sign(data, source, base, kind)
        if found is not None:
            return _told(found, data, base, profile, clock)
    return None


def progress_after(
    store: TextStore,
    source: SourceId,
    anchor: Anchor,
    profile: SourceProfile,
    *,
    kind: str = TRAINING,
    most: int = 1,
    limit: int = MOST_BYTES,
) -> list[Progress]:
    r"""The first signs of progress after the line (or `\r` part) that holds an anchor, at most `most`, within `limit` bytes."""
    found: list[Progress] = []
    skip = store.read(source, anchor.offset, LONGEST_SEGMENT + 1)
    cut = _segment_end(skip, 0) + 1
    at, line, rest = anchor.offset + cut, anchor.line + (skip[cut - 1 : cut] == b"\n"), b""
    end = anchor.offset + limit
    step = FIRST_CHUNK
    while at < end and len(found) < most:
        want = min(step, end - at)
        block = store.read(source, at, want)
        if not block:
            break
        step = min(CHUNK, step * 4)
        data = rest + block
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 if len(block) == want else len(data)
        cut = cut or len(data)
        base = Anchor(at - len(rest), line)
        signs = (p for p in _signs(data[:cut], source, base, None, None) if p.kind == kind)
        found += [_told(p, data, base, profile, None) for p in islice(signs, most - len(found))]
        line += data.count(b"\n", 0, cut)
        rest = data[cut:]
        at += len(block)
    return found


def last_progress(
    store: TextStore,
    source: SourceId,
    lines: int,
    profile: SourceProfile,
    *,
    kind: str = TRAINING,
    limit: int = MOST_BYTES,
) -> Progress | None:
    """The last sign of progress of a source.

    Args:
        store: of the sources.
        source: which one.
        lines: number of its lines, an unterminated last one counted.
        profile: of the source.
        kind: of progress.
        limit: bytes before the end that are looked at.
    """
    size = store.size(source)
    if size == 0:
        return None
    ended = store.read(source, size - 1, 1) == b"\n"
    return progress_before(store, source, Anchor(size, lines + 1 if ended else lines), profile, kind=kind, limit=limit)


def _backwards(store: TextStore, source: SourceId, anchor: Anchor, limit: int) -> Iterator[tuple[bytes, Anchor]]:
    """Stretches of whole lines (or bar segments) before an anchor, the nearest first."""
    end, line = anchor
    first = max(0, anchor.offset - limit)
    step = FIRST_CHUNK
    while end > first:
        start = max(first, end - step)
        step = min(CHUNK, step * 4)
        data = store.read(source, start, end - start)
        if not data:
            return
        if start > 0:
            cut = max(data.find(b"\n"), data.find(b"\r")) if b"\n" not in data else data.find(b"\n")
            if 0 <= cut < len(data) - 1:
                start, data = start + cut + 1, data[cut + 1 :]
        line -= data.count(b"\n")
        yield data, Anchor(start, line)
        end = start


def _told(found: Progress, data: bytes, base: Anchor, profile: SourceProfile, clock: SourceClock | None) -> Progress:
    """The same sign with its rank and time."""
    start = found.sample.offset - base.offset
    segment = data[start : _segment_end(data, start)]
    who, when = _who_when(data, start, segment, found.sample.line, base, profile, clock)
    old = found.sample
    sample = ProgressSample(
        old.source,
        old.line,
        old.offset,
        old.step,
        old.total,
        who.rank,
        when,
        who.host,
        who.pid,
        who.local_rank,
    )
    return Progress(found.kind, sample, found.epoch, found.what)


def filled(sample: ProgressSample) -> bool:
    """Whether a sample says that its planned number of steps was reached."""
    return sample.step is not None and sample.total is not None and sample.step >= sample.total > 1


def not_the_last(steps: list[ProgressSample], sign: Progress | None) -> list[ProgressSample]:
    """Steps without the promise of a full bar behind which a bar of an evaluation stands open: the run was not over there.

    Args:
        steps: samples of training, in order.
        sign: the last sign of any progress, or of an evaluation.
    """
    if not steps or sign is None or sign.kind != EVALUATION or sign.sample.offset <= steps[-1].offset:
        return steps
    bar = sign.sample
    if bar.step is None or bar.total is None or filled(bar):
        return steps
    end = len(steps)
    while end and filled(steps[end - 1]):
        end -= 1
    return [*steps[:end], *(structs.replace(s, total=None) for s in steps[end:])]
