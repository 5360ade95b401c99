"""Literals that every match of a pattern must hold; what the plainest engine searches and the cost lint measures."""

from __future__ import annotations

import re
import sys
from typing import Any

from msgspec import Struct

if sys.version_info >= (3, 11):
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:  # pragma: no cover - the other branch is tested on its own Python
    import sre_constants as constants
    import sre_parse as parser

_MOST = 32
"""More alternatives than this are no help."""


class Literals(Struct, frozen=True):
    """Byte strings of which every match holds at least one."""

    words: tuple[bytes, ...]
    any_case: bool = False
    """Whether the pattern disregards case; the words are lower case then."""

    @property
    def shortest(self) -> int:
        """Length of the shortest word in bytes."""
        return min(len(w) for w in self.words)


def required_literals(pattern: str) -> Literals | None:
    """The best set of literals of a pattern: that whose shortest word is longest; None where there is none.

    Raises:
        re.error: the pattern is none.
    """
    tree: Any = parser.parse(pattern.encode("utf-8"))  # type: ignore[arg-type] # bytes are taken too
    any_case = bool(tree.state.flags & re.IGNORECASE) or _folds(tree)
    found = _best(_sets(list(tree)))
    if found is None:
        return None
    words = {w.lower() for w in found} if any_case else found
    return Literals(tuple(sorted(words)), any_case)


def _folds(tree: Any) -> bool:
    """Whether some group inside turns off the difference of case."""
    for op, value in tree:
        if op is constants.SUBPATTERN:
            if value[1] & re.IGNORECASE or _folds(value[3]):
                return True
        elif op is constants.BRANCH:
            if any(_folds(branch) for branch in value[1]):
                return True
        elif op in {constants.MAX_REPEAT, constants.MIN_REPEAT} and _folds(value[2]):
            return True
    return False


def _sets(items: list[Any]) -> list[set[bytes]]:
    """Every set of words of a sequence of which each match must hold one."""
    found: list[set[bytes]] = []
    run = bytearray()
    for op, value in [*_flat(items), (None, None)]:
        if op is constants.LITERAL and value < 256:
            run.append(value)
            continue
        if op is constants.AT:
            continue
        if run:
            found.append({bytes(run)})
            run.clear()
        if op is constants.BRANCH:
            parts = [_best(_sets(list(branch))) for branch in value[1]]
            if all(part is not None for part in parts):
                joined = {word for part in parts if part is not None for word in part}
                if len(joined) <= _MOST:
                    found.append(joined)
        elif op is constants.SUBPATTERN:
            found.extend(_sets(list(value[3])))
        elif op in {constants.MAX_REPEAT, constants.MIN_REPEAT} and value[0] > 0:
            found.extend(_sets(list(value[2])))
    return found


def _flat(items: list[Any]) -> list[Any]:
    """The sequence with plain groups dissolved, so that a literal may run through their borders."""
    flat: list[Any] = []
    for op, value in items:
        if op is constants.SUBPATTERN:
            flat.extend(_flat(list(value[3])))
        else:
            flat.append((op, value))
    return flat


def _best(sets: list[set[bytes]]) -> set[bytes] | None:
    usable = [s for s in sets if s and all(s)]
    if not usable:
        return None
    return max(usable, key=lambda s: (min(len(w) for w in s), -len(s)))
