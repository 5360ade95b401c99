"""Whether a run came after an incident and went past its point: by the days that its lines tell, and by its steps.

A day that cannot be put on one clock with that of the incident shows nothing, and is told. Must not read files, and must not
say what the run came to (see `verification`).
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.incidents.days import Reading, is_to_come, reading
from firstfault.readers.steplines import TRAINING, read_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.incidents.record import Record
    from firstfault.model.diagnosis import Diagnosis, Evidence, Time

AHEAD, BEHIND = timedelta(hours=14), timedelta(hours=12)
"""How far a clock may be ahead of UTC and behind it."""
DAY = timedelta(days=1)
_NEVER = datetime(9999, 1, 1)  # noqa: DTZ001 - compared with the times of logs, as they print them
_OF_FORM = {
    "iteration": "megatron",
    "DeepSpeed step": "deepspeed",
    "NeMo": "nemo",
    "batch": "composer",
    "loss table": "transformers",
}
"""Form of a step line -> the framework that alone prints it so."""
KEPT = 4
"""Readings that are kept of each kind: the earliest of them decide."""


class Ran(Struct, frozen=True, kw_only=True):
    """What the lines of a run tell of when it ran and of how far it went."""

    readings: tuple[Reading, ...] = ()
    """The earliest stamps that tell a year."""
    yearless: tuple[Reading, ...] = ()
    """Stamps that tell a day and no year, the first of each source."""
    began_after: int | None = None
    """The step behind which it began; None where its first lines do not show how far apart their steps are."""
    total: int | None = None
    """Steps that it was to do, as its lines print them."""
    last: date | None = None
    """The day of its last lines that tell a year; None where none is known."""
    passed_over: str = ""
    """A line by which it met a fault of the incident's kind and went on; empty where none does."""
    smaller: str = ""
    """A line by which it went on with fewer ranks than it had; empty where none does."""
    framework: str = ""
    """The framework whose form its step lines have; empty where any program may print such lines."""
    anew: str = ""
    """A line by which it, or a part of it, failed and was begun anew; empty where none does."""
    error: str = ""
    """A line amid its steps that is an error of a kind that nobody knows; empty where there is none."""
    stood: tuple[int, int, int] | None = None
    """The one long time between two of its steps, in seconds, with both steps, where the incident was one of waiting; None where there is none."""
    back: tuple[int, int] | None = None
    """Two steps, of which the second follows the first and lies well before it; None where there are none."""


def ran_of_lines(sources: Iterable[Iterable[str]], *, began_after: int | None = None, total: int | None = None) -> Ran:
    """What the stamps of the first lines of each source tell."""
    readings: list[Reading] = []
    yearless: list[Reading] = []
    for lines in sources:
        found = [r for r in map(reading, lines) if r is not None]
        readings += _earliest([r for r in found if r.low is not None])
        yearless += [r for r in found if r.low is None][:1]
    return Ran(
        readings=tuple(_earliest(readings)),
        yearless=tuple(dict.fromkeys(yearless)),
        began_after=began_after,
        total=total,
    )


def last_day(sources: Iterable[Iterable[str]]) -> date | None:
    """The latest day that the given lines may tell; None where none tells a year."""
    found = (r.high.date() for lines in sources for r in map(reading, lines) if r is not None and r.high is not None)
    return max(found, default=None)


def _earliest(readings: list[Reading]) -> list[Reading]:
    """The earliest with a zone and the earliest without one: which of two such comes first is not known."""
    kept: list[Reading] = []
    for zoned in (False, True):
        those = [r for r in readings if r.low is not None and (r.low.tzinfo is not None) is zoned]
        kept += sorted(those, key=lambda r: _plain(r.low))[:KEPT]
    return kept


def ran_of_diagnosis(diagnosis: Diagnosis) -> Ran:
    """The same by the lines that a diagnosis quotes: all that there is of a stored one."""
    lines = [(entry.time, entry.evidence) for entry in diagnosis.timeline]
    lines += [(line.time, line) for link in diagnosis.chain for line in link.evidence]
    told = ran_of_lines([[line.text for _, line in lines]])
    total = total_of(diagnosis)
    step = diagnosis.job.get("last_step")
    framework = framework_of([] if step is None else [line.text.encode("utf-8", "replace") for line in step.evidence])
    if told.yearless and not told.readings:
        # The year of their times may be that of the file's last change.
        return Ran(yearless=told.yearless, total=total, framework=framework)
    readings = [r for when, line in lines if (r := _by_time(when, line)) is not None]
    readings = _earliest([*told.readings, *readings])
    return Ran(readings=tuple(readings), yearless=told.yearless, total=total, framework=framework)


def framework_of(lines: Iterable[bytes]) -> str:
    """The framework whose form the step lines have; empty where they have none, or those of several."""
    shapes = (read_progress(line) for line in lines)
    found = {_OF_FORM[s.what] for s in shapes if s is not None and s.kind == TRAINING and s.what in _OF_FORM}
    return found.pop() if len(found) == 1 else ""


def total_of(diagnosis: Diagnosis) -> int | None:
    """Steps that a run was to do, as the line of its last step prints them; None where it prints none."""
    last = diagnosis.job.get("last_step")
    shapes = () if last is None else (read_progress(line.text.encode("utf-8", "replace")) for line in last.evidence)
    return next((s.total for s in shapes if s is not None and s.total is not None), None)


def _by_time(when: Time | None, line: Evidence) -> Reading | None:
    if when is None or not when.dated or reading(line.text) is not None:
        return None
    # A line without a stamp came somewhere between its neighbours.
    low, high = moment_of(when.earliest or when.latest or ""), moment_of(when.latest or when.earliest or "")
    return None if low is None or high is None else Reading(low, high, when.earliest or when.latest or "")


