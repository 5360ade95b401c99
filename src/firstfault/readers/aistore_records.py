"""Records of one stretch of a storage daemon's log with their times: rebuilds dates, splits speakers, picks counters.

It reads bytes that are handed in and opens nothing. Dates come from first lines, hourly marks and the container
runtime's stamps; a time of day that falls by more than half a day is the next day.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import Event, SourceId, Span, When, Who
from firstfault.model.storage import DaemonLine, DiskLine, StatsLine
from firstfault.model.zones import zone_name
from firstfault.readers.aistore_lines import (
    DAY,
    MOST_PREFIX,
    PREFIX,
    QUARTER,
    RECORD,
    Prefix,
    busy_disks,
    counters,
    heads,
    marks,
    newline_counter,
    offsets_of,
    read_prefix,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from firstfault.model.storage import Daemon
    from firstfault.readers.aistore_lines import Head, Mark

MOST_TEXT = 4096
SPAN = 400
STAMP = 18
"""Bytes of severity, time and the blank behind it."""
NAME = 40
"""Bytes of the name of a Go file that can stand before a date mark's text."""
BACK = 64 * 1024
FLOOD = 400
"""Lines of one signature that are kept from each end of a stretch."""


class Known(NamedTuple):
    """A record of a known meaning."""

    start: int
    end: int
    signature: str
    fields: dict[str, str]


class Stretch(NamedTuple):
    """Some bytes of a source, from the start of a line."""

    source: SourceId
    data: bytes
    base: int
    """Offset of the first byte in the source."""
    line: int
    """Newlines before it."""
    anchor: float | None
    """A moment on the daemon's wall clock at or before the first record; None where none is known."""


class Timed(NamedTuple):
    """The records of one speaker in one stretch."""

    label: str
    starts: list[int]
    times: list[float]
    zone: int | None
    """Seconds east of UTC, by the container runtime's stamps."""
    dated: bool


def timed_records(stretch: Stretch, assumed: float) -> list[Timed]:
    """Records with their times, by speaker.

    Args:
        stretch: the bytes.
        assumed: a moment whose day is taken where nothing states one.
    """
    data = stretch.data
    speakers: dict[str, _Speaker] = {}
    current = _Speaker("", None)
    first_marks = {m.offset: m for m in marks(data)}
    pending: list[Head] = heads(data)
    pending.reverse()
    for found in RECORD.finditer(data):
        start = found.start()
        prefix = _prefix_at(data, start)
        if prefix is not None and (prefix.label != current.label or not speakers):
            known = speakers.get(prefix.label)
            if known is None:
                known = speakers[prefix.label] = _Speaker(prefix.label, None if speakers else stretch.anchor)
            current = known
        elif not speakers:
            speakers[""] = current = _Speaker("", stretch.anchor)
        while pending and pending[-1].offset <= start:
            current.settle(pending.pop().at)
        tod = _time_of_day(found)
        current.add(start, tod, None if prefix is None else prefix.utc)
        mark = _mark_in(first_marks, data, found.end()) if first_marks else None
        if mark is not None:
            current.settle_last(mark.at)
    return [s.done(assumed) for s in speakers.values() if s.starts]


def anchored_records(stretch: Stretch, known: Iterable[Known], anchors: Sequence[tuple[int, float]]) -> Timed:
    """Only the records that matter of one speaker's stretch, dated by the nearest date mark before each.

    Nine tenths of a busy daemon's log are lines of its disks; going through all of them costs more than everything else.

    Args:
        stretch: the bytes.
        known: records of a known meaning in them.
        anchors: offsets in the source and moments of its date marks and first lines, the first before the stretch's records.
    """
    data = stretch.data
    wanted = {start for start, _, _, _ in busy_disks(data)}
    at = data.find(b" {")
    while at >= 0:
        wanted.add(at - STAMP + 1)
        at = data.find(b" {", at + 1)
    for one in known:
        wanted.add(one.start if RECORD.match(data, one.start) else _record_before(data, one.start))
    offsets = [offset for offset, _ in anchors]
    starts, times = [], []
    for start in sorted(wanted):
        found = RECORD.match(data, start) if start >= 0 else None
        if found is None:
            continue
        anchor = anchors[max(0, bisect_right(offsets, stretch.base + start + STAMP + NAME) - 1)][1]
        tod = _time_of_day(found)
        starts.append(start)
        times.append(_day_near(anchor, tod) + tod)
    return Timed("", starts, times, None, dated=True)


def _time_of_day(found: re.Match[bytes]) -> float:
    """Seconds since midnight of a record."""
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]) + int(found[4]) / 1e6


