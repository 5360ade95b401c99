"""The tables of known settings, and the known name that is nearest to one that is not."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NEAR = 0.84
"""From which likeness on a name is taken for a misspelt one."""
SHORT_PART = 3
"""Letters up to which a part of a name is too short to tell a slip from another word."""
MOST_SLIPS = 2


@cache
def table(name: str) -> dict[str, Any]:
    """A table; blocks of words stay text, see `words`."""
    text = resources.files("firstfault.config.known").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    read: dict[str, Any] = tomllib.loads(text)
    return read


@cache
def words(name: str, *path: str) -> frozenset[str]:
    """The words of one block of a table; none where there is no such block."""
    found: Any = table(name)
    for key in path:
        found = found.get(key, "") if isinstance(found, dict) else ""
    return frozenset(found.split()) if isinstance(found, str) else frozenset()


@cache
def every(name: str, *path: str) -> frozenset[str]:
    """The words of all blocks at a path."""
    found: Any = table(name)
    for key in path:
        found = found.get(key, {}) if isinstance(found, dict) else {}
    blocks = found.values() if isinstance(found, dict) else ()
    return frozenset(word for block in blocks if isinstance(block, str) and "\n" in block for word in block.split())


def version_of(name: str) -> str:
    """The program and the version that a table is of, for people."""
    known = table(name)
    return f"{known['program']} {known['version']}"


def nearest(word: str, known: frozenset[str], *, cutoff: float = NEAR) -> str | None:
    """The known name that a word is most like; None where none is like it."""
    from difflib import get_close_matches

    near = get_close_matches(word, sorted(known), n=1, cutoff=cutoff)
    return near[0] if near else None


def misspelt(word: str, known: frozenset[str]) -> str | None:
    """The known name of which a word is a slip of the pen; None for names that are only built alike.

    A program may have arguments of its own beside the known ones. They are built of the same parts
    (`--pad-vocab-size-to`, `--patch-size`); a slip leaves the number of parts and changes a letter or two of one.
    """
    parts = re.split(r"[-_]", word)
    near = nearest(word, known, cutoff=0.9)
    if near is None:
        return None
    theirs = re.split(r"[-_]", near)
    if len(parts) != len(theirs):
        # Parts that were joined, or cut where nothing cuts them.
        return near if "".join(parts) == "".join(theirs) else None
    differing = [(a, b) for a, b in zip(parts, theirs, strict=True) if a != b]
    if len(differing) != 1:
        return None
    ours, other = differing[0]
    return near if min(len(ours), len(other)) > SHORT_PART and _slips(ours, other) <= MOST_SLIPS else None


def _slips(a: str, b: str) -> int:
    """Letters that were left out, put in, changed, or swapped with their neighbour, between two words."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        last, row, older = row, [i], before
        for j, right in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        before = last
    return row[-1]
