"""Turns observations into evidence: re-reads each line before it is cited, and keeps what did not read back.

Must not choose what is cited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.verify import NO_LINES
from firstfault.model.diagnosis import Evidence, Verification, Withdrawn
from firstfault.model.evidence import Span
from firstfault.pipelines.times import time_of

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
        self.spans: dict[tuple[str, int], Span] = {}
        """File and line of what was cited -> where it stands."""

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
        self.spans.setdefault((self.path(span.source), span.line), span)
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
        """Up to 400 characters of a line around the evidence, with the label before it where there is room for that."""
        said = None if event.signature in NO_LINES else self.verifier.quote(event.span, KNOWN)[0]
        if len(event.text) <= WINDOW:
            begins = said is not None and event.text.startswith(said)
            label = self.verifier.ahead_of(event.span, BEFORE) if begins and event.span.column > 1 else ""
            return event.text if len(label) + len(event.text) > WINDOW else label + event.text
        at = -1 if said is None else event.text.find(said)
        start = max(0, min(at - BEFORE, len(event.text) - WINDOW))
        return event.text[start : start + WINDOW]

    def _quoted(self, span: Span, when: When) -> Evidence | None:
        text, why = self.verifier.quote(span, WINDOW)
        if text is None:
            self._withdraw(span, why)
            return None
        self.spans.setdefault((self.path(span.source), span.line), span)
        return Evidence(file=self.path(span.source), line=span.line, column=span.column, text=text, time=time_of(when))

    def _withdraw(self, span: Span, why: str) -> None:
        file = self.path(span.source)
        self.withdrawn[(file, span.line)] = Withdrawn(file=file, line=span.line, why=why)
