"""The middle of some numbers; the library's own module for it costs more to load than a small diagnosis can spare."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The middle value, of an even number the mean of the two in the middle.

    Raises:
        ValueError: there are none.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values have a middle")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
