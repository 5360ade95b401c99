"""When something was said: stamps to intervals, by the clock of their source. Orders nothing; sources without a zone stay local.

A year comes from dated lines of the source, then from the other sources, then from the file's modification time; the
clock says which (`year_from`). A line without a stamp is bounded by the nearest stamped lines around it.
"""

from __future__ import annotations

import calendar
import time
from bisect import bisect_left, bisect_right
from functools import cached_property, lru_cache
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import When
from firstfault.model.lazy import lazy
from firstfault.readers.lines import LONGEST_LINE, Line, lines_back, lines_from
from firstfault.readers.sketch import stamp_at_end
from firstfault.readers.stamps import ISO, MONTHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.model.evidence import Source, SourceId
    from firstfault.model.place import Stamp
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

DAY = 86400
NEAR_LINES = 200
NEAR_BYTES = 64 * 1024
SAMPLE_BYTES = 32 * 1024
SAMPLE_LINES = 80
MARK_BYTES = 512 * 1024
OVERLAP = 8
"""Bytes by which a part is looked at beyond its ends, so that a time across one is seen."""

_HAS_TIME = lazy(rb"\d\d:\d\d:\d\d")
_MAY_BE_TIME = lazy(rb":(?=\d\d:\d\d)")
"""A part of the above that is looked for four times as fast."""
_HAS_YEAR = lazy(rb"(?:19|20)\d\d")
_MARK = lazy(rb"(?P<d>\d\d) (?P<mon>[A-Z][a-z]{2}) (?P<y>\d\d) (?P<h>\d\d):(?P<mi>\d\d) (?P<z>\S+) =+")
"""Hourly line of a storage daemon that gives its other lines their date."""


class Date(NamedTuple):
    """A day of the calendar."""

    year: int
    month: int
    day: int