def moment_of(text: str) -> datetime | None:
    """A time as ISO text; None where it is none, or tells no year."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


class _Came(Struct, frozen=True):
    """When the incident came at the latest, as its record tells it."""

    at: datetime
    day: date
    said: str


def _came(record: Record) -> _Came | None:
    failed_at = moment_of(record.one("failed_at"))
    if failed_at is not None:
        return _Came(failed_at, failed_at.date(), f"at {failed_at.isoformat()}")
    day = moment_of(record.one("date"))
    if day is None:
        return None
    day = day.replace(tzinfo=None)
    return _Came(day + DAY, day.date(), f"on {record.one('date')} (`failed_at` of its record tells no time)")


def not_after(record: Record, ran: Ran, stated: date | None = None) -> str:
    """Why a run may not have begun after the incident, in words; empty where it did.

    Args:
        record: the incident.
        ran: what the lines of the run tell.
        stated: the day of the run as a person gave it; it counts where the lines tell none of their own.
    """
    came = _came(record)
    if came is None:
        return (
            "the re-run completed, but the incident's record tells no day: whether it ran afterwards is not known;"
            " write `date` into its head"
        )
    readings = [*ran.readings, *_placed(ran, stated)]
    for found in sorted(readings, key=lambda r: _plain(r.low)):
        reason = _before(found, came)
        if reason:
            return f"the re-run completed, but {reason}"
    if readings:
        return ""
    if stated is None:
        told = "none of its lines tells a day"
        if ran.yearless:
            told = f"its lines tell a day without a year (`{ran.yearless[0].said}`)"
        return (
            f"the re-run completed, but {told}, and the incident came {came.said}: whether it ran afterwards is not known;"
            " where you know it, say so by --date YYYY-MM-DD"
        )
    if stated < came.day:
        return f"the re-run completed, but by your word on {stated.isoformat()}, and the incident came {came.said}"
    return ""


def to_come(ran: Ran, today: date | None) -> str:
    """Why the clock of a run is wrong, in words: it tells a day that is still to come. Empty where none does."""
    if today is None:
        return ""
    days = [r.low.date() for r in ran.readings if r.low is not None]
    late = [day for day in (*days, *([] if ran.last is None else [ran.last])) if is_to_come(day, today)]
    if not late:
        return ""
    return f"the re-run completed, but a line of it is of {max(late).isoformat()}, which is still to come: its clock is wrong"


def day_of_run(ran: Ran, stated: date | None = None, *, latest: bool = False) -> date | None:
    """The day on which a run was; None where neither its lines nor a person tell it.

    Args:
        ran: what its lines tell.
        stated: the day as a person gave it, where the lines tell none.
        latest: the latest day that is told, in place of the first: when a run that failed came to its end.
    """
    readings = [*ran.readings, *_placed(ran, stated)]
    highs = [r.high.date() for r in readings if r.high is not None]
    if latest:
        return max(
            [*highs, *([] if stated is None else [stated]), *([] if ran.last is None else [ran.last])], default=None
        )
    return min((r.low.date() for r in readings if r.low is not None), default=stated)


def _before(found: Reading, came: _Came) -> str:
    if found.low is None or found.high is None:
        return ""
    known = (found.low.tzinfo is None) == (came.at.tzinfo is None)
    at = f"lines of it are of {found.low.isoformat()}, and the incident came {came.said}"
    if _is_before(found.high, came.at, known=known, surely=True):
        return at
    if not _is_before(found.low, came.at, known=known, surely=False):
        return ""
    if found.low != found.high and not _is_before(found.high, came.at, known=known, surely=False):
        first, last = found.low.isoformat(), found.high.isoformat()
        return f"`{found.said}` in it may mean {first} or {last}, and the incident came {came.said}"
    return at if known else f"{at}: one of the two clocks tells no zone, so that it may have come before"


def _is_before(moment: datetime, at: datetime, *, known: bool, surely: bool) -> bool:
    """Whether a moment is before another; of two clocks of which one tells no zone, whether it may be or surely is."""
    one, other = _plain(moment), _plain(at)
    if known:
        return one < other
    zoned = moment.tzinfo is not None
    if surely:
        return one < other - (AHEAD if zoned else BEHIND)
    return one < other + (BEHIND if zoned else AHEAD)


def _plain(moment: datetime | None) -> datetime:
    """The moment on the clock of UTC where it tells a zone, as it stands else."""
    if moment is None:
        return _NEVER
    offset = moment.utcoffset()
    return moment if offset is None else moment.replace(tzinfo=None) - offset


def _placed(ran: Ran, stated: date | None) -> Iterator[Reading]:
    """Days without a year in the year that other lines of the run, or a person, tell."""
    near = _plain(ran.readings[0].low) if ran.readings else None
    if near is None and stated is not None:
        near = datetime.combine(stated, time())
    if near is None:
        return
    for found in ran.yearless:
        years = (near.year - 1, near.year, near.year + 1)
        spans = [span for year in years if (span := _span(year, found.yearless)) is not None]
        if spans:
            low, high = min(spans, key=lambda span: abs(span[0] - near))
            yield Reading(low, high, found.said)


def _span(year: int, parts: tuple[int, ...]) -> tuple[datetime, datetime] | None:
    """The moment in a year; the whole day where no time is told."""
    month, day, hour, minute, second = (*parts, 0, 0, 0)[:5]
    try:
        low = datetime.combine(date(year, month, day), time(hour, minute, second))
    except ValueError:
        return None
    return low, low if len(parts) > 2 else low + DAY
