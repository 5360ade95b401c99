"""Turns observations into evidence: re-reads each line before it is cited, and keeps what did not read back.

Must not choose what is cited.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from firstfault.model.diagnosis import Evidence, Time, Verification, Withdrawn
from firstfault.model.evidence import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.analysis.verify import Verifier
    from firstfault.model.evidence import Event, Failure, ProgressSample, SourceId, When

WINDOW = 400
"""Characters of a line that are shown."""
BEFORE = 120
"""Characters shown before the evidence, where it stands far in a long line."""
KNOWN = 60
"""Bytes by which the evidence is found in the text of its line."""


class Citer:
    """Cites lines of some sources; keeps count of what was re-read and withdrawn."""

    def __init__(self, verifier: Verifier, paths: Mapping[SourceId, str]) -> None:
        self.verifier = verifier
        self.paths = paths
        self.withdrawn: dict[tuple[str, int], Withdrawn] = {}

    def path(self, source: SourceId) -> str:
        """Shown path of a source."""
        return self.paths.get(source, "?")

    def ahead(self, events: Iterable[Event]) -> None:
        """Re-reads many lines in the order in which they lie, which costs far less than in any other."""
        for event in sorted(events, key=lambda e: (e.span.source, e.span.offset)):
            self.verifier.check(event)

    def event(self, event: Event) -> Evidence | None:
        """Evidence for an event, re-read; None (and noted) where its line does not read back."""
        ok, why = self.verifier.check(event)
        if not ok:
            self._withdraw(event.span, why)
            return None
        span = event.span
        return Evidence(
            file=self.path(span.source),
            line=span.line,
            column=span.column,
            text=self._window(event),
            time=time_of(event.when),
        )

    def events(self, events: Iterable[Event]) -> list[Evidence]:
        """Evidence for some events; those that do not read back are left out."""
        return [e for e in map(self.event, events) if e is not None]

    def failure(self, failure: Failure) -> Evidence | None:
        """Evidence for an entry of a launcher's list; None (and noted) where it does not read back."""
        return self._quoted(failure.span, failure.when)

    def sample(self, sample: ProgressSample) -> Evidence | None:
        """Evidence for a sign of progress; None (and noted) where it does not read back."""
        try:
            column = self.verifier.column(sample.source, sample.offset)
        except OSError:
            column = 1  # the quotation fails too, and says why
        return self._quoted(Span(sample.source, sample.offset, WINDOW, sample.line, column), sample.when)

    def verification(self) -> Verification:
        """The count of all that was cited so far."""
        return Verification(
            claims=self.verifier.claims, reread=self.verifier.reread, withdrawn=list(self.withdrawn.values())
        )

    def _window(self, event: Event) -> str:
        """Up to 400 characters of a line around the evidence."""
        if len(event.text) <= WINDOW:
            return event.text
        said, _ = self.verifier.quote(event.span, KNOWN)
        at = -1 if said is None else event.text.find(said)
        start = max(0, min(at - BEFORE, len(event.text) - WINDOW))
        return event.text[start : start + WINDOW]

    def _quoted(self, span: Span, when: When) -> Evidence | None:
        text, why = self.verifier.quote(span, WINDOW)
        if text is None:
            self._withdraw(span, why)
            return None
        return Evidence(file=self.path(span.source), line=span.line, column=span.column, text=text, time=time_of(when))

    def _withdraw(self, span: Span, why: str) -> None:
        file = self.path(span.source)
        self.withdrawn[(file, span.line)] = Withdrawn(file=file, line=span.line, why=why)


def time_of(when: When) -> Time | None:
    """An interval as ISO text; None where nothing is known."""
    if when.earliest is None and when.latest is None:
        return None
    return Time(earliest=_iso(when.earliest, when), latest=_iso(when.latest, when), zone=when.zone, dated=when.dated)


def seconds_of_zone(zone: str | None) -> float:
    """Seconds by which a zone's clock is ahead of UTC; 0 where the zone is not known."""
    return 0.0 if zone is None or zone == "Z" else _offset(zone).total_seconds()


def _iso(seconds: float | None, when: When) -> str | None:
    if seconds is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=round(seconds * 1e6))
    if when.zone is not None and when.zone != "Z":
        moment = moment.astimezone(timezone(_offset(when.zone)))
    text = moment.strftime("%H:%M:%S") if not when.dated else moment.strftime("%Y-%m-%dT%H:%M:%S")
    if not when.yeared and when.dated:
        text = moment.strftime("--%m-%dT%H:%M:%S")
    if moment.microsecond:
        text += f".{moment.microsecond // 1000:03d}"
    if when.zone is None:
        return text
    return text + ("Z" if when.zone == "Z" else when.zone)


def _offset(zone: str) -> timedelta:
    sign = -1 if zone.startswith("-") else 1
    digits = zone.lstrip("+-").replace(":", "")
    hours, minutes = int(digits[:2] or "0"), int(digits[2:4] or "0")
    return sign * timedelta(hours=hours, minutes=minutes)
