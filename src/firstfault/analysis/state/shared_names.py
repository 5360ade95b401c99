"""One name for several process groups: torch 2.4 numbers the groups of each process by itself.

Then `PG 1 (DATA_PARALLEL_GROUP)` of two processes may be two groups, which shows where two global ranks have the same
rank in it. They are told apart only where one regular layout of ranks fits all lines; nothing is guessed otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import GlobalRank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.state.groups import Cell


def shares(cells: Mapping[GlobalRank, Cell]) -> bool:
    """Whether two global ranks have the same rank in what goes by one name."""
    inner = [c.group_rank for c in cells.values() if c.group_rank is not None]
    return len(set(inner)) < len(inner)


def told_apart(
    cells: Mapping[GlobalRank, Cell], size: int | None, world: int | None
) -> list[tuple[tuple[GlobalRank, ...], dict[GlobalRank, Cell]]]:
    """The groups behind one name: the members of each, in the order of their rank inside, and its cells.

    Args:
        cells: of all ranks that use the name.
        size: members of a group, where a line witnesses it.
        world: ranks of the job.

    Returns:
        An empty list where no layout, or more than one, fits every cell.
    """
    inner = {rank: c.group_rank for rank, c in cells.items()}
    if world is None or None in inner.values():
        return []
    least = max(k for k in inner.values() if k is not None) + 1
    sizes = [s for s in range(least, world) if world % s == 0] if size is None else [size]
    fits = [
        (s, stride)
        for s in sizes
        for stride in range(1, world // s + 1)
        if world % (s * stride) == 0 and all(int(rank) // stride % s == k for rank, k in inner.items())
    ]
    if len(fits) != 1:
        return []
    ((number, stride),) = fits
    found: dict[int, dict[GlobalRank, Cell]] = {}
    for rank, cell in cells.items():
        found.setdefault(int(rank) - int(rank) // stride % number * stride, {})[rank] = cell
    return [(tuple(GlobalRank(base + stride * k) for k in range(number)), own) for base, own in sorted(found.items())]
