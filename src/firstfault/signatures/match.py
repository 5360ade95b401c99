"""Decides, with Python `re`, whether one line is of a signature, and takes its fields.

This is the truth that every engine must agree with: engines only propose lines.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.model.patterns import SignatureFile

MATCHES_PER_LINE = 8
"""Two ranks glued in one line are both taken; more than this many are one flood."""


class Match(NamedTuple):
    """A match in one segment."""

    start: int
    end: int
    fields: dict[str, str]


def _compile(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode("utf-8"))


class Matcher:
    """The compiled form of one signature."""

    __slots__ = ("_anchored", "_extract", "_free", "_unless")

    def __init__(self, spec: SignatureFile) -> None:
        self._anchored = [_compile(p[1:]) for p in spec.patterns if p.startswith("^")]
        self._free = [_compile(p) for p in spec.patterns if not p.startswith("^")]
        self._unless = [_compile(p) for p in spec.unless]
        self._extract = [_compile(p) for p in spec.extract]

    def find(self, segment: bytes, starts: Sequence[int] = (0,)) -> list[Match]:
        """Finds this signature in one segment (a line without its end, or one part of a bar redrawn by carriage returns).

        Args:
            segment: the bytes.
            starts: positions at which a message may begin (after stream prefixes); a pattern with a leading `^`
                matches only there.

        Returns:
            Matches that do not overlap, leftmost first, at most `MATCHES_PER_LINE`; empty where it is not of this signature.
        """
        spans = sorted(self._spans(segment, starts), key=lambda m: (m.start(), -m.end()))
        if not spans or any(u.search(segment) for u in self._unless):
            return []
        kept: list[Match] = []
        end = -1
        for i, m in enumerate(spans):
            if m.start() < end or len(kept) == MATCHES_PER_LINE:
                continue
            end = max(m.end(), m.start() + 1)
            limit = next((n.start() for n in spans[i + 1 :] if n.start() >= end), len(segment))
            kept.append(Match(m.start(), m.end(), self._fields(segment, m, limit)))
        return kept

    def _spans(self, segment: bytes, starts: Sequence[int]) -> Iterator[re.Match[bytes]]:
        for pattern in self._free:
            yield from pattern.finditer(segment)
        for pattern in self._anchored:
            for start in starts:
                found = pattern.match(segment, start)
                if found is not None:
                    yield found

    def _fields(self, segment: bytes, match: re.Match[bytes], limit: int) -> dict[str, str]:
        fields = _groups(match)
        for pattern in self._extract:
            found = pattern.search(segment, match.start(), limit) or pattern.search(segment)
            if found is not None:
                for name, value in _groups(found).items():
                    fields.setdefault(name, value)
        return fields


def _groups(match: re.Match[bytes]) -> dict[str, str]:
    return {k: v.decode("utf-8", "backslashreplace") for k, v in match.groupdict().items() if v is not None}


@cache
def engine_pattern(pattern: str) -> str:
    """The form of a pattern that engines get: without a leading `^` (they do not know where a message starts)."""
    return pattern.removeprefix("^")
