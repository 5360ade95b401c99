"""Which moments the stamp of a line may mean, in every form in which logs tell a day.

The clock of a diagnosis settles on one reading, by other lines and at last by the time of the file. Whether a run came after
an incident must not rest on that: here a date whose order of numbers is open has two readings, one without a year has none
of its own, and forms that no clock of a diagnosis takes (seconds since 1970, `2024年11月3日`, `24/12/01`) are read too.
Must not guess.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REACH = 120
"""Characters of a line within which its stamp begins."""
FIRST_YEAR, LAST_YEAR = 2010, 2037
"""Years that a date of two digits, or seconds since 1970, may mean."""
_MONTHS = {
    m: i for i, m in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_HMS = r"(?P<h>[01]?\d|2[0-3]):(?P<mi>[0-5]\d)(?::(?P<s>[0-5]\d|60))?(?:[.,]\d{1,9})?(?: ?(?P<half>[AaPp][Mm])\b)?"
_ZONE = r"(?P<z> ?(?:Z\b|UTC\b|GMT\b|[+-](?:0\d|1[0-4]):?[0-5]\d(?!\d)))?"
_MON = r"(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DAY_NAME = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ ])?"
_BEGIN = r"(?<![\w.:/+-])"
_HAN = (
    r"(?P<y>(?:19|20)\d\d) ?年 ?(?P<mo>\d{1,2}) ?月 ?(?P<d>\d{1,2}) ?[日号]?[ ,，]*(?:(?:星期|周).)?[ ,，]*"
    r"(?P<noon>上午|下午|凌晨|早上|中午|晚上)? ?(?:(?P<h>[01]?\d|2[0-3]) ?[:：时点] ?(?P<mi>[0-5]\d)(?: ?[:：分] ?(?P<s>[0-5]\d))?)?"
)
_FORMS = (
    ("han", _HAN),
    ("full", _BEGIN + r"(?P<y>(?:19|20)\d\d)(?P<sep>[-/.])(?P<mo>\d{1,2})(?P=sep)(?P<d>\d{1,2})(?:[T_ ]{1,2}" + _HMS + _ZONE + r")?(?![\d.]*[-/.]?\d)"),
    ("full", r"(?<![\d.])[IWEFV]?(?P<y>20\d\d)(?P<mo>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])[-T_ ]?(?P<h>[01]\d|2[0-3]):?(?P<mi>[0-5]\d):?(?P<s>[0-5]\d)(?!\d)" + _ZONE),
    ("ordinal", _BEGIN + r"(?P<y>20\d\d)-(?P<n>[0-3]\d\d)[T_ ]{1,2}" + _HMS + _ZONE),
    ("open", _BEGIN + r"(?P<a>\d{1,2})(?P<sep>[-/.])(?P<b>\d{1,2})(?P=sep)(?P<y>(?:19|20)\d\d),?[T ]+" + _HMS + _ZONE),
    ("short", _BEGIN + r"(?P<a>\d\d)(?P<sep>[-/.])(?P<b>\d\d)(?P=sep)(?P<c>\d\d),?[T ]+" + _HMS + _ZONE),
    ("full", _BEGIN + _DAY_NAME + r"(?P<d>\d{1,2})[ /-]" + _MON + r",?[ /-](?P<y>(?:19|20)\d\d)[ :,T]+" + _HMS + _ZONE),
    ("full", _BEGIN + _DAY_NAME + _MON + r"[ ]{1,2}(?P<d>\d{1,2}),? (?P<y>(?:19|20)\d\d),?[ ]" + _HMS + _ZONE),
    ("full", _BEGIN + _DAY_NAME + _MON + r"[ ]{1,2}(?P<d>\d{1,2}) " + _HMS + r"(?P<z> (?:UTC|GMT))?(?: [A-Z]{3,4})? (?P<y>(?:19|20)\d\d)(?![\d:])"),
    ("yearless", _BEGIN + _DAY_NAME + _MON + r"[ ]{1,2}(?P<d>\d{1,2}),? " + _HMS),
    ("yearless", _BEGIN + r"[IWEFVDC](?P<mo>1[0-2]|0?[1-9])(?P<d>[0-3]\d) {1,2}(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-5]\d)"),
    ("yearless", _BEGIN + r"(?P<mo>0?[1-9]|1[0-2])[-/](?P<d>0?[1-9]|[12]\d|3[01]) {1,2}" + _HMS),
    ("yearless", r"(?<!\d)(?P<mo>\d{1,2}) ?月 ?(?P<d>\d{1,2}) ?[日号]"),
    ("epoch", r"(?<![\w.,:/+-])(?P<e>1[2-9]\d{8})(?P<more>\d{3}|\d{6}|\d{9})?(?:\.\d{1,9})?(?![\w.]*\d)(?=[\s,:;|\]})\"'>-]|$)"),
)  # fmt: skip
_PATTERNS = tuple((kind, lazy(pattern)) for kind, pattern in _FORMS)
_NUMBERED = lazy(r"\d\d|月")
"""What every such stamp has."""
_COLOURS = lazy("\x1b\\[[0-9;]*[A-Za-z]")
_INSIDE = lazy(r"\([^()]*$")
_TOLD = lazy(r"(?:^|[\s\]])(?!(?:info|warn|warning|error|debug|notice|stdout|stderr|trace|fatal)\b)[a-z一-鿿]+[ :=]? $")
"""A plain word before a date: it is told of something, such as `built on Jan 3 2024 10:00:00`, and is no stamp."""
_KEY = lazy(
    r"[\"']?(?:ts|time|timestamp|asctime|created|date|datetime|epoch|t|@timestamp|_time|wall_?time)[\"']?[ ]?[:=][ ]?[\"']?$"
)
_SPACES = 5
"""Blanks before a stamp at most: what stands behind more words belongs to the message."""


class Reading(NamedTuple):
    """What the stamp of one line may mean."""

    low: datetime | None
    """The earliest moment; without a zone where the line tells none, None where it tells no year."""
    high: datetime | None
    """The latest moment that another reading gives."""
    said: str
    """The stamp as it stands in the line."""
    yearless: tuple[int, ...] = ()
    """Month and day where it tells no year, with hour, minute and second where it tells these."""


def is_to_come(day: date, today: date) -> bool:
    """Whether a day is still to come by another one, wherever on earth either of them is."""
    return day > today + timedelta(days=1)


def reading(line: str) -> Reading | None:
    """What the stamp at the begin of a line may mean; None where it tells no day."""
    line = _COLOURS.sub("", line[: 4 * REACH])[: 2 * REACH]
    if _NUMBERED.search(line) is None:
        return None
    found: list[tuple[int, int, Reading]] = []
    for order, (kind, pattern) in enumerate(_PATTERNS):
        for match in pattern.finditer(line, 0, 2 * REACH):
            if match.start() > REACH:
                break
            read = _READERS[kind](match) if _leads(line[: match.start()], kind) else None
            if read is not None:
                found.append((match.start(), order, read))
                break
    return min(found)[2] if found else None


def _leads(before: str, kind: str) -> bool:
    """Whether what stands before a date leaves it the stamp of its line."""
    if _KEY.search(before) is not None:
        return True
    if kind == "epoch" and re.search(r"[A-Za-z一-鿿]", re.sub(r"[\[(][^\])]*[\])]|\b[A-Z]+\b", "", before)):
        return False
    return before.count(" ") <= _SPACES and _INSIDE.search(before) is None and _TOLD.search(before) is None


def _full(match: re.Match[str]) -> Reading | None:
    part = match.groupdict()
    month = _MONTHS[part["mon"].lower()] if part.get("mon") else int(part["mo"])
    return _reading(match, [(int(part["y"]), month, int(part["d"]))])


def _open(match: re.Match[str]) -> Reading | None:
    a, b, year = int(match["a"]), int(match["b"]), int(match["y"])
    # Nobody who puts dots between them writes the month first.
    return _reading(match, [(year, b, a)] if match["sep"] == "." else [(year, b, a), (year, a, b)])


def _short(match: re.Match[str]) -> Reading | None:
    a, b, c = int(match["a"]), int(match["b"]), int(match["c"])
    days = [(2000 + a, b, c), (2000 + c, b, a), (2000 + c, a, b)]
    return _reading(match, [day for day in days if FIRST_YEAR <= day[0] <= LAST_YEAR])


def _yearless(match: re.Match[str]) -> Reading | None:
    part = match.groupdict()
    month = _MONTHS[part["mon"].lower()] if part.get("mon") else int(part["mo"])
    day = int(part["d"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    time = (int(part["h"]), int(part["mi"]), min(int(part["s"] or 0), 59)) if part.get("h") else ()
    return Reading(None, None, match.group().strip(), (month, day, *time))


def _epoch(match: re.Match[str]) -> Reading | None:
    moment = datetime.fromtimestamp(int(match["e"]), timezone.utc)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        return None
    return Reading(moment, moment, match.group().strip())


def _ordinal(match: re.Match[str]) -> Reading | None:
    """The day of a year by its number: `2026-051`."""
    number = int(match["n"])
    if not 1 <= number <= 366:
        return None
    day = datetime(int(match["y"]), 1, 1, tzinfo=timezone.utc) + timedelta(days=number - 1)
    return _reading(match, [(day.year, day.month, day.day)])


_READERS: dict[str, Callable[[re.Match[str]], Reading | None]] = {
    "han": _full, "full": _full, "ordinal": _ordinal, "open": _open, "short": _short, "yearless": _yearless, "epoch": _epoch,
}  # fmt: skip


def _reading(match: re.Match[str], days: list[tuple[int, int, int]]) -> Reading | None:
    moments = sorted(_moments(match, days))
    if not moments:
        return None
    # A day without a time is somewhere in it.
    last = moments[-1] if match["h"] else moments[-1] + timedelta(days=1)
    return Reading(moments[0], last, match.group().strip())


def _moments(match: re.Match[str], days: list[tuple[int, int, int]]) -> Iterator[datetime]:
    part = match.groupdict()
    hour = int(part["h"] or 0)
    half = (part.get("half") or "").lower()
    late = half == "pm" or part.get("noon") in {"下午", "晚上", "中午"}
    if half or part.get("noon"):
        # `中午 11:50` is before noon all the same, and `凌晨 12:10` just after midnight.
        hour = hour + 12 if late and hour < 12 and not (part.get("noon") == "中午" and hour > 10) else hour
        hour = 0 if not late and hour == 12 else hour
    for year, month, day in days:
        try:
            moment = datetime(
                year, month, day, hour, int(part["mi"] or 0), min(int(part["s"] or 0), 59), tzinfo=_zone(part.get("z"))
            )
        except ValueError:
            continue
        yield moment


def _zone(text: str | None) -> timezone | None:
    word = (text or "").strip()
    if not word:
        return None
    if word in {"Z", "UTC", "GMT"}:
        return timezone.utc
    digits = word[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if word[0] == "-" else offset)