def _day_near(moment: float, tod: float) -> float:
    """The midnight from which a time of day is nearest to a moment."""
    day = moment - moment % DAY
    if day + tod < moment - DAY / 2:
        return day + DAY
    return day - DAY if day + tod > moment + DAY / 2 else day


def _record_before(data: bytes, start: int) -> int:
    """Start of the last record before a line that has no time of its own; -1 where there is none near."""
    low = max(0, start - BACK)
    last = -1
    for found in RECORD.finditer(data, low, start):
        last = found.start()
    return last


def _prefix_at(data: bytes, start: int) -> Prefix | None:
    """What stands before a record; None for a record that is glued to another."""
    if start == 0 or data[start - 1] == 0x0A:
        return Prefix("", None)
    line = data.rfind(b"\n", 0, start) + 1
    return read_prefix(data[line:start])


def _mark_in(known: dict[int, Mark], data: bytes, at: int) -> Mark | None:
    """The date mark that a record is, whether or not the name of a Go file stands before it."""
    if at in known:
        return known[at]
    blank = data.find(b" ", at, at + 40)
    return known.get(blank + 1) if blank >= 0 else None


class _Speaker:
    """Records of one speaker while they are gone through; dates are settled at the end."""

    def __init__(self, label: str, anchor: float | None) -> None:
        self.label = label
        self.starts: list[int] = []
        self.tods: list[float] = []
        self.days: list[float | None] = []
        """Day (seconds at its midnight) of each record; None before the first statement."""
        self._last = anchor
        self._zones: Counter[int] = Counter()

    def settle(self, at: float) -> None:
        """A first line states the moment: the next record is not before it."""
        self._last = at

    def add(self, start: int, tod: float, utc: float | None) -> None:
        day: float | None = None
        if utc is not None:
            shift = round((tod - utc % DAY) / QUARTER) * QUARTER
            shift = (shift + 12 * 3600) % DAY - 12 * 3600
            self._zones[shift] += 1
            day = utc + shift - (utc + shift) % DAY
        elif self._last is not None:
            day = _day_near(self._last, tod)
            if not self.starts:
                # Only behind another record is it a step back over midnight: the clock was set, or two changed places.
                day = max(day, self._last - self._last % DAY)
        self.starts.append(start)
        self.tods.append(tod)
        self.days.append(day)
        if day is not None:
            self._last = day + tod

    def settle_last(self, at: float) -> None:
        """The last record states its own date."""
        tod = self.tods[-1]
        self.days[-1] = day = _day_near(at, tod)
        self._last = day + tod

    def done(self, assumed: float) -> Timed:
        dated = any(d is not None for d in self.days)
        if not dated:
            self._roll(assumed)
        self._fill_back()
        times = [(d or 0.0) + t for d, t in zip(self.days, self.tods, strict=True)]
        zone = max(self._zones, key=lambda z: (self._zones[z], z), default=None)
        return Timed(self.label, self.starts, times, zone, dated)

    def _roll(self, assumed: float) -> None:
        """Days from an assumed one for the last record."""
        self.days[-1] = assumed - assumed % DAY

    def _fill_back(self) -> None:
        """Days of the records before the first statement, backwards from it."""
        first = next((i for i, d in enumerate(self.days) if d is not None), None)
        if first is None:
            return
        day = self.days[first] or 0.0
        for i in range(first - 1, -1, -1):
            if self.tods[i] > self.tods[i + 1] + DAY / 2:
                day -= DAY
            self.days[i] = day


class Picked(NamedTuple):
    """What was taken from one speaker's records."""

    lines: list[DaemonLine]
    stats: list[StatsLine]
    disks: list[DiskLine]


def pick(
    stretch: Stretch,
    timed: Timed,
    within: tuple[float, float],
    found: Iterable[Known] | None,
    *,
    daemon: Daemon,
    zone: int | None,
) -> Picked:
    """Known lines, counters and busy disks of one speaker within a time.

    Args:
        stretch: the bytes.
        timed: their records.
        within: first and last moment, on the daemon's wall clock.
        found: records of a known meaning; None where only counters are wanted.
        daemon: who speaks.
        zone: of its clock, where known.
    """
    place = _Places(stretch)
    data, low, high = stretch.data, *within
    stats = []
    first = _first_at(timed.times, low)
    for i in range(first, len(timed.starts)):
        if not low <= timed.times[i] <= high:
            continue
        at = timed.starts[i] + STAMP
        if data[at : at + 1] == b"{":
            read = counters(data, at)
            if read is not None:
                span = place.span(timed.starts[i], read[1])
                text = data[timed.starts[i] : read[1]].decode("ascii", "backslashreplace")
                stats.append(StatsLine(timed.times[i], read[0], span, text))
    if found is None:
        return Picked([], stats, [])
    disks = []
    own = set(timed.starts) if timed.label else None
    for start, end, disk, util in busy_disks(data):
        moment = timed.times[max(0, bisect_right(timed.starts, start) - 1)]
        if low <= moment <= high and (own is None or start in own):
            text = data[start:end].decode("ascii", "backslashreplace")
            disks.append(DiskLine(moment, disk, util, place.span(start, end), text))
    lines = _known(place, timed, within, found, daemon=daemon, zone=zone)
    return Picked(lines, stats, disks)


