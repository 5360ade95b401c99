"""The tables of known settings, and the known name that is nearest to one that is not."""

from __future__ import annotations

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
