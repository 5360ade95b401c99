"""Holds every cited line against the raw bytes; a claim whose line does not read back is withdrawn.

Reads nothing itself: the pipeline hands in a reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from firstfault.analysis.recorder_words import ENTRY, STATUS
from firstfault.model.evidence import Event

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId, Span


class Reader(Protocol):
    """Gives raw bytes of a source again."""

    def read(self, source_id: SourceId, offset: int, length: int) -> bytes:
        """Bytes of a source from an offset; shorter at its end."""


class Checked(Struct, frozen=True):
    """Result for one cited line."""

    event: Event
    ok: bool
    why: str = ""


NO_LINES = frozenset({ENTRY, STATUS})
Cited = tuple[int, int, int, str]
"""Source, offset, line and text of an event."""
CHUNK = 1 << 20
REACH = 1 << 14
"""Bytes that are read on each side of a place to show the lines around it."""
COUNTED = 64 << 20
"""Bytes up to which the line number of a citation is counted again from the start of its source."""
COUNTED_IN_ALL = 128 << 20
"""Bytes that are counted again over all sources: a job of a thousand large files must not be read twice."""


def cited(event: Event) -> Cited:
    """What an event claims to stand where."""
    return (int(event.span.source), event.span.offset, event.span.line, event.text)


class Verifier:
    """Re-reads cited lines; each place is read once."""

    def __init__(
        self,
        reader: Reader,
        *,
        decode: Decoder,
        count: Counter | None = None,
        read_again: frozenset[Cited] = frozenset(),
    ) -> None:
        self._reader = reader
        self._decode = decode
        self._count = _newlines if count is None else count
        self._done: dict[tuple[int, int, int], tuple[bool, str]] = {}
        self._lines: dict[int, list[int]] = {}
        self._near: dict[int, tuple[int, int]] = {}
        """Per source the offset up to which newlines were counted last, and how many there were."""
        self._counted = 0
        self._read_again = read_again
        """Entries of dumps, which are no lines: the pipeline has read them again from their bytes."""

    @property
    def claims(self) -> int:
        """Number of places that were cited."""
        return len(self._done)

    @property
    def reread(self) -> int:
        """Number of places that read back."""
        return sum(1 for ok, _ in self._done.values() if ok)

    def check(self, event: Event) -> tuple[bool, str]:
        """Whether an event's line reads back, and why not."""
        span = event.span
        key = (int(span.source), span.offset, span.line)
        if event.signature in NO_LINES:
            same = cited(event) in self._read_again
            self._done[key] = (same, "" if same else "the dump does not hold this entry now")
        elif key not in self._done:
            self._done[key] = self._read_back(span, event.text)
        return self._done[key]

    def quote(self, span: Span, most: int) -> tuple[str | None, str]:
        """The text that stands at a place now, up to a line end and a number of bytes; None and why where there is none."""
        key = (int(span.source), span.offset, span.line)
        text, why = None, ""
        try:
            raw = self._reader.read(span.source, span.offset, max(min(span.length, most), 1))
            number = self._line_number(span)
        except OSError as error:
            why = f"could not be read again: {error}"
        else:
            text = self._decode(raw).lstrip("\r\n").split("\n", 1)[0].strip() or None
            if text is None:
                why = "nothing stands at that place now"
            elif number is not None and number != span.line:
                text, why = None, f"the place is in line {number}"
        self._done.setdefault(key, (text is not None, why))
        return text, why

    def ahead_of(self, span: Span, most: int) -> str:
        """What stands before a place in its line, such as `[rank2]: `; empty where that is nothing, or more than so many bytes."""
        start = max(0, span.offset - most - 1)
        if span.column <= 1 or start == span.offset:
            return ""
        try:
            raw = self._reader.read(span.source, start, span.offset - start)
        except OSError:
            return ""
        at = max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1
        # Without a line end in it the line began further ahead, or with the file.
        whole = at > 0 or start == 0
        return self._decode(raw[at:]) if whole and len(raw) == span.offset - start else ""

    def _read_back(self, span: Span, text: str) -> tuple[bool, str]:
        length = max(span.length, 1)
        try:
            raw = self._reader.read(span.source, span.offset, length)
            number = self._line_number(span)
        except OSError as error:
            return False, f"could not be read again: {error}"
        if len(raw) < length:
            return False, "the source ends before that place now"
        again = self._decode(raw)
        head, there = text.lstrip()[:200], again.strip()[:200]
        if head and head not in again and (not there or there not in text):
            return False, "the bytes at that place are different now"
        if number is not None and number != span.line:
            return False, f"the place is in line {number}"
        return True, ""

    def _line_number(self, span: Span) -> int | None:
        """Number of the line that holds an offset, counted again; None where that would be too far."""
        if span.offset > COUNTED:
            return None
        counts = self._lines.setdefault(int(span.source), [0])
        whole = span.offset // CHUNK
        if self._counted + (whole + 1 - len(counts)) * CHUNK > COUNTED_IN_ALL:
            return None
        self._counted += max(0, whole + 1 - len(counts)) * CHUNK
        while len(counts) <= whole:
            at = (len(counts) - 1) * CHUNK
            counts.append(counts[-1] + self._count(self._reader.read(span.source, at, CHUNK)))
        # Citations in the order of their places are counted on from one another: one pass, however many there are.
        start, before = self._near.get(int(span.source), (0, 0))
        if not whole * CHUNK <= start <= span.offset:
            start, before = whole * CHUNK, counts[whole]
        rest = self._reader.read(span.source, start, span.offset - start) if span.offset > start else b""
        before += self._count(rest)
        self._near[int(span.source)] = (span.offset, before)
        return before + 1

    def around(self, span: Span, lines: int) -> tuple[int, list[str]]:
        """The line of a place with those before and after it, as they stand now.

        Args:
            span: the place.
            lines: how many to give on each side; fewer where the source, or what is read of it, ends.

        Returns:
            The number of the first of them, and the lines without their ends; none where nothing can be read.
        """
        start, asked = max(0, span.offset - REACH), span.length + REACH
        try:
            before = self._reader.read(span.source, start, span.offset - start)
            after = self._reader.read(span.source, span.offset, asked)
        except OSError:
            return span.line, []
        above, below = before.split(b"\n"), after.split(b"\n")
        whole = above[:-1] if start == 0 else above[1:-1]  # what is read may begin within a line
        rest = below[1:] if len(after) < asked else below[1:-1]
        if len(after) < asked and rest and not rest[-1]:
            rest = rest[:-1]
        head = whole[max(0, len(whole) - lines) :]
        kept = [*head, above[-1] + below[0], *rest[:lines]]
        return span.line - len(head), [self._decode(line.rstrip(b"\r")) for line in kept]

    def column(self, source: SourceId, offset: int) -> int:
        """1-based byte in its line of an offset; 1 where the line begins too far before it to be looked for.

        Raises:
            OSError: the source can no longer be read.
        """
        reach = 1 << 12
        while True:
            start = max(0, offset - reach)
            before = self._reader.read(source, start, offset - start)
            cut = before.rfind(b"\n")
            if cut >= 0 or start == 0:
                return len(before) - cut
            if reach >= CHUNK:
                return 1
            reach *= 16


class Decoder(Protocol):
    """Turns raw bytes of a line into the text that is shown."""

    def __call__(self, raw: bytes, /) -> str:
        """Text; undecodable bytes stand as hexadecimal escapes."""


class Counter(Protocol):
    """Counts the newlines of some bytes; handed in where a faster way is at hand."""

    def __call__(self, raw: bytes, /) -> int:
        """Number of newlines."""


def _newlines(raw: bytes) -> int:
    return raw.count(b"\n")
