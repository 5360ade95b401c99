"""Block YAML and indented JSON, as tools print their objects, as leaves with their path and their place in the file.

No parser of the languages: it reads what `kubectl -o yaml`, `-o json` and SLURM's `--json` write, a value in each line, and passes over
whatever else there is. So a damaged or cut file gives what of it can be read, and nothing is ever built from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 40
"""Keys above a value; what lies deeper is left out."""
LONGEST = 4096
"""Bytes of a line that are looked at."""
WIDEST = 400
"""Column up to which a key may stand; what is set in further is left out."""
MOST_DASHES = 4
"""Items that one line may begin."""
_LINE = lazy(
    rb"""( *)((?:- +)*)(?:"([^"\\]{1,200})" ?: *|([A-Za-z0-9_][\w./-]{0,199}):(?: +|$)|([\[{])\s*$|"([^"\\]{1,200})",?\s*$)?"""
)
_BLOCK = lazy(rb"[|>][-+0-9]{0,2}\s*$")
_BRACKET = lazy(rb"[\[{]\s*$")

Path = tuple[str, ...]


class Leaf(NamedTuple):
    """A value in one line."""

    path: Path
    """Keys from the outside; `#` and a number for an item of a list."""
    value: str
    """Without quotes; of a text of several lines the first."""
    line: int
    """1-based."""
    offset: int
    """Of the first byte of the line."""
    text: bytes
    """The whole line without its end."""


class _Level(NamedTuple):
    depth: int
    """Twice the column of a key; one more for an item, which may stand in the column of its list's key."""
    key: str


def leaves(data: bytes) -> Iterator[Leaf]:
    """The values of an object, in the order of the file."""
    levels: list[_Level] = []
    items: dict[Path, int] = {}
    block: int | None = None
    offset = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        start, offset = offset, offset + len(raw) + 1
        text = raw.rstrip(b"\r")[:LONGEST]
        found = _LINE.match(text)
        if found is None or not text.strip():
            continue
        column, dashes = len(found[1]), found[2].count(b"-")
        if (block is not None and column > block) or column > WIDEST or dashes > MOST_DASHES:
            continue
        block = None
        alone = found[5] is not None or found[6] is not None
        for _ in range(dashes or (1 if alone and column else 0)):
            _item(levels, items, column)
            column += 2
        key = found[3] or found[4]
        if key is None:
            value = found[6] or text[found.end() :]
            if value.strip() and len(levels) <= DEEPEST and (found[6] or (dashes and not found[5])):
                yield Leaf(_path(levels), _bare(value), number, start, text)
            continue
        _push(levels, 2 * column, key.decode("utf-8", "replace"))
        value = text[found.end() :]
        if _BLOCK.match(value):
            block = column
        if value.strip() and not _BRACKET.match(value) and len(levels) <= DEEPEST:
            yield Leaf(_path(levels), _bare(value), number, start, text)


def _push(levels: list[_Level], depth: int, key: str) -> None:
    while levels and levels[-1].depth >= depth:
        levels.pop()
    levels.append(_Level(depth, key))


def _item(levels: list[_Level], items: dict[Path, int], column: int) -> None:
    """Begins the next item of the list whose items stand in a column."""
    while levels and levels[-1].depth > 2 * column:
        levels.pop()
    if levels and levels[-1].key.startswith("#") and levels[-1].depth == 2 * column:
        levels.pop()
    holder = _path(levels)
    number = items[holder] = items.get(holder, -1) + 1
    _push(levels, 2 * column + 1, f"#{number}")


def _path(levels: list[_Level]) -> Path:
    return tuple(level.key for level in levels)


def _bare(value: bytes) -> str:
    text = value.decode("utf-8", "backslashreplace").strip().removesuffix(",")
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return text
