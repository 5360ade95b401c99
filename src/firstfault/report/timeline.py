"""The timeline as text and as CSV.

Shows entries in the order in which they stand; must not order or fold anything.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from firstfault.analysis.wording import ranges
from firstfault.i18n import messages
from firstfault.report import phrases
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import separated
from firstfault.report.text import wrap
from firstfault.report.viewed import foot_of, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.model.diagnosis import Time
    from firstfault.model.views import Clock, Entry, Timeline
    from firstfault.redact import Redacted
    from firstfault.report.tabular import Cell

SAME = 1.5
"""Seconds within which both ends of an interval are one time: stamps of whole seconds are that wide."""
MOST = 120
"""Entries of one clock that the text shows; the middle is left out first."""
ROLE, GAP, NARROW = 8, 2, 4
"""Columns of the role and of the gaps, and the indent on a page on which nothing fits beside the time."""
CSV_HEAD = (
    "clock", "earliest", "latest", "exact", "role", "ranks", "hosts", "what", "signature", "count", "attempt", "file", "line",
    "last_file", "last_line", "text",
)  # fmt: skip


def render_timeline(safe: Redacted[Timeline], *, width: int = 100, every: bool = False, language: str = "en") -> str:
    """The timeline for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether all entries are shown, however many there are.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    view, say, width = localised(safe, language).content, messages(language), max(width, 40)
    clocks = {clock.number: clock for clock in view.clocks}
    lines = head_of(view, say, width)
    if view.left_out:
        lines += wrap(say["timeline.left_out"].format(n=view.left_out), width)
    if not view.events:
        lines += ["", say["timeline.none"]]
    parts = [(number, list(entries)) for number, entries in groupby(view.events, key=lambda e: e.clock)]
    for number, entries in parts:
        title = say["timeline.untimed"] if number is None else _title(clocks[number], say)
        lines += ["", *wrap(neutral(title), width)]
        lines += _table(entries, view, say, width, every=every)
    lines.append("")
    if len(view.clocks) > 1:
        lines += wrap(say["timeline.apart"], width)
    remarks = [say["timeline.noise"].format(n=view.noise)] if view.noise else []
    lines += foot_of(view, say, width, remarks)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _title(clock: Clock, say: Mapping[str, str]) -> str:
    which = say["timeline.utc" if clock.zone == "UTC" else "timeline.local"] if clock.dated else say["timeline.undated"]
    if not clock.yeared:
        which += f", {say['timeline.yearless']}"
    events = say["timeline.event" if clock.events == 1 else "timeline.events"].format(n=clock.events)
    files = say["timeline.file" if len(clock.files) == 1 else "timeline.files"].format(n=len(clock.files))
    return say["timeline.clock"].format(n=clock.number, which=which, events=events, files=files)


def _table(entries: Sequence[Entry], view: Timeline, say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    """Entries of one clock, with a line for each new day or zone."""
    if every or len(entries) <= MOST:
        return _rows(entries, view, say, width)
    half = MOST // 2
    lines = _rows(entries[:half], view, say, width)
    lines += ["", *wrap(say["timeline.cut"].format(n=len(entries) - 2 * half), width), ""]
    return lines + _rows(entries[-half:], view, say, width)


def _rows(entries: Sequence[Entry], view: Timeline, say: Mapping[str, str], width: int) -> list[str]:
    """Time and role of each entry, and beside them (on a narrow page below) what, who and where."""
    times = [interval(entry.time, say, exact=entry.exact) for entry in entries]
    stamp = max(map(len, times), default=0)
    indent = stamp + ROLE + 2 * GAP if stamp + ROLE + 2 * GAP <= width // 2 else NARROW
    lines: list[str] = []
    day = ""
    for time, entry in zip(times, entries, strict=True):
        if _day(entry.time) != day:
            day = _day(entry.time)
            lines += wrap(day, width)
        head = f"{time:<{stamp}}{'':{GAP}}{entry.role!s:<{ROLE}}{'':{GAP}}"
        text = wrap(neutral(_said(entry, view, say)), width - indent)
        if indent == NARROW:
            lines += [head, *(" " * indent + line for line in text)]
        else:
            lines += [head + text[0], *(" " * indent + line for line in text[1:])]
    return lines


def _said(entry: Entry, view: Timeline, say: Mapping[str, str]) -> str:
    """What happened, how often, to whom, and where it stands."""
    attempt = f"[{entry.attempt}] " if view.attempt is None else ""
    return f"{attempt}{phrases.happened(entry, say)} [{phrases.place(entry.evidence)}]"


def interval(time: Time | None, say: Mapping[str, str], *, exact: bool) -> str:
    """When something happened, without its day: a stamp, a range, one open end, or about when."""
    if time is None or (time.earliest is None and time.latest is None):
        return "-"
    start, end = _clock(time.earliest), _clock(time.latest)
    if start is None:
        return say["timeline.until"].format(time=_whole(end))
    if end is None:
        return say["timeline.from"].format(time=_whole(start))
    one_day = _day_of(time.earliest) == _day_of(time.latest)
    if one_day and abs(_seconds(end) - _seconds(start)) <= SAME:
        return start if exact else say["timeline.about"].format(time=_whole(start))
    last = _whole(end) if one_day else f"{_day_of(time.latest).partition(' ')[0]} {_whole(end)}"
    return say["timeline.range"].format(start=_whole(start), end=last)


def _whole(clock: str | None) -> str:
    """A time of day in whole seconds: the ends of an interval are no closer than that."""
    return (clock or "").partition(".")[0]


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def _clock(iso: str | None) -> str | None:
    """The time of day in an ISO text, without day and zone."""
    if iso is None:
        return None
    text = iso.rpartition("T")[2]
    for sign in "Z+-":
        text = text.partition(sign)[0]
    return text


def _day(time: Time | None) -> str:
    """Day and zone of an interval; empty where it has none."""
    return "" if time is None else _day_of(time.earliest if time.earliest is not None else time.latest)


def _day_of(iso: str | None) -> str:
    if iso is None or "T" not in iso:
        return ""
    day, _, rest = iso.rpartition("T")
    zone = rest[len(_clock(iso) or "") :]
    return f"{day} {zone}".rstrip()


def render_timeline_csv(safe: Redacted[Timeline]) -> str:
    """The timeline as CSV: a row for each entry, the columns of `CSV_HEAD`, ending in a newline."""
    return separated(CSV_HEAD, map(timeline_row, safe.content.events))


def timeline_row(entry: Entry) -> list[Cell]:
    """The row of one entry with the columns of `CSV_HEAD`."""
    time, last = entry.time, entry.last
    return [
        entry.clock,
        None if time is None else time.earliest,
        None if time is None else time.latest,
        entry.exact,
        str(entry.role),
        ranges(entry.ranks, most=len(entry.ranks)).replace(", ", " "),
        " ".join(entry.hosts),
        entry.what,
        entry.signature,
        entry.count,
        entry.attempt,
        entry.evidence.file,
        entry.evidence.line,
        None if last is None else last.file,
        None if last is None else last.line,
        entry.evidence.text,
    ]
