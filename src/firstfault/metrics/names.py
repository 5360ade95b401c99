"""An expression for any of many names, by their letters: at a letter no name begins with, none of them is tried.

It knows nothing of what the names stand for.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Tree = dict[str, "_Tree"]
    """Letter -> what may follow it; the empty one where a name ends."""


def alternatives(names: Iterable[str]) -> str:
    """An expression that finds any of some names, the longest first; a blank in a name stands for an underscore too.

    Each is of ASCII, or of characters of which none may stand before it: the second half of another name.
    """
    tree: _Tree = {}
    for name in names:
        for one in map("".join, product(*(" _" if letter == " " else letter for letter in name))):
            place = tree
            for letter in one:
                place = place.setdefault(letter, {})
            place[""] = {}
    return _written(tree)


def _written(tree: _Tree) -> str:
    following = [re.escape(letter) + _written(rest) for letter, rest in sorted(tree.items()) if letter]
    if not following:
        return ""
    if len(following) == 1 and "" not in tree:
        return following[0]
    return f"(?:{'|'.join(following)}){'?' if '' in tree else ''}"
