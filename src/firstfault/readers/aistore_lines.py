"""The grammar of a storage daemon's log: records, what a container runtime puts before them, counters, disks, date marks.

It takes text apart and knows no file; what a message means stands in the signatures.
"""

from __future__ import annotations

import calendar
import sys
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy
from firstfault.model.storage import Opening
from firstfault.readers.stamps import MONTHS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DAY = 86400
QUARTER = 900
"""Seconds: every zone of the world differs from UTC by a multiple of this."""
MOST_PREFIX = 300
MUCH = 64 << 10
"""Bytes from which on numpy is worth its calls."""

RECORD = lazy(rb"[IWE] ([01]\d|2[0-3]):([0-5]\d):([0-5]\d)\.(\d{6}) ")
"""Severity and time of one record; a record longer than its buffer is cut with its newline, and the next is glued to it."""
_ISO = rb"(?P<{n}>\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d{{1,9}})?(?P<{n}z>Z|[+-]\d\d:?\d\d)?\]? "


def _iso(name: bytes) -> bytes:
    return _ISO.replace(b"{n}", name).replace(b"{{", b"{").replace(b"}}", b"}")


PREFIX = lazy(
    rb"(?:\[?" + _iso(b"a") + rb")?(?:std(?:out|err) [FP] )?"
    rb"(?:\[pod/(?P<pod>[^/\]\n]+)/[^\]\n]*\] |(?P<compose>[a-z0-9][\w.-]*) +\| |(?P<label>[a-z0-9][\w.-]*): "
    rb"|(?P<stern>[a-z0-9][\w.-]*) [a-z0-9][\w.-]* )?"
    rb"(?:" + _iso(b"b") + rb")?(?:std(?:out|err) [FP] )?(?:\{\"log\":\")?"
)
"""What `kubectl logs`, stern, compose, the container runtime's own file or Docker's JSON put before a record."""
STATS = lazy(rb"\{([a-z][\w.-]*:-?\d{1,20}(?:,[a-z][\w.-]*:-?\d{1,20})*)(?:[},]|(?!\d))")
"""`{err.get.n:12,get.n:1006219,state.flags:6}`; a cut line has no closing brace. A counter has 64 bits, so 20 digits at most."""
_NEARLY_ALL = lazy(rb", (?:9\d|100)%")
_BUSY = lazy(
    rb"[IWE] \d\d:\d\d:\d\d\.\d{6} (?P<disk>[\w./-]{1,40}): [\d.]+\w+/s, [\d.]+\w+, [\d.]+\w+/s, [\d.]+\w+, (?P<util>9\d|100)%"
)
MARK_WORD = b" ============="
_MARK = lazy(
    rb"(?P<d>\d\d) (?P<mon>[A-Z][a-z]{2}) (?P<y>\d\d) (?P<h>\d\d):(?P<mi>\d\d) (?P<z>[A-Za-z]{1,6}|[+-]\d{2,4})$"
)
_HEAD = lazy(
    rb"(?P<how>Started up|Rotated) at (?P<y>\d{4})/(?P<mo>\d\d)/(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)"
    rb"(?:, host (?P<host>[\w.-]+))?"
)

_ZONES: dict[str, tuple[int, ...]] = {
    "UTC": (0,), "GMT": (0,), "Z": (0,), "WET": (0,), "WEST": (3600,), "CET": (3600,), "CEST": (7200,), "MET": (3600,),
    "EET": (7200,), "EEST": (10800,), "MSK": (10800,), "PKT": (18000,), "WIB": (25200,), "HKT": (28800,),
    "JST": (32400,), "KST": (32400,), "AEST": (36000,), "AEDT": (39600,), "NZST": (43200,), "NZDT": (46800,),
    "EST": (-18000,), "EDT": (-14400,), "CDT": (-18000, -14400), "MST": (-25200,), "MDT": (-21600,),
    "PST": (-28800, 28800), "PDT": (-25200,), "AKST": (-32400,), "AKDT": (-28800,), "HST": (-36000,),
    "CST": (28800, -21600, -18000), "IST": (19800, 7200, 3600), "BST": (3600, 21600), "SAST": (7200,), "SST": (-39600, 28800),
}  # fmt: skip
"""Seconds east of UTC by the abbreviation that a system prints; several where the world uses one for several."""


class Mark(NamedTuple):
    """The hourly line that states date and zone."""

    offset: int
    """Where the line's own text (`15 Jan 26 …`) begins."""
    at: float
    """The minute that it states."""
    zone: str


class Head(NamedTuple):
    """First line of a log file."""

    offset: int
    opening: Opening
    at: float
    host: str


class Prefix(NamedTuple):
    """What stands before a record in its line."""

    label: str
    """Name of the pod or container; empty where there is none."""
    utc: float | None
    """The runtime's own stamp, where it states its zone."""


def offsets_of(zone: str) -> tuple[int, ...]:
    """Seconds east of UTC that a zone's text can mean; empty where it says nothing to us."""
    if zone[:1] in {"+", "-"} and zone[1:].isdecimal():
        hours, minutes = int(zone[1:3]), int(zone[3:5] or "0")
        return ((-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60),) if hours <= 14 else ()
    return _ZONES.get(zone.upper(), ())