def _first_at(times: Sequence[float], low: float) -> int:
    """Where to begin: records are in order of time but for clock steps, so a little before the first that is late enough."""
    return max(0, bisect_right(times, low) - 200) if times and times[0] <= times[-1] else 0


def _known(
    place: _Places,
    timed: Timed,
    within: tuple[float, float],
    found: Iterable[Known],
    *,
    daemon: Daemon,
    zone: int | None,
) -> list[DaemonLine]:
    own = frozenset(timed.starts) if timed.label else None
    front: dict[str, list[tuple[Known, float]]] = {}
    back: dict[str, deque[tuple[Known, float]]] = {}
    total: Counter[str] = Counter()
    for known in found:
        index = bisect_right(timed.starts, known.start) - 1
        if own is not None and not _says(timed.label, own, place.data, known):
            continue
        at = timed.times[max(index, 0)]
        if RECORD.match(place.data, known.start) is None:
            at = _runtime_time(place.data, known, timed, at)
        if not within[0] <= at <= within[1]:
            continue
        total[known.signature] += 1
        kept = front.setdefault(known.signature, [])
        if len(kept) < FLOOD:
            kept.append((known, at))
        else:
            back.setdefault(known.signature, deque(maxlen=FLOOD)).append((known, at))
    both = [pair for part in (*front.values(), *back.values()) for pair in part]
    both.sort(key=lambda pair: (pair[0].start, pair[0].signature))
    lines = []
    for one, at in both:
        when = daemon_time(at, zone, dated=timed.dated)
        lines.append(DaemonLine(at, place.event(one, daemon, when, total[one.signature])))
    return lines


def _runtime_time(data: bytes, known: Known, timed: Timed, at: float) -> float:
    """The time of a line without one of its own: the container runtime's, else that of the record before."""
    found = PREFIX.match(data, known.start, known.end)
    prefix = None if found is None else read_prefix(found[0])
    return at if prefix is None or prefix.utc is None else prefix.utc + (timed.zone or 0)


def _says(label: str, own: frozenset[int], data: bytes, known: Known) -> bool:
    """Whether a known record is one of a speaker; lines without a time, as a crash prints, carry the speaker's name too."""
    if RECORD.match(data, known.start) is not None:
        return known.start in own
    return label.encode() in data[known.start : min(known.end, known.start + MOST_PREFIX)]


class _Places:
    """Turns positions of one stretch into spans."""

    def __init__(self, stretch: Stretch) -> None:
        self.data = stretch.data
        self._stretch = stretch
        self._count = newline_counter(stretch.data)

    def span(self, start: int, end: int) -> Span:
        line_start = self.data.rfind(b"\n", 0, start) + 1
        s = self._stretch
        line = s.line + self._count(start) + 1
        return Span(s.source, s.base + start, max(1, min(end - start, SPAN)), line, start - line_start + 1)

    def event(self, known: Known, daemon: Daemon, when: When, count: int) -> Event:
        raw = self.data[known.start : min(known.end, known.start + MOST_TEXT)]
        return Event(
            signature=known.signature,
            span=self.span(known.start, known.end),
            text=raw.decode("utf-8", "backslashreplace").rstrip("\r\n"),
            who=Who(host=daemon.name or None, label=daemon.full),
            when=when,
            count=count,
            fields=known.fields,
        )


def daemon_time(at: float, zone: int | None, *, dated: bool) -> When:
    """A moment of a daemon's wall clock as an interval on its clock, or on that of UTC where its zone is known."""
    if zone is None or not dated:
        return When(at, at + 1e-6, None, dated, dated)
    return When(at - zone, at - zone + 1e-6, zone_name(zone), dated, dated)


def zones_of(found: Iterable[Mark]) -> tuple[tuple[int, ...], str]:
    """The zones that date marks can mean, and the abbreviation; empty where they say none."""
    texts = Counter(m.zone for m in found)
    if not texts:
        return (), ""
    text = max(texts, key=lambda t: (texts[t], t))
    return offsets_of(text), text
