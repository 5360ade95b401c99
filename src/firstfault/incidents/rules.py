"""Tells whether the lines of a diagnosis show what a record says it is shown by: `shown_by` of its head.

    signature:kubernetes.image_pull & text:EOF

Every condition of a rule has to hold, one rule is enough. `a|b` stands for either, `*` for anything: in a text for at most
`GAP` characters. It looks at where the failure began,
by `near` at the lines around it too, never at the rest of the log. Must not read a record or an index.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

GAP = 40
"""Characters for which a `*` of a text stands at most."""
KINDS = ("signature", "text", "near", "frame", "category")


class Scene(NamedTuple):
    """What the begin of a failure shows."""

    signature: str
    category: str
    texts: tuple[str, ...]
    """The first line and those that belong to it, in small letters."""
    frames: tuple[str, ...]
    """Frames of its traceback as `file:function`; none where the evidence is not at hand."""
    near: tuple[str, ...] = ()
    """The lines around the first one, in small letters; none where the evidence is not at hand."""


def conditions(rule: str) -> list[tuple[str, str]]:
    """The conditions of a rule, as kind and value; of an unknown kind where it cannot be read."""
    parts = []
    for part in rule.split(" & "):
        kind, colon, value = part.partition(":")
        parts.append((kind.strip(), value.strip()) if colon and value.strip() else ("", part))
    return parts


def holds(rule: str, scene: Scene) -> bool:
    """Whether every condition of a rule holds."""
    return all(_holds(kind, value, scene) for kind, value in conditions(rule))


def shown(rules: Iterable[str], scene: Scene) -> str:
    """The first of some rules that holds; empty where none does."""
    return next((rule for rule in rules if holds(rule, scene)), "")


def _holds(kind: str, value: str, scene: Scene) -> bool:
    match kind:
        case "signature":
            return scene.signature == value
        case "category":
            return scene.category == value
        case "text" | "near":
            texts = scene.texts if kind == "text" else (*scene.texts, *scene.near)
            return any(_stands_in(low.strip(), text) for low in value.lower().split("|") for text in texts)
        case "frame":
            # A name of a function or a file, or both, `*` for anything: `filesystem.py:write_*`.
            names = [name for frame in scene.frames for name in (frame, *frame.split(":", 1))]
            return any(fnmatchcase(name, one.strip()) for one in value.split("|") for name in names)
        case _:
            return False


def _stands_in(words: str, text: str) -> bool:
    """Whether a part of a text stands in another, its `*` for a few characters of it."""
    first, *others = words.split("*")
    if not others:
        return words in text
    if first not in text:
        return False
    between = f".{{0,{GAP}}}?"
    return re.search(between.join(map(re.escape, (first, *others))), text) is not None
