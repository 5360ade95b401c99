"""Words of which a line must hold one for any of some patterns to match it: asked first, since patterns are slow. Reads no line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.scan.literals import required_literals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def hints_of(patterns: Iterable[re.Pattern[str]]) -> re.Pattern[bytes]:
    """A pattern that is searched in the small letters of a line; it matches every line where a pattern needs no word."""
    words: set[bytes] = set()
    for pattern in patterns:
        for part in _alternatives(pattern.pattern):
            if part == "(?!)":
                continue
            needed = required_literals(f"(?i:{part})")
            if needed is None:
                return re.compile(b"")
            words.update(word.lower() for word in needed.words)
    # Where one word holds another, a line with it is found by the other.
    least = [w for w in words if not any(o != w and o in w for o in words)]
    return re.compile(b"|".join(map(re.escape, sorted(least))) or b"(?!)")


def _alternatives(pattern: str) -> Iterator[str]:
    """The parts of a pattern between the bars that stand in no group."""
    depth, start, inside, at = 0, 0, False, 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            at += 1 if pattern[at + 1 : at + 2] in {"]", "^"} else 0
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "|" and not depth:
            yield pattern[start:at]
            start = at + 1
        at += 1
    yield pattern[start:]