def marks(data: bytes, base: int = 0) -> Iterator[Mark]:
    """The hourly date marks in some bytes, with offsets counted from `base`."""
    at = data.find(MARK_WORD)
    while at >= 0:
        found = _MARK.search(data, max(0, at - 24), at)
        if found is not None and (found["mon"].lower() in MONTHS) and int(found["d"]) in range(1, 32):
            year, month = 2000 + int(found["y"]), MONTHS[found["mon"].lower()]
            stamp = calendar.timegm((year, month, int(found["d"]), int(found["h"]), int(found["mi"]), 0))
            yield Mark(base + found.start(), float(stamp), found["z"].decode("ascii"))
        at = data.find(MARK_WORD, at + 1)


def heads(data: bytes, base: int = 0) -> list[Head]:
    """The first lines of files in some bytes (several where files were put together), by offset."""
    found: list[Head] = []
    for word in (b"Started up at 2", b"Rotated at 2"):
        at = data.find(word)
        while at >= 0:
            head = _HEAD.match(data, at)
            if head is not None and 1 <= int(head["mo"]) <= 12 and 1 <= int(head["d"]) <= 31:
                parts = tuple(int(head[k]) for k in ("y", "mo", "d", "h", "mi", "s"))
                how = Opening.STARTED if head["how"] == b"Started up" else Opening.ROTATED
                host = (head["host"] or b"").decode("ascii").rstrip(".")
                found.append(Head(base + at, how, float(calendar.timegm(parts)), host))
            at = data.find(word, at + 1)
    return sorted(found)


def read_prefix(text: bytes) -> Prefix | None:
    """Takes apart what stands before a record; None where it is not a prefix but the cut record before it."""
    if len(text) > MOST_PREFIX:
        return None
    found = PREFIX.fullmatch(text)
    if found is None:
        return None
    label = found["pod"] or found["compose"] or found["label"] or found["stern"] or b""
    for name in ("a", "b"):
        stamp, zone = found[name], found[f"{name}z"]
        if stamp is not None and zone is not None:
            return Prefix(label.decode("utf-8", "replace"), _epoch(stamp, zone))
    return Prefix(label.decode("utf-8", "replace"), None)


def _epoch(stamp: bytes, zone: bytes) -> float | None:
    year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None  # the calendar knows no year 0
    seconds = calendar.timegm((year, month, day, int(stamp[11:13]), int(stamp[14:16]), int(stamp[17:19])))
    if zone == b"Z":
        return float(seconds)
    digits = zone[1:].replace(b":", b"")
    shift = int(digits[:2]) * 3600 + int(digits[2:4]) * 60
    return float(seconds + (shift if zone[:1] == b"-" else -shift))


def counters(data: bytes, at: int) -> tuple[dict[str, int], int] | None:
    """The counters of a statistics line whose brace stands at a position, and where the line's text ends; None for anything else.

    The last entry of a line without its closing brace is left out: its number may be cut.
    """
    found = STATS.match(data, at)
    if found is None:
        return None
    entries = found[1].split(b",")
    if not found[0].endswith((b"}", b",")):
        entries = entries[:-1]
    values: dict[str, int] = {}
    for entry in entries:
        name, _, number = entry.rpartition(b":")
        values[name.decode("ascii")] = int(number)
    return (values, found.end()) if values else None


def newline_counter(data: bytes) -> Callable[[int], int]:
    """What gives the number of newlines before a position; of much, all are found once, by numpy where it is loaded."""
    if len(data) >= MUCH and "numpy" in sys.modules:
        import numpy as np

        places = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        return lambda position: int(places.searchsorted(position))
    counted = lines = 0

    def count(position: int) -> int:
        # Positions are asked for in rising order as a rule.
        nonlocal counted, lines
        if position < counted:
            counted = lines = 0
        lines += data.count(b"\n", counted, position)
        counted = position
        return lines

    return count


def _nearly_all(data: bytes) -> Iterable[tuple[int, int]]:
    """Start and end of each `, 9N%` or `, 100%`; by numpy where it is loaded already, which takes a tenth of the time."""
    if len(data) < MUCH or "numpy" not in sys.modules:
        return (found.span() for found in _NEARLY_ALL.finditer(data))
    import numpy as np

    every = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(every == ord("%"))
    ends = ends[ends >= 5]
    nineties = (every[ends - 2] == ord("9")) & (every[ends - 3] == ord(" "))
    hundreds = (every[ends - 1] == ord("0")) & (every[ends - 2] == ord("0")) & (every[ends - 3] == ord("1"))
    return [
        found.span()
        for end in ends[nineties | hundreds].tolist()
        if (found := _NEARLY_ALL.match(data, end - (4 if data[end - 2 : end - 1] == b"9" else 5))) is not None
    ]


def busy_disks(data: bytes) -> Iterator[tuple[int, int, str, int]]:
    """The lines of disks that were busy at least nine tenths of a tick: start of the record, end, disk, per cent."""
    for start, stop in _nearly_all(data):
        line = data.rfind(b"\n", max(0, start - 400), start) + 1
        found = _BUSY.search(data, line, stop)
        if found is not None:
            yield found.start(), found.end(), found["disk"].decode("ascii"), int(found["util"])
