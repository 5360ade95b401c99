"""Decides, with Python `re`, whether one line is of a signature, and takes its fields.

This is the truth that every engine must agree with: engines only propose lines.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.model.words import Role
from firstfault.signatures.digits import blind
from firstfault.signatures.quoted import hangs_on_number, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.patterns import SignatureFile

DIGITS = 100
"""Digits in a row of which no field is made: no number of a job has as many, and Python refuses to read thousands."""
_ENDLESS = re.compile(rb"\d{%d}" % DIGITS)
MATCHES_PER_LINE = 8
"""Two ranks glued in one line are both taken; more than this many are one flood."""


class Match:
    """A match in one segment; its fields are taken when they are asked for, since most of a flood is only counted."""

    __slots__ = ("_extract", "_found", "_limit", "end", "start")

    def __init__(self, found: re.Match[bytes], extract: Sequence[re.Pattern[bytes]], limit: int) -> None:
        self.start = found.start()
        self.end = found.end()
        self._found = found
        self._extract = extract
        self._limit = limit

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """Where the named facts of the line stand in it: of the match itself, then of the further expressions, nearest to it."""
        places = _groups(self._found) if self._found.re.groups else {}
        segment = self._found.string
        for pattern in self._extract:
            found = pattern.search(segment, self.start, self._limit) or pattern.search(segment)
            if found is not None:
                places |= {name: place for name, place in _groups(found).items() if name not in places}
        return places

    @property
    def fields(self) -> dict[str, str]:
        """Named facts of the line."""
        segment = self._found.string
        return {name: segment[a:b].decode("utf-8", "backslashreplace") for name, (a, b) in self.places.items()}


@cache
def _compile(pattern: str) -> re.Pattern[bytes]:
    """Shared by all matchers: a process may read the library several times."""
    return lazy(pattern.encode("utf-8"))


_SPOKEN = frozenset({Role.CAUSE, Role.EFFECT, Role.TEARDOWN})


class Matcher:
    """The compiled form of one signature."""

    def __init__(self, spec: SignatureFile, words: Sequence[tuple[bytes, ...]] = ()) -> None:
        """`words`: for each pattern what a line must hold, see `Signature.words`; it spares compiling and searching."""
        needed = dict(zip(spec.patterns, words, strict=False))
        self._spec = spec
        self._anchored = [(needed.get(p, ()), _compile(p[1:])) for p in spec.patterns if p.startswith("^")]
        self._free = [(needed.get(p, ()), _compile(p)) for p in spec.patterns if not p.startswith("^")]
        self._unless = [_compile(p) for p in spec.unless]
        self._extract = [_compile(p) for p in spec.extract]
        self._quotable = spec.role in _SPOKEN
        self._in_warnings = spec.in_warnings

    def find(self, segment: bytes, starts: Sequence[int] = (0,)) -> list[Match]:
        """Finds this signature in one segment (a line without its end, or one part of a bar redrawn by carriage returns).

        Args:
            segment: the bytes.
            starts: positions at which a message may begin (after stream prefixes); a pattern with a leading `^`
                matches only there.

        Returns:
            Matches that do not overlap, leftmost first, at most `MATCHES_PER_LINE`; empty where it is not of this signature.
        """
        return self._of(self._spans(segment, starts), segment, starts)

    def look(self, segment: bytes, starts: Sequence[int] = (0,)) -> tuple[list[Match], bool]:
        """As `find`, and whether the same is found, in the same places, in every segment that differs in digits alone."""
        spans = self._spans(segment, starts)
        if not spans:
            return [], self._blind[0]
        lasting = all(self._blind) and not (self._quotable and any(hangs_on_number(segment, *m.span()) for m in spans))
        return self._of(spans, segment, starts), lasting

    @cached_property
    def _blind(self) -> tuple[bool, bool]:
        """Whether the patterns, and whether the expressions that are asked where one of them matched, see no digits."""
        spec = self._spec
        return all(map(blind, spec.patterns)), all(map(blind, (*spec.unless, *spec.extract)))

    def _of(self, spans: list[re.Match[bytes]], segment: bytes, starts: Sequence[int]) -> list[Match]:
        """What is left of the places at which patterns match."""
        if not spans or any(u.search(segment) for u in self._unless):
            return []
        if self._quotable:
            spans = [m for m in spans if not quoted(segment, m.start(), m.end(), starts, in_warnings=self._in_warnings)]
            if not spans:
                return []
        if len(spans) == 1:
            return [Match(spans[0], self._extract, len(segment))]
        spans.sort(key=lambda m: (m.start(), -m.end()))
        kept: list[Match] = []
        end = -1
        for i, m in enumerate(spans):
            if m.start() < end or len(kept) == MATCHES_PER_LINE:
                continue
            end = max(m.end(), m.start() + 1)
            limit = next((n.start() for n in spans[i + 1 :] if n.start() >= end), len(segment))
            kept.append(Match(m, self._extract, limit))
        return kept

    @property
    def placed(self) -> bool:
        """Whether it matters where messages start."""
        return self._quotable or bool(self._anchored)

    @property
    def several(self) -> bool:
        """Whether it has several patterns, of which two may match one line."""
        return len(self._anchored) + len(self._free) > 1

    def _spans(self, segment: bytes, starts: Sequence[int]) -> list[re.Match[bytes]]:
        spans: list[re.Match[bytes]] = []
        for words, pattern in self._free:
            if _may_hold(segment, words):
                spans += pattern.finditer(segment)
        for words, pattern in self._anchored:
            for start in starts if _may_hold(segment, words) else ():
                found = pattern.match(segment, start)
                if found is not None:
                    spans.append(found)
        return spans


def _may_hold(segment: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether a segment holds one of some words, or nothing is known of what it must hold."""
    for word in words:  # a plain loop: this is asked for every proposed line
        if word in segment:
            return True
    return not words


def _groups(match: re.Match[bytes]) -> dict[str, tuple[int, int]]:
    """Where the groups of a match stand; what Python would not turn into a number is left out."""
    places = {name: match.span(number) for name, number in match.re.groupindex.items()}
    return {
        name: (a, b)
        for name, (a, b) in places.items()
        if a >= 0 and (b - a < DIGITS or _ENDLESS.search(match.string, a, b) is None)
    }


@cache
def engine_pattern(pattern: str) -> str:
    """The form of a pattern that engines get: without a leading `^` (they do not know where a message starts)."""
    return pattern.removeprefix("^")
