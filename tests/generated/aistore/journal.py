"""The log of one daemon: records in, files out, as the daemons' own logger writes them.

It knows headers, rotation, restarts, lost tails, cut records and the two severities of files; nothing of what the records
say. Times are seconds since the epoch (UTC); files show the daemon's local time.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINE_BUFFER = 2048
"""An INFO record longer than that loses its tail and its newline."""


@dataclass(frozen=True)
class Zone:
    """A wall clock."""

    minutes: int
    name: str
    """As Go prints it: an abbreviation, or the offset where the zone has none."""

    def local(self, at: float) -> dt.datetime:
        moment = dt.datetime.fromtimestamp(at, dt.timezone.utc) + dt.timedelta(minutes=self.minutes)
        return moment.replace(tzinfo=None)


class Record(NamedTuple):
    at: float
    severity: str
    place: str
    text: str
    mark: str = ""
    """A name by which the truth refers to the line; empty for most."""


class Life(NamedTuple):
    """One process of the daemon."""

    start: float
    end: float | None
    """When it ended; None where it still runs."""
    lost: float
    """Seconds of the end that were never flushed."""


class Mark(NamedTuple):
    file: str
    line: int
    text: str


@dataclass
class Rendered:
    files: dict[str, bytes] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    """Where marked lines stand; those that were lost are missing."""


@dataclass
class Journal:
    role: str
    host: str
    zone: Zone
    pid: int
    title: str
    """Second line of a rotated file."""
    go: str
    skew: float = 0.0
    """Seconds by which this daemon's clock is ahead."""
    cut: float = float("inf")
    """From when on what it wrote is not here."""
    records: list[Record] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    raw: list[tuple[float, str, str]] = field(default_factory=list)
    """What goes to stderr only, such as a panic: time, text, mark."""

    def add(self, at: float, severity: str, place: str, text: str, mark: str = "") -> None:
        self.records.append(Record(at, severity, place, text, mark))

    @property
    def short_host(self) -> str:
        """The name in headers and file names."""
        if "." in self.host:
            return self.host.split(".", 1)[0]
        if len(self.host) < 16 or "-" not in self.host:
            return self.host
        return "-".join(self.host.split("-")[:2])

    def written(self, life: Life) -> list[Record]:
        """The records of one process that reached a file, in order."""
        end = float("inf") if life.end is None else life.end - life.lost
        mine = [record for record in self.records if life.start <= record.at < min(end, self.cut)]
        return sorted(mine, key=lambda record: record.at)

    def line(self, record: Record) -> str:
        stamp = self.zone.local(record.at + self.skew).strftime("%H:%M:%S.%f")
        place = f"{record.place} " if record.place else ""
        return f"{record.severity} {stamp} {place}{record.text}\n"

    def render(self, max_size: int, since: float, severities: Sequence[str] = ("INFO",)) -> Rendered:
        """The files that are left: everything from `since` on, rotated where a file has `max_size` bytes."""
        out = Rendered()
        for life in self.lives:
            for severity in severities:
                chosen = [r for r in self.written(life) if r.at >= since and (severity == "INFO" or r.severity != "I")]
                self._files(out, life, chosen, severity, max_size, since)
        return out

    def _files(
        self, out: Rendered, life: Life, records: Iterable[Record], severity: str, max_size: int, since: float
    ) -> None:
        text = ""
        name, text = self._new(max(life.start, since), severity, started=life.start >= since)
        number = text.count("\n")
        if life.start >= since:
            out.marks.setdefault("started", Mark(name, 1, text.split(",", 1)[0]))
        pieces = [text]
        size = len(text)
        for record in records:
            if size >= max_size:
                out.files[name] = "".join(pieces).encode()
                name, text = self._new(record.at, severity, started=False)
                pieces, size, number = [text], len(text), text.count("\n")
            line = self.line(record)
            if record.severity == "I" and len(line.encode()) > LINE_BUFFER:
                line = line[:LINE_BUFFER].rstrip("\n")
            if record.mark and record.mark not in out.marks:
                out.marks[record.mark] = Mark(name, number + 1, record.text)
            number += line.count("\n")
            pieces.append(line)
            size += len(line)
        out.files[name] = "".join(pieces).encode()

    def _new(self, at: float, severity: str, *, started: bool) -> tuple[str, str]:
        local = self.zone.local(at + self.skew)
        name = f"{self.role}.{self.short_host}.{severity}.{local:%m%d-%H%M%S}.{self.pid}"
        word = "Started up" if started else "Rotated"
        head = f"{word} at {local:%Y/%m/%d %H:%M:%S}, host {self.short_host}, {self.go} for linux/amd64\n"
        return name, head if started else f"{head}{self.title}\n"

    def stderr(self, since: float) -> list[tuple[float, str, str]]:
        """Time, line and mark of everything on a pod's stderr, where the daemon logs nowhere else."""
        lines = []
        for life in self.lives:
            # Nothing is buffered on the way to stderr: what files lose at a kill is there.
            whole = life._replace(lost=0.0)
            lines += [(r.at, self.line(r), r.mark) for r in self.written(whole) if r.at >= since]
        lines += [(at, text + "\n", mark) for at, text, mark in self.raw if at >= since]
        return sorted(lines, key=lambda entry: entry[0])
