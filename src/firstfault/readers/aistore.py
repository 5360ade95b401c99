"""Reads the logs of AIStore daemons: which stretch of time a source covers, and what was said in a wanted part of it.

A source is gone through once for its date marks and first lines, which is as fast as the disk gives it; records are only
taken apart around the time that is asked for. It does not judge, and opens nothing but the store.
"""

from __future__ import annotations

import calendar
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.model.evidence import Source, Span
from firstfault.model.storage import Beginning, Daemon, DaemonRole, LogPiece
from firstfault.readers.aistore_identity import SAMPLE, Identity, identify, targets_of
from firstfault.readers.aistore_lines import DAY, Head, Mark, heads, marks
from firstfault.readers.aistore_records import (
    Picked,
    Stretch,
    Timed,
    anchored_records,
    pick,
    timed_records,
    zones_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from firstfault.readers.aistore_records import Known
    from firstfault.readers.lines import TextStore

BLOCK = 256 << 10
"""Bytes read at a time: what is larger comes from fresh pages of the system each time, which costs more than the reading."""
SEAM = 256
"""Bytes on either side of a border between blocks that are looked at once more."""
BUILT = b" for linux/"
"""A word of every first line that a process writes: what a whole log is searched for, once instead of twice."""
WHOLE = 256 << 10
"""Bytes up to which a source is read whole, whatever the time."""
SPAN = 400
NEAR = 4096
OWN = 8 << 10
"""Bytes at each end of a process's own file that are taken apart for its first and last record."""
FEW = 64 << 10
"""Bytes up to which all records are gone through."""
MOST = 256 << 20
"""Bytes of one source that are taken apart at most, the last ones before the end of the wanted time."""
_STOPPED = (b"Terminated OK", b"Shutting down HTTP", b"Terminated with err", b"FATAL ERROR: ", b"Stopping [")


class Index(NamedTuple):
    """What one pass over a source tells."""

    source: Source
    size: int
    identity: Identity
    heads: list[Head]
    marks: list[Mark]
    beginnings: tuple[Beginning, ...]
    """The same first lines, as evidence."""
    mark_span: Span | None
    """The first date mark."""
    mark_text: str
    lines: list[int]
    """Newlines before each block of `BLOCK` bytes."""
    labels: tuple[str, ...]
    """Pods whose lines stand in it, where lines carry their pod; of them there can be several."""
    first: Timed | None
    """Records at its head."""
    last: Timed | None
    """Records at its end."""
    tail_base: int
    zones: tuple[int, ...]
    zone_text: str
    stopped: bool
    targets: int | None


def index_source(store: TextStore, source: Source, count: Callable[[bytes], int], assumed: float) -> Index:
    """Goes through a source once.

    Args:
        store: of all sources.
        source: which one.
        count: counts newlines.
        assumed: a moment whose day is taken where nothing states one.

    Raises:
        OSError: the source can no longer be read.
    """
    size = store.size(source.id)
    first_lines: dict[int, Head] = {}
    dates: dict[int, Mark] = {}
    lines = [0]
    rest = b""
    for at in range(0, size, BLOCK):
        block = store.read(source.id, at, BLOCK)
        lines.append(lines[-1] + count(block))
        seam = rest + block[:SEAM] if rest else b""
        for data, base in ((seam, at - len(rest)), (block, at)):
            if at == 0 or BUILT in data:
                first_lines.update((h.offset, h) for h in heads(data, base))
            dates.update((m.offset, m) for m in marks(data, base))
        rest = block[-SEAM:]
    head = store.read(source.id, 0, SAMPLE)
    tail_base = max(0, size - SAMPLE)
    tail = store.read(source.id, tail_base, SAMPLE)
    if tail_base:
        cut = tail.find(b"\n") + 1
        tail, tail_base = tail[cut:], tail_base + cut
    found_heads, found_marks = [first_lines[k] for k in sorted(first_lines)], [dates[k] for k in sorted(dates)]
    targets = targets_of(tail) or targets_of(head)
    identity = identify(source.path, head)
    if not identity.daemon.node:
        identity = identify(source.path, head + b"\n" + tail)
    day = _created(identity.created, found_heads, found_marks, source, assumed)
    if found_heads and found_heads[0].offset < NEAR:
        # It begins as one process's own file: one speaker, of whom the first and the last record tell all that is asked.
        head, (tail, tail_base) = head[:OWN], _last_lines(tail, tail_base)
    at_head = timed_records(Stretch(source.id, head, 0, 0, day), assumed)
    anchor = _anchor(found_heads, found_marks, tail_base, day)
    at_tail = timed_records(Stretch(source.id, tail, tail_base, 0, anchor), assumed)
    labels = tuple(sorted({t.label for t in (*at_head, *at_tail)}))
    zones, text = zones_of(found_marks)
    mark = found_marks[0] if found_marks else None
    mark_span, mark_text = (None, "") if mark is None else _line_at(store, source, lines, mark.offset)
    runtime = next((t.zone for t in (*at_tail, *at_head) if t.zone is not None), None)
    if runtime is not None:
        zones, text = (runtime,), text or "the container runtime's own stamps"
    return Index(
        source=source,
        size=size,
        identity=identity,
        heads=found_heads,
        marks=found_marks,
        beginnings=tuple(Beginning(h.opening, h.at, *_line_at(store, source, lines, h.offset)) for h in found_heads),
        mark_span=mark_span,
        mark_text=mark_text,
        lines=lines,
        labels=labels,
        first=at_head[0] if at_head else None,
        last=max(at_tail, key=lambda t: t.times[-1], default=None),
        tail_base=tail_base,
        zones=zones,
        zone_text=text,
        stopped=any(word in tail[-NEAR:] for word in _STOPPED),
        targets=targets,
    )


def _last_lines(tail: bytes, base: int) -> tuple[bytes, int]:
    """The last whole lines of a tail, with the offset of the first."""
    if len(tail) <= OWN:
        return tail, base
    cut = tail.find(b"\n", len(tail) - OWN) + 1 or len(tail) - OWN
    return tail[cut:], base + cut


def _line_at(store: TextStore, source: Source, lines: list[int], offset: int) -> tuple[Span, str]:
    """The line that holds an offset; from the offset on, where the line begins far before it."""
    low = max(0, offset - NEAR)
    newline = store.read(source.id, low, offset - low).rfind(b"\n")
    begin = low + newline + 1 if newline >= 0 or low == 0 else offset
    text = store.read(source.id, begin, SPAN).split(b"\n", 1)[0].rstrip(b"\r")
    block = begin // BLOCK
    number = lines[block] + store.read(source.id, block * BLOCK, begin - block * BLOCK).count(b"\n") + 1
    return Span(source.id, begin, max(1, len(text)), number, 1), text.decode("utf-8", "backslashreplace")


def _created(
    text: str, found_heads: list[Head], found_marks: list[Mark], source: Source, assumed: float
) -> float | None:
    """The moment in a file's name (`0212-011002`, without a year), where no line of the file states a date."""
    if found_heads or found_marks or len(text) != len("0212-011002"):
        return None
    near = source.modified if source.modified is not None and source.modified > DAY else assumed
    month, day = int(text[:2]), int(text[2:4])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    middle = _year(near)
    seconds = int(text[5:7]) * 3600 + int(text[7:9]) * 60 + int(text[9:11])
    years = [y for y in (middle - 1, middle, middle + 1) if day <= calendar.monthrange(y, month)[1]]
    moments = [calendar.timegm((y, month, day, 0, 0, 0)) + float(seconds) for y in years]
    return min(moments, key=lambda m: abs(m - near), default=None)


def _year(seconds: float) -> int:
    days = int(seconds // DAY)
    return 1970 + int(days / 365.2425)


def _anchor(found_heads: list[Head], found_marks: list[Mark], offset: int, day: float | None) -> float | None:
    """The last moment stated before an offset."""
    known = [x for x in (_before(found_heads, offset), _before(found_marks, offset)) if x is not None]
    return max(known, key=lambda x: x.offset).at if known else day


def _before(found: list[Head] | list[Mark], offset: int) -> Head | Mark | None:
    at = bisect_right([x.offset for x in found], offset)
    return found[at - 1] if at else None


def begins(index: Index) -> float | None:
    """First moment of a source on the daemon's wall clock."""
    if index.heads and index.heads[0].offset < 4096:
        return index.heads[0].at
    return None if index.first is None else index.first.times[0]


def ends(index: Index) -> float | None:
    """Last moment of a source."""
    return None if index.last is None else index.last.times[-1]


def _segments(index: Index, low: float, high: float) -> list[tuple[int, int]]:
    """Stretches of a source that can hold records between two moments, by its date marks."""
    if index.size <= WHOLE or len(index.labels) > 1:
        return [(0, index.size)]
    known: list[tuple[int, float]] = sorted(
        [(h.offset, h.at) for h in index.heads] + [(m.offset, m.at) for m in index.marks]
    )
    if not known:
        return [(max(0, index.size - MOST), index.size)]
    edges: list[tuple[int, float | None]] = [(0, None), *known, (index.size, ends(index))]
    chosen: list[tuple[int, int]] = []
    for (start, a), (end, b) in pairwise(edges):
        # A moment that falls is another pod's, or another file's, part: nothing is known of its time.
        outside = (b is not None and b < low) or (a is not None and a - 60 > high)
        if start < end and (not outside or (a is not None and b is not None and b < a)):
            if chosen and chosen[-1][1] == start:
                chosen[-1] = (chosen[-1][0], end)
            else:
                chosen.append((start, end))
    return chosen


def read_piece(
    store: TextStore,
    index: Index,
    within: tuple[float, float] | None,
    search: Callable[[bytes], Iterable[Known]] | None,
    assumed: float,
) -> list[LogPiece]:
    """What the daemons of one source said within a time.

    Args:
        store: of all sources.
        index: of the source.
        within: first and last moment on the daemon's wall clock; None reads no record and tells only what the index knows.
        search: finds records of a known meaning; None where only counters are wanted.
        assumed: a moment whose day is taken where nothing states one.

    Returns:
        A piece for each daemon that speaks in it.
    """
    pieces: dict[str, LogPiece] = {}
    zone = index.zones[0] if len(index.zones) == 1 else None
    if within is None:
        return [_bare(index, "", zone)]
    for start, end in _segments(index, *within):
        begin, line, data = _whole_lines(store, index, start, end)
        anchor = _anchor(index.heads, index.marks, begin, _created_of(index, assumed))
        stretch = Stretch(index.source.id, data, begin, line, anchor)
        known_here = [] if search is None else list(search(data))
        for timed in _timed(index, stretch, known_here, assumed):
            known = pieces.get(timed.label) or _bare(index, timed.label, zone)
            own = timed.zone if timed.zone is not None else known.zone
            found = None if search is None else known_here
            picked = pick(stretch, timed, within, found, daemon=known.daemon, zone=own)
            pieces[timed.label] = _joined(known, timed, picked, own, within, data=data)
    return [pieces[label] for label in sorted(pieces)] or [_bare(index, "", zone)]


def _timed(index: Index, stretch: Stretch, known: list[Known], assumed: float) -> list[Timed]:
    """The records of a stretch with their times: those that matter where date marks stand before them, else all."""
    anchors = sorted([(h.offset, h.at) for h in index.heads] + [(m.offset, m.at) for m in index.marks])
    bare = index.labels == ("",) and not (index.last is not None and index.last.zone is not None)
    if len(stretch.data) > min(WHOLE, FEW) and bare and anchors and anchors[0][0] <= stretch.base + SAMPLE:
        return [anchored_records(stretch, known, anchors)]
    return timed_records(stretch, assumed)


def _created_of(index: Index, assumed: float) -> float | None:
    return _created(index.identity.created, index.heads, index.marks, index.source, assumed)


def _whole_lines(store: TextStore, index: Index, start: int, end: int) -> tuple[int, int, bytes]:
    """Bytes from the line that holds an offset, with the newlines before them."""
    start = max(start, end - MOST)
    block = start // BLOCK
    before = store.read(index.source.id, block * BLOCK, start - block * BLOCK)
    back = before.rfind(b"\n") + 1 if before else 0
    begin = block * BLOCK + back if back else start
    line = index.lines[block] + before[:back].count(b"\n") if back else index.lines[block] + before.count(b"\n")
    data = store.read(index.source.id, begin, end - begin + 4096)
    cut = data.find(b"\n", end - begin)
    return begin, line, data if cut < 0 else data[: cut + 1]


def _bare(index: Index, label: str, zone: int | None) -> LogPiece:
    """A piece with what the index knows and no record."""
    identity, several = index.identity, len(index.labels) > 1
    if label:
        own = identify(label, b"", label) if several else identity
        role = own.daemon.role if own.daemon.role is not DaemonRole.UNKNOWN else identity.daemon.role
        node = "" if several else identity.daemon.node
        identity = Identity(daemon=Daemon(role, node, label), version=identity.version)
    return LogPiece(
        source=index.source.id,
        daemon=identity.daemon,
        version=identity.version,
        zone=zone,
        zones=index.zones,
        zone_text=index.zone_text,
        zone_span=index.mark_span,
        zone_line=index.mark_text,
        dated=index.last is None or index.last.dated,
        beginnings=() if several else index.beginnings,
        begins=None if several else begins(index),
        ends=None if several else ends(index),
        errors_only=identity.errors_only,
        stopped=index.stopped and not several,
    )


def _joined(
    known: LogPiece, timed: Timed, picked: Picked, zone: int | None, within: tuple[float, float], *, data: bytes
) -> LogPiece:
    """A piece with what was taken from one more stretch; a pod whose lines say who it is gets its node id."""
    daemon = known.daemon
    if timed.label and not daemon.node:
        own = b"\n".join(data[s : s + 300].split(b"\n", 1)[0] for s in timed.starts if data[s + 18 : s + 19] != b"{")
        found = identify(timed.label, own, timed.label)
        daemon = Daemon(found.daemon.role, found.daemon.node, daemon.name)
    first, last = min(timed.times), max(timed.times)
    return replace(
        known,
        daemon=daemon,
        zone=zone,
        begins=first if known.begins is None else min(known.begins, first),
        ends=last if known.ends is None else max(known.ends, last),
        read_from=within[0],
        read_to=within[1],
        lines=(*known.lines, *picked.lines),
        stats=(*known.stats, *picked.stats),
        disks=(*known.disks, *picked.disks),
    )
