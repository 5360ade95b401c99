"""Literals that every match of a pattern must hold: what the fast engine and the plainest one search for.

It reads the parse tree of `re`. Sequences of letters, small classes and alternatives are multiplied out as far as that
stays small, so that `(?:is|was) (?:NaN|nan)` gives four words of at least six letters and not one of two.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from firstfault.scan.ordinary import COMMON, ORDINARY

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.version_info >= (3, 11):
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:  # pragma: no cover - the other branch is tested on its own Python
    import sre_constants as constants
    import sre_parse as parser

_MOST = 48
"""Words of one set; more cost more than they tell."""
_LONG = 14
"""Longer than this, a word is not rarer."""
_SHORT = 6
"""Shorter than this, a word is dear even where it is rare."""
_CLASS = 4
"""Characters of a class that is still multiplied out."""
_LOWER = ORDINARY.lower()
_REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT}


class Literals(Struct, frozen=True):
    """Byte strings of which every match holds at least one."""

    words: tuple[bytes, ...]
    any_case: bool = False
    """Whether case is disregarded; the words are lower case then."""

    @property
    def shortest(self) -> int:
        """Length of the shortest word in bytes."""
        return min(len(w) for w in self.words)

    @property
    def ordinary(self) -> bool:
        """Whether a word stands in lines that healthy jobs print."""
        text = _LOWER if self.any_case else ORDINARY
        return any(w in text for w in self.words)

    @property
    def common(self) -> bool:
        """Whether a word stands in many kinds of lines about faults."""
        return any(w in COMMON for w in self.words)


@cache
def required_literals(pattern: str) -> Literals | None:
    """The best set of literals of a pattern: rare and long words, few of them; None where there is none.

    Raises:
        re.error: the pattern is none.
    """
    tree: Any = parser.parse(pattern.encode("utf-8"))  # type: ignore[arg-type] # bytes are taken too
    any_case = bool(tree.state.flags & re.IGNORECASE) or _folds(tree)
    found = [_literals(words, any_case=any_case) for words in _sets(list(tree))]
    return max((f for f in found if f is not None), key=_worth, default=None)


def _literals(words: frozenset[bytes], *, any_case: bool) -> Literals | None:
    if not words or not all(words) or len(words) > _MOST:
        return None
    if any_case:
        words = frozenset(w.lower() for w in words)
    # Where one word holds another, a match of it is found by the other.
    least = [w for w in words if not any(o != w and o in w for o in words)]
    return Literals(tuple(sorted(least)), any_case)


def _worth(literals: Literals) -> tuple[bool, bool, bool, int, int]:
    length = literals.shortest
    return not literals.ordinary, length >= _SHORT, not literals.common, min(_LONG, length), -len(literals.words)


def _folds(tree: Any) -> bool:
    """Whether some group inside turns off the difference of case."""
    for op, value in tree:
        if op is constants.SUBPATTERN:
            if value[1] & re.IGNORECASE or _folds(value[3]):
                return True
        elif op is constants.BRANCH:
            if any(_folds(branch) for branch in value[1]):
                return True
        elif op in _REPEATS and _folds(value[2]):
            return True
    return False


def _sets(items: list[Any]) -> list[frozenset[bytes]]:
    """Sets of words of a sequence; each match of the sequence holds one word of every set."""
    found: list[frozenset[bytes]] = []
    run = frozenset({b""})
    for item in _flat(items):
        exact = _exact(item)
        if exact is not None and len(run) * len(exact) <= _MOST:
            run = frozenset(a + b for a in run for b in exact)
            continue
        found.append(run)
        run = exact if exact is not None else frozenset({b""})
        if exact is None:
            found.extend(_inside(item))
    found.append(run)
    return [f for f in found if b"" not in f]


def _flat(items: list[Any]) -> Iterator[Any]:
    """The items, with those of groups that must match in place of the groups: `nvme (nvme.)` holds `nvme nvme`."""
    for item in items:
        if item[0] is constants.SUBPATTERN and _exact(item) is None:
            yield from _flat(list(item[1][3]))
        else:
            yield item


def _exact(item: Any) -> frozenset[bytes] | None:
    """All strings that an item matches, where they are few; None else."""
    op, value = item
    if op is constants.LITERAL:
        return frozenset({bytes([value])}) if value < 256 else None
    if op is constants.AT:
        return frozenset({b""})
    if op is constants.IN:
        return _class(value)
    if op is constants.SUBPATTERN:
        return _product(list(value[3]))
    if op is constants.BRANCH:
        parts = [_product(list(branch)) for branch in value[1]]
        if any(part is None for part in parts):
            return None
        joined = frozenset(word for part in parts if part is not None for word in part)
        return joined if len(joined) <= _MOST else None
    if op in _REPEATS and value[1] == 1:
        inner = _product(list(value[2]))
        return None if inner is None else inner | ({b""} if value[0] == 0 else frozenset())
    return None


def _class(members: Any) -> frozenset[bytes] | None:
    letters = set()
    for op, value in members:
        if op is not constants.LITERAL:
            return None
        letters.add(bytes([value]))
    return frozenset(letters) if len(letters) <= _CLASS else None


def _product(items: list[Any]) -> frozenset[bytes] | None:
    run = frozenset({b""})
    for item in items:
        exact = _exact(item)
        if exact is None or len(run) * len(exact) > _MOST:
            return None
        run = frozenset(a + b for a in run for b in exact)
    return run


def _inside(item: Any) -> list[frozenset[bytes]]:
    """Sets from within an item that as a whole matches too much."""
    op, value = item
    if op in _REPEATS and value[0] > 0:
        return _sets(list(value[2]))
    if op is constants.BRANCH:
        best = []
        for branch in value[1]:
            sets = [_literals(s, any_case=False) for s in _sets(list(branch))]
            one = max((s for s in sets if s is not None), key=_worth, default=None)
            if one is None:
                return []
            best.append(frozenset(one.words))
        return [frozenset().union(*best)]
    return []
