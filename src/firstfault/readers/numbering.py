"""Holes in the numbering of files: names that their neighbours lead to expect. Looks at names only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = lazy(r"\d+")
_DAY = lazy(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])?(?:[0-5]\d){0,2}")
"""A day, with or without a time of day (`20261112`, `20261112080000`): runs are not made every day."""
_PACKED = lazy(r"\.(?:gz|zst|xz|bz2)$")
FEWEST = 2
"""Files of one pattern from which on a numbering is believed."""
WIDEST = 20_000
"""A larger range of numbers is no numbering (job ids, dates)."""
SPARSEST = 0.5
"""Share of the range that must be there: below it the numbers are something else, such as process ids."""


def missing_names(paths: Iterable[str]) -> tuple[str, ...]:
    """Names that are missing in a numbering that starts at 0 or 1, or that has a hole.

    Each number in a name is tried by itself while all else in the name is equal: `error-4711-0.out` and
    `error-4711-2.out` lead to expect `error-4711-1.out`.

    Returns:
        Missing names, sorted; empty where no numbering is believed.
    """
    names = sorted(set(paths))
    missing = _missing(names)
    there = {_PACKED.sub("", name) for name in names}
    bare = [name.rsplit("/", 1)[-1] for name in names]
    if len(set(bare)) == len(bare):
        # One folder a node or an archive a node: the numbering is in the names of the files alone.
        known = {name.rsplit("/", 1)[-1] for name in missing}
        missing |= _missing(bare) - known - set(bare)
        there |= {name.rsplit("/", 1)[-1] for name in there}
    # Of one numbering some files may be compressed, and some another way.
    return tuple(sorted(m for m in missing if _PACKED.sub("", m) not in there))


def _missing(names: Iterable[str]) -> set[str]:
    missing: set[str] = set()
    families: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        for found in _NUMBER.finditer(name):
            if _DAY.fullmatch(found.group()):
                continue
            family = (name[: found.start()], name[found.end() :])
            families.setdefault(family, {})[int(found.group())] = found.group()
    for (head, tail), numbers in families.items():
        if len(numbers) < FEWEST or _is_stamp(head, tail):
            continue
        low, high = min(numbers), max(numbers)
        start = 0 if low == 1 and _counts_from_zero(head, tail) else low
        span = high - start + 1
        if span > WIDEST or len(numbers) < span * SPARSEST:
            continue
        width = len(numbers[high]) if all(len(t) == len(numbers[high]) for t in numbers.values()) else 0
        missing |= {f"{head}{n:0{width}d}{tail}" for n in range(start, high + 1) if n not in numbers}
    return missing


def _counts_from_zero(head: str, tail: str) -> bool:
    """Whether the words before a number are ones that count from 0 (ranks, tasks, workers).

    A launcher's folders of attempts do; a person's files of attempts begin with the first.
    """
    if re.search(r"attempt[_\-.]?$", head, re.IGNORECASE) is not None:
        return tail.startswith("/")
    return re.search(r"(?:rank|local_?rank|task|worker|gpu)[_\-.]?$", head, re.IGNORECASE) is not None


def _is_stamp(head: str, tail: str) -> bool:
    """Whether the number is a part of a date or time of day."""
    if re.search(r"\d{4}[-_.]\d\d[-_.]$", head) or re.search(r"(?:19|20)\d\d[-_.]$", head):
        return True
    return re.search(r"\d[-_:T]$", head) is not None and re.match(r"[-_:T]\d", tail) is not None