class SourceClock:
    """The clock of one source; reads bounded samples of it, and only when asked."""

    def __init__(self, store: TextStore, source: Source, profile: SourceProfile) -> None:
        self.store = store
        self.source = source
        self.profile = profile
        self.neighbour: Date | None = None
        """A date of another source of the job, for a source that states no year."""
        self._near: dict[tuple[int, int], When | None] = {}
        """What stamps of lines state, by offset and length: the last line of those that are looked at may be cut."""
        self._days: dict[tuple[int | None, int, int], tuple[float | None, bool]] = {}
        """When days began that stamps state, by year, month and day, and whether the year is known."""
        self._bare = {True: (0, 0), False: (0, 0)}
        """The last stretch, in bytes, that was found without any time: looked for backwards, and forwards."""

    @property
    def _id(self) -> SourceId:
        return self.source.id

    def _head(self) -> list[bytes]:
        """The first lines."""
        return [x.text for x in islice(lines_from(self.store, self._id, 0, 1, SAMPLE_BYTES), SAMPLE_LINES)]

    def _tail(self) -> list[bytes]:
        """The last lines of a source of which the first ones are not all."""
        start = max(0, self.store.size(self._id) - SAMPLE_BYTES)
        tail = self.store.read(self._id, start, SAMPLE_BYTES).split(b"\n")[1:] if start else []
        if tail and not tail[-1]:
            tail.pop()
        return [x.removesuffix(b"\r") for x in tail[-SAMPLE_LINES:]]

    @cached_property
    def month_first(self) -> bool:
        """Whether `05/06/2024` is the sixth of May here: by lines that leave no choice, else as most logs have it."""
        sample = [s for s in map(self._stamp_of, (*self._head(), *self._tail())) if s is not None]
        for stamp in sample:
            if stamp.month_first is not None:
                return stamp.month_first
        days = {(s.month, s.day) for s in sample if s.month is not None}
        for stamp in sample:
            if stamp.first is not None:
                if (stamp.first, stamp.second_number) in days:
                    return True
                if (stamp.second_number, stamp.first) in days:
                    return False
        return True

    @cached_property
    def date(self) -> Date | None:
        """A date with its year that lines of this source state; None where none does."""
        for line in chain.from_iterable(reversed(part()) for part in (self._tail, self._head)):
            if _HAS_YEAR.search(line) is None:
                continue
            stamp = self._stamp_of(line)
            if stamp is not None and stamp.year is not None and stamp.dated:
                month, day = self._month_day(stamp)
                if month is not None and day is not None:
                    return Date(stamp.year, month, day)
        return self._spoken_date()

    def _spoken_date(self) -> Date | None:
        """A full date inside a message of the first or last lines: a launcher's list of failures, a start or end time."""
        size = self.store.size(self._id)
        for start in (max(0, size - SAMPLE_BYTES), 0):
            for found in reversed(list(ISO.finditer(self.store.read(self._id, start, SAMPLE_BYTES)))):
                date = Date(int(found["y"]), int(found["mo"]), int(found["d"]))
                if _midnight(date) is not None:
                    return date
        return None

    def believe(self, date: Date | None) -> None:
        """Takes over what another process found to be `date`."""
        self.__dict__["date"] = date

    @property
    def year_from(self) -> str | None:
        """Where the year of lines without one comes from: lines, neighbour, modified; None where it is not known."""
        if self.date is not None:
            return "lines"
        if self.neighbour is not None:
            return "neighbour"
        return None if self.source.modified is None else "modified"

    @cached_property
    def _reference(self) -> Date | None:
        if self.date is not None:
            return self.date
        if self.neighbour is not None:
            return self.neighbour
        if self.source.modified is None:
            return None
        then = time.gmtime(self.source.modified)
        return Date(then.tm_year, then.tm_mon, then.tm_mday)

    def event_time(self, stamp: Stamp | None, offset: int, number: int) -> When:
        """Interval of a line that starts at an offset, by its own stamp or by those around it."""
        if stamp is not None:
            own = self.at(stamp, offset, number)
            if own.known:
                return own
        before, after = self._neighbour(offset, number, back=True), self._neighbour(offset, number, back=False)
        return _between(before, after)

    def at(self, stamp: Stamp, offset: int, number: int) -> When:
        """Interval that a stamp states; unknown where it only counts from the start of the machine."""
        if stamp.uptime is not None:
            return When()
        seconds = stamp.hour * 3600 + stamp.minute * 60 + stamp.second + stamp.fraction
        if not stamp.dated:
            return self._time_of_day(stamp, seconds, offset, number)
        month, day = self._month_day(stamp)
        if month is None or day is None:
            return When()
        key = (stamp.year, month, day)
        known = self._days.get(key)
        if known is None:
            year = self._year(month, day) if stamp.year is None else stamp.year
            known = self._days[key] = _midnight(Date(1970 if year is None else year, month, day)), year is not None
        base, yeared = known
        if base is None:
            return When()
        return _interval(base + seconds, stamp.precision, stamp.zone, dated=True, yeared=yeared)

    def _month_day(self, stamp: Stamp) -> tuple[int | None, int | None]:
        if stamp.first is None:
            return stamp.month, stamp.day
        month, day = (stamp.first, stamp.second_number) if self.month_first else (stamp.second_number, stamp.first)
        return (month, day) if month is not None and month <= 12 else (None, None)

    def _year(self, month: int, day: int) -> int | None:
        """Year in which a day lies nearest to the reference date; a file's last change lies not before its lines."""
        reference = self._reference
        if reference is None:
            return None
        middle = _midnight(reference)
        if middle is None:
            return None
        best: tuple[float, int] | None = None
        late = self.year_from == "modified"
        for year in (reference.year - 1, reference.year, reference.year + 1):
            then = _midnight(Date(year, month, day))
            if then is None or (late and then > middle + 2 * DAY):
                continue
            distance = abs(then - middle)
            if best is None or distance < best[0]:
                best = (distance, year)
        return None if best is None else best[1]

    def _time_of_day(self, stamp: Stamp, seconds: float, offset: int, number: int) -> When:
        """A time without a date takes it from the nearest dated line before, across at most one midnight, else from one after."""
        zone = stamp.zone
        anchor, zone_of_mark = self._mark(offset) if stamp.style == "lettered" else (None, None)
        zone = zone if zone is not None else zone_of_mark
        if anchor is None:
            anchor = self._dated_near(offset, number, back=True)
        if anchor is not None:
            base = anchor - anchor % DAY
            if base + seconds < anchor - 3600:
                base += DAY
            return _interval(base + seconds, stamp.precision, zone, dated=True, yeared=True)
        later = self._dated_near(offset, number, back=False)
        if later is not None:
            base = later - later % DAY
            if base + seconds > later + 3600:
                base -= DAY
            return _interval(base + seconds, stamp.precision, zone, dated=True, yeared=True)
        return _interval(seconds, stamp.precision, zone, dated=False, yeared=False)

    def _mark(self, offset: int) -> tuple[float | None, str | None]:
        start = max(0, offset - MARK_BYTES)
        marks = list(_MARK.finditer(self.store.read(self._id, start, offset - start)))
        if not marks or marks[-1]["mon"].lower() not in MONTHS:
            return None, None
        found = marks[-1]
        base = _midnight(Date(2000 + int(found["y"]), MONTHS[found["mon"].lower()], int(found["d"])))
        if base is None:
            return None, None
        return base + int(found["h"]) * 3600 + int(found["mi"]) * 60, "Z" if found["z"] in {b"UTC", b"GMT"} else None

    def _dated_near(self, offset: int, number: int, *, back: bool) -> float | None:
        for line in self._lines(offset, number, back=back):
            stamp = self._stamp_of(line.text)
            if stamp is not None and stamp.dated:
                when = self.at(stamp, line.offset, line.number)
                if when.earliest is not None and when.yeared:
                    return when.earliest
        return None

    def forget(self) -> None:
        """Drops the lines that were read, so that the clocks of many sources stay small; they are read again when needed."""
        self._near.clear()
        self.__dict__.pop("_timed", None)
        self.__dict__.pop("_whole", None)

    @cached_property
    def _whole(self) -> tuple[list[int], list[Line]]:
        """All lines of a small source with their offsets; empty for another."""
        if self.store.size(self._id) > NEAR_BYTES:
            return [], []
        lines = list(lines_from(self.store, self._id, 0, 1, NEAR_BYTES))
        return [x.offset for x in lines], lines

    def _lines(self, offset: int, number: int, *, back: bool) -> Iterable[Line]:
        """Lines near one, the nearest first, itself left out."""
        offsets, lines = self._whole
        if number <= len(lines) and offsets[number - 1] == offset:
            if not back:
                return islice(lines, number, number + NEAR_LINES)
            near = number - 1 - bisect_right(offsets, max(-1, offset - NEAR_BYTES // 16), 0, number - 1)
            first = number - 1 - min(near, NEAR_LINES // 8) - NEAR_LINES
            return reversed(lines[max(0, first) : number - 1])
        if not back:
            after = lines_from(self.store, self._id, offset, number, NEAR_BYTES)
            return islice((x for x in after if x.number != number), NEAR_LINES)
        return self._lines_before(offset, number)

    def _lines_before(self, offset: int, number: int) -> Iterator[Line]:
        near = lines_back(self.store, self._id, offset, number, NEAR_LINES // 8, max_bytes=NEAR_BYTES // 16)
        yield from reversed(near)
        if near:
            offset, number = near[0].offset, near[0].number
        yield from reversed(lines_back(self.store, self._id, offset, number, NEAR_LINES, max_bytes=NEAR_BYTES))

    def _stamp_of(self, text: bytes) -> Stamp | None:
        if b":" not in text or (
            _HAS_TIME.search(text, 0, 4096) is None
            and (len(text) <= 4096 or _HAS_TIME.search(text, len(text) - 4096) is None)
        ):
            return None
        segment = text.rsplit(b"\r", 1)[-1]
        return stamp_at_end(segment, self.profile)

    def _neighbour(self, offset: int, number: int, *, back: bool) -> When | None:
        offsets = self._timed[0]
        if number <= len(offsets) and offsets[number - 1] == offset:
            return self._stamped(number - 1, back=back)
        if self._untimed(offset, number, back=back):
            return None
        for line in self._lines(offset, number, back=back):
            when = self._own_time(line)
            if when is not None:
                return when
        return None

    def _untimed(self, offset: int, number: int, *, back: bool) -> bool:
        """Whether no line that `_lines` may give of a large source tells a time; False also where that is hard to say.

        Where no line has a stamp, all would ask for theirs one by one: what was looked through for one is not for the next.
        """
        if back:
            start = max(0, offset - NEAR_BYTES - NEAR_BYTES // 16)
            data = self.store.read(self._id, start, offset - start)
            most = NEAR_LINES + NEAR_LINES // 8 + 1
            parts = data.rsplit(b"\n", most)
            begin, end = (start + len(parts[0]) + 1 if len(parts) > most else start), start + len(data)
        else:
            start, data = offset, self.store.read(self._id, offset, NEAR_BYTES)
            parts = data.split(b"\n", NEAR_LINES + 1)
            begin = start + len(parts[0]) + 1
            end = start + len(data) - (len(parts[-1]) if len(parts) > NEAR_LINES + 1 else 0)
        low, high = self._bare[back]
        known = begin <= high and low <= end
        new = [(begin, low), (high, end)] if known else [(begin, end)]
        first = number - data.count(b"\n") if back else number
        if not all(self._tells_none(data, a - start, b - start, start, first) for a, b in new if a < b):
            return False
        self._bare[back] = (min(begin, low), max(end, high)) if known else (begin, end)
        return True

    def _tells_none(self, data: bytes, begin: int, end: int, start: int, number: int) -> bool:
        """Whether no line of a part of some bytes, which begin at `start` in a line of a number, tells a time."""
        at = max(0, begin - OVERLAP)
        while (found := _MAY_BE_TIME.search(data, at, min(end + OVERLAP, len(data)))) is not None:
            first, last = data.rfind(b"\n", 0, found.start()) + 1, data.find(b"\n", found.start())
            if last < 0 or last - first > LONGEST_LINE or (first == 0 and start > 0):
                return False  # cut off
            line = Line(number + data.count(b"\n", 0, first), start + first, data[first:last].removesuffix(b"\r"))
            if self._own_time(line) is not None:
                return False
            at = last
        return True

    def _own_time(self, line: Line) -> When | None:
        """The interval that a line's own stamp states; None where it has none, or none that tells a time."""
        key = line.offset, len(line.text)
        if key not in self._near:
            stamp = self._stamp_of(line.text)
            when = None if stamp is None else self.at(stamp, line.offset, line.number)
            self._near[key] = when if when is not None and when.known else None
        return self._near[key]

    @cached_property
    def _timed(self) -> tuple[list[int], list[int], bytes]:
        """Of a small source the offsets of all lines, the places of those in which a time may stand, and its bytes.

        Many unstamped lines stand together (tracebacks, lists): they are passed over at once.
        """
        if self.store.size(self._id) > NEAR_BYTES:
            return [], [], b""
        data = self.store.read(self._id, 0, NEAR_BYTES)
        offsets = [0, *accumulate(len(x) + 1 for x in data.split(b"\n"))]
        while offsets and offsets[-1] >= len(data):
            offsets.pop()
        return offsets, sorted({bisect_right(offsets, m.start()) - 1 for m in _MAY_BE_TIME.finditer(data)}), data

    def _stamped(self, index: int, *, back: bool) -> When | None:
        """Of a small source the time of the nearest stamped line before or after one, among those that `_lines` gives."""
        offsets, timed, data = self._timed
        at = bisect_left(timed, index) - 1 if back else bisect_right(timed, index)
        while 0 <= at < len(timed):
            found = timed[at]
            if self._far(index, found):
                return None
            end = offsets[found + 1] - 1 if found + 1 < len(offsets) else len(data)
            text = data[offsets[found] : end].removesuffix(b"\n").removesuffix(b"\r")
            when = self._own_time(Line(found + 1, offsets[found], text))
            if when is not None:
                return when
            at += -1 if back else 1
        return None

    def _far(self, index: int, found: int) -> bool:
        """Whether a line of a small source lies beyond those that `_lines` gives."""
        if found > index:
            return found - index > NEAR_LINES
        if index - found <= NEAR_LINES:
            return False
        offsets = self._timed[0]
        near = index - bisect_right(offsets, max(-1, offsets[index] - NEAR_BYTES // 16), 0, index)
        return found < index - min(near, NEAR_LINES // 8) - NEAR_LINES


def settle_clocks(clocks: Sequence[SourceClock]) -> None:
    """Gives every clock that states no year a date of another source of the same job, the most common year first."""
    dates = sorted(c.date for c in clocks if c.date is not None)
    if not dates:
        return
    middle = dates[len(dates) // 2]
    for clock in clocks:
        if clock.date is None:
            clock.neighbour = middle


def past_midnight(times: Sequence[When]) -> list[When]:
    """The times of one source in the order of its lines; where only times of day are known, a fall by half a day is a midnight."""
    days, last = 0, None
    found = []
    for when in times:
        if when.dated or when.earliest is None or when.latest is None:
            found.append(when)
            continue
        if last is not None and when.earliest < last - DAY / 2:
            days += 1
        last = when.earliest
        shift = days * DAY
        found.append(
            when if not days else When(when.earliest + shift, when.latest + shift, when.zone, when.dated, when.yeared)
        )
    return found


def instant(stamp: Stamp) -> When:
    """Interval of a stamp that states its whole date; unknown for any other."""
    if stamp.year is None or stamp.month is None or stamp.day is None:
        return When()
    base = _midnight(Date(stamp.year, stamp.month, stamp.day))
    seconds = stamp.hour * 3600 + stamp.minute * 60 + stamp.second + stamp.fraction
    return When() if base is None else _interval(base + seconds, stamp.precision, stamp.zone, dated=True, yeared=True)


def between(earlier: Stamp, later: Stamp) -> float:
    """Seconds from one stamp to another of the same text, whose zone is one; 0 in place of one that states no whole date."""
    return (instant(later).earliest or 0.0) - (instant(earlier).earliest or 0.0)


@lru_cache(maxsize=1024)
def _midnight(date: Date) -> float | None:
    if not 1 <= date.month <= 12 or not 1 <= date.day <= calendar.monthrange(date.year, date.month)[1]:
        return None
    return float(calendar.timegm((date.year, date.month, date.day, 0, 0, 0)))


def _interval(start: float, width: float, zone: str | None, *, dated: bool, yeared: bool) -> When:
    """Interval of one stamp; on the clock of UTC where the offset is stated."""
    if zone not in {None, "Z"} and dated:
        assert zone is not None
        sign = -1 if zone[0] == "+" else 1
        start += sign * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    return When(start, start + width, zone, dated, yeared)


def _between(before: When | None, after: When | None) -> When:
    """Interval of a line without a stamp, from those before and after it; open where one is missing or they contradict."""
    if before is None and after is None:
        return When()
    if before is None:
        assert after is not None
        return When(None, after.latest, after.zone, after.dated, after.yeared)
    if after is None:
        return When(before.earliest, None, before.zone, before.dated, before.yeared)
    if before.dated != after.dated or before.zone != after.zone:
        return When(before.earliest, None, before.zone, before.dated, before.yeared)
    if before.earliest is not None and after.latest is not None and after.latest < before.earliest:
        return When(before.earliest, None, before.zone, before.dated, before.yeared)
    return When(
        before.earliest, after.latest, before.zone, before.dated and after.dated, before.yeared and after.yeared
    )
