"""Cuts an answer to a size that a reader with little room can take, and says what was left out."""

from __future__ import annotations

from typing import Any

import msgspec

SIZES = (200, 100, 50, 25, 12, 6, 3, 1)
"""Items of a list that are kept, tried in this order."""
LENGTHS = (1600, 800, 400, 200, 100)
"""Characters of a text that are kept, tried where few items are not enough."""


def bounded(answer: dict[str, Any], most: int, first: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, int]]:
    """An answer of at most so many bytes as JSON.

    Args:
        answer: as JSON gives it.
        most: bytes.
        first: names of top-level fields that are cut only where cutting all others is not enough.

    Returns:
        The answer with lists cut at their ends and texts cut with `…`, and for each field that was cut how many items were left out.
    """
    for lengths, spared in ((LENGTHS[:1], first), (LENGTHS[:1], ()), (LENGTHS[1:], ())):
        for length in lengths:
            for size in SIZES if length == LENGTHS[0] else SIZES[-1:]:
                left: dict[str, int] = {}
                cut = {
                    name: value if name in spared else _cut(value, size, length, name, left)
                    for name, value in answer.items()
                }
                if len(msgspec.json.encode(cut)) <= most:
                    return cut, left
    return {name: answer[name] for name in answer if not isinstance(answer[name], (list, dict))}, {
        name: len(value) for name, value in answer.items() if isinstance(value, (list, dict))
    }


def _cut(value: Any, size: int, length: int, place: str, left: dict[str, int]) -> Any:
    if isinstance(value, str):
        return value if len(value) <= length else value[: length - 1] + "…"
    if isinstance(value, list):
        if len(value) > size:
            left[place] = left.get(place, 0) + len(value) - size
        return [_cut(item, size, length, place, left) for item in value[:size]]
    if isinstance(value, dict):
        if len(value) > 4 * size:
            left[place] = left.get(place, 0) + len(value) - 4 * size
        kept = list(value.items())[: 4 * size]
        return {name: _cut(item, size, length, f"{place}.{name}", left) for name, item in kept}
    return value
