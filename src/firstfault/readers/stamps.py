"""Time stamps as they stand in a line: recognises and takes them apart. Infers nothing; `firstfault.readers.clock` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.model.place import Stamp

if TYPE_CHECKING:
    import re

MONTHS = {m: i + 1 for i, m in enumerate((b"jan feb mar apr may jun jul aug sep oct nov dec").split())}
"""Number of a month by its English three-letter name, lower case."""

_HMS = rb"(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-5]\d|60)"
_MON = rb"(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ZONE = rb"(?P<z> ?(?:Z\b|UTC\b|GMT\b|[+-](?:0\d|1[0-4]):?[0-5]\d\b))?"
_FRACTION = rb"(?:[.,](?P<f>\d{1,9}))?"

ISO = lazy(
    rb"(?P<y>(?:19|20)\d\d)(?P<sep>[-/.])(?P<mo>\d\d)(?P=sep)(?P<d>\d\d)[T_ ]{1,2}" + _HMS + _FRACTION + _ZONE,
)
"""`2026-01-15 14:31:05`, `2026-01-15T14:31:05.123456+00:00`, `2026/02/12 01:10:02`, `2026-11-29_14:18:40`."""

_SLASHED = lazy(
    rb"(?P<a>\d{1,2})(?P<sep>[-/.])(?P<b>\d{1,2})(?P=sep)(?P<y>(?:19|20)\d\d),?[ T]"
    + _HMS
    + _FRACTION
    + rb"(?P<half> ?[AP]M\b)?"
    + _ZONE,
)
"""`06/27/2024 21:14:31`, `27.06.2024 21:14:31`: which number is the month is told by other lines of the source."""

_C10 = lazy(rb"(?P<sev>[IWEFV])(?P<mo>1[0-2]|0?[1-9])(?P<d>[0-3]\d) {1,2}" + _HMS + rb"\.(?P<f>\d{6,9})")
"""`E513 13:25:57.714781669` (C++), `W1129 14:18:16.233000` (Python, glog): no year."""

_NAMED = lazy(
    rb"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
    + _MON
    + rb" {1,2}(?P<d>\d{1,2})(?: (?P<y1>(?:19|20)\d\d))? "
    + _HMS
    + _FRACTION
    + rb"(?: (?P<z1>UTC|GMT))?(?: (?P<y>(?:19|20)\d\d)(?![\d:]))?",
)
"""`Jan 15 14:31:05` (syslog), `Thu Jan 15 14:31:05 2026` (dmesg -T, ctime)."""

_DAY_FIRST = lazy(
    rb"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?(?P<d>\d{1,2})[ /-]"
    + _MON
    + rb"[ /-](?P<y>(?:19|20)\d\d)[ :]"
    + _HMS
    + _FRACTION
    + _ZONE,
)
"""`15 Jan 2026 14:02:11 +0000`, `15/Jan/2026:14:02:11 +0000`."""

_SHORT = lazy(rb"(?P<a>\d\d)/(?P<b>\d\d) " + _HMS + _FRACTION)
"""`11/29 14:18:40` inside brackets: a date without a year."""

_MONTH_DAY = lazy(rb"(?P<mo>0[1-9]|1[0-2])-(?P<d>0[1-9]|[12]\d|3[01]) " + _HMS + _FRACTION + rb"(?=[ \]])")
"""`08-18 19:32:08` of vLLM: a date without a year."""

_LETTERED = lazy(rb"(?P<sev>[IWEF]) " + _HMS + rb"\.(?P<f>\d{6}) ")
"""`I 05:22:19.114502 ` of AIStore: the date stands in an hourly line."""

_TIME_ONLY = lazy(_HMS + _FRACTION + rb"(?![:\d<])")
"""`14:02:11.330`: a time of day."""

_UPTIME = lazy(rb"\[ {0,6}(?P<up>\d{1,9}\.\d{6})\]")
"""`[ 8123.456789]`: seconds since the kernel started."""


_BY_THIRD = {
    b":": ("time",),
    b"/": ("slashed", "short"),
    b".": ("slashed",),
    b"-": ("slashed", "day_first", "month_day"),
    b" ": ("day_first",),
}
"""Styles that are possible by the third byte of a text that begins with a digit."""
_PATTERNS = {"slashed": _SLASHED, "short": _SHORT, "day_first": _DAY_FIRST, "month_day": _MONTH_DAY, "time": _TIME_ONLY}


def _match_digits(segment: bytes, position: int) -> tuple[str, re.Match[bytes]] | None:
    if segment[position + 4 : position + 5] in {b"-", b"/", b"."}:
        found = ISO.match(segment, position)
        if found is not None:
            return "iso", found
    styles = _BY_THIRD.get(segment[position + 2 : position + 3])
    if styles is None:
        if segment[position + 1 : position + 2].isdigit():
            return None
        styles = ("slashed", "day_first")
    for style in styles:
        found = _PATTERNS[style].match(segment, position)
        if found is not None:
            return "slashed" if style == "short" else style, found
    return None


_SEVERITIES = frozenset((b"I", b"W", b"E", b"F", b"V"))
_FIRST_ASKED = {"iso": ISO, "c10": _C10}
"""Styles that are asked before any other where a line has their letters and signs."""
_AFTER_SEVERITY = frozenset((b" ", *(b"%d" % digit for digit in range(10))))
_NAMES = frozenset((b"Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec").split())


def match_stamp(segment: bytes, position: int) -> tuple[str, re.Match[bytes]] | None:
    """Recognises a stamp that begins exactly at a position; None where none does.

    Returns:
        Style and match; `build_stamp` takes it apart.
    """
    byte = segment[position : position + 1]
    if byte.isdigit():
        return _match_digits(segment, position)
    if byte == b"[":
        found = _UPTIME.match(segment, position)
        return None if found is None else ("uptime", found)
    if byte in _SEVERITIES:
        after = segment[position + 1 : position + 2]
        if after.isdigit():
            found = _C10.match(segment, position)
            return None if found is None else ("c10", found)
        if after == b" ":
            found = _LETTERED.match(segment, position)
            return None if found is None else ("lettered", found)
    if segment[position : position + 3] in _NAMES:
        found = _NAMED.match(segment, position)
        if found is not None:
            return "named", found
        found = _DAY_FIRST.match(segment, position)
        return None if found is None else ("day_first", found)
    return None


def match_style(style: str, segment: bytes, position: int) -> tuple[str, re.Match[bytes]] | None:
    """As `match_stamp`, where a line that differs in digits alone has a stamp of a style there."""
    pattern = _FIRST_ASKED.get(style)
    if pattern is None:
        return match_stamp(segment, position)
    found = pattern.match(segment, position)
    return match_stamp(segment, position) if found is None else (style, found)


def digits_decide(segment: bytes, position: int) -> bool:
    """Whether it may hang on the value of digits that no stamp begins at a position, where none does."""
    byte = segment[position : position + 1]
    if byte.isdigit():
        return True
    if byte in _SEVERITIES and segment[position + 1 : position + 2] in _AFTER_SEVERITY:
        return True
    return segment[position : position + 3] in _NAMES


def build_stamp(style: str, found: re.Match[bytes]) -> Stamp | None:
    """Takes a recognised stamp apart; None where its numbers are no date."""
    if style == "c10":
        return _c10(found)
    part = found.groupdict()
    if style == "uptime":
        return Stamp(style=style, uptime=float(part["up"]), precision=1e-6)
    digits = part.get("f") or b""
    hour = int(part["h"])
    half = (part.get("half") or b"").strip()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == b"PM" else 0)
    month, day, first, second = _day(part)
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    if first is not None and not (1 <= first <= 31 and second is not None and 1 <= second <= 31):
        return None
    year = part.get("y") or part.get("y1")
    return Stamp(
        style=style,
        hour=hour,
        minute=int(part["mi"]),
        second=min(int(part["s"]), 59),
        fraction=int(digits) / 10 ** len(digits) if digits else 0.0,
        precision=10.0 ** -len(digits),
        year=None if year is None else int(year),
        month=month,
        day=day,
        first=first,
        second_number=second,
        month_first=None if part.get("a") is None or first is not None else int(part["b"]) > 12,
        zone=_zone(part.get("z") or part.get("z1")),
    )


NANOSECONDS = 9
"""Digits that torch prints behind the second."""


def _c10(found: re.Match[bytes]) -> Stamp | None:
    """The stamp of C++ loggers and of glog, which most lines of a job that hung have.

    Behind the second torch prints nine digits of another clock, which counts from the start of the machine (measured with
    torch 2.13: `12:53:58.940348809` between 12:53:58.069 and 12:53:59.156): they are no part of the time. glog prints six
    that are.
    """
    month, day, hour, minute, second, digits = found.group("mo", "d", "h", "mi", "s", "f")
    if not 1 <= int(day) <= 31:
        return None
    return Stamp(
        style="c10",
        hour=int(hour),
        minute=int(minute),
        second=min(int(second), 59),
        fraction=0.0 if len(digits) == NANOSECONDS else int(digits) / 10 ** len(digits),
        precision=1.0 if len(digits) == NANOSECONDS else 10.0 ** -len(digits),
        month=int(month),
        day=int(day),
    )


def _day(part: dict[str, bytes]) -> tuple[int | None, int | None, int | None, int | None]:
    """Month, day, and the two numbers of a date whose order is open."""
    if part.get("a") is not None:
        a, b = int(part["a"]), int(part["b"])
        if a > 12 >= b:
            return b, a, None, None
        if b > 12 >= a:
            return a, b, None, None
        if part.get("sep") == b"." and b <= 12:
            # Nobody who puts dots between them writes the month first.
            return b, a, None, None
        return None, None, a, b
    if part.get("mon") is not None:
        return MONTHS[part["mon"].lower()], int(part["d"]), None, None
    if part.get("mo") is not None:
        return int(part["mo"]), int(part["d"]), None, None
    return None, None, None, None


def _zone(text: bytes | None) -> str | None:
    if text is None:
        return None
    word = text.strip().decode("ascii")
    if word in {"Z", "UTC", "GMT"}:
        return "Z"
    if word[0] in "+-":
        digits = word[1:].replace(":", "")
        return "Z" if digits == "0000" else f"{word[0]}{digits[:2]}:{digits[2:]}"
    return None


def better(one: Stamp, other: Stamp | None) -> bool:
    """Whether a later stamp of the same line is to be preferred: it tells at least as much about date, year and zone."""
    return other is None or _knows(one) >= _knows(other)


def _knows(stamp: Stamp) -> tuple[bool, bool, bool, bool]:
    return stamp.uptime is None, stamp.dated, stamp.year is not None, stamp.zone is not None
