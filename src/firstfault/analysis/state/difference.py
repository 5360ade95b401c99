"""Different works at one number of one group: what was issued by whom, and who is the smaller side.

Point-to-point works, and sizes that may rightly differ between ranks, are left out. Says nothing of the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.groups import Cell, Group, positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOTED = frozenset({"BROADCAST", "REDUCE", "GATHER", "SCATTER"})
"""Collectives in which a root, or those around it, may be done before the others: being ahead there is normal."""
OPEN_OPS = frozenset({"ALLTOALL", "ALLTOALL_BASE", "SCATTER", "GATHER", "UNKNOWN"})
"""Collectives in which sizes may differ between ranks."""


class Difference(Struct, frozen=True, kw_only=True):
    """Different works at one number of one group."""

    group: Group
    seq: int | None
    """The number; None where the lines of that version have none, and the ops alone differ."""
    kinds: dict[str, tuple[Cell, ...]]
    """What was issued (op, or op and size), with the cells that issued it; most frequent first."""
    of_size: bool
    """Whether the ops are equal and only sizes differ."""


def difference(group: Group) -> Difference | None:
    """Different works among the pending cells of a group at one number; None where they agree or cannot be compared."""
    if not group.comparable:
        return None
    for seq, cells in positions(group).items():
        told = [
            c for c in cells if c.work is not None and c.work.op is not None and not c.work.p2p and c.work.seq == seq
        ]
        if len(told) < 2:
            continue
        ops = _kinds(told, _op)
        if len(ops) > 1:
            return Difference(group=group, seq=seq, kinds=ops, of_size=False)
        sizes = _kinds([c for c in told if _size(c) is not None], _op_and_size)
        if len(sizes) > 1:
            return Difference(group=group, seq=seq, kinds=sizes, of_size=True)
    return _without_numbers(group)


def _without_numbers(group: Group) -> Difference | None:
    """Different ops where no line has a number (before torch 1.10).

    One rank may rightly be ahead of the receivers of a broadcast, its root; two may not.
    """
    told = [c for c in group.pending if c.work is not None and c.work.op is not None and not c.work.p2p]
    if len(told) < 2 or any(c.at is not None for c in group.pending):
        return None
    ops = _kinds(told, _op)
    rooted = [op for op in ops if op in ROOTED]
    elsewhere = sum(len(cells) for op, cells in ops.items() if op not in ROOTED)
    if len(ops) < 2 or (rooted and elsewhere < 2):
        return None
    return Difference(group=group, seq=None, kinds=ops, of_size=False)


def odd_ones(found: Difference) -> tuple[Cell, ...]:
    """Cells of the smaller side; empty where no kind holds a clear majority (more than half of the group, and twice the rest).

    Members of which nothing is told count against the majority, for they may be on either side. A member that stands at
    another number is a third kind: it too left the order of the others, so that no side alone is the odd one.
    """
    counts = [len(c) for c in found.kinds.values()]
    rest = sum(counts) - counts[0]
    members = max(found.group.size or 0, found.group.at_least, sum(counts))
    if 2 * counts[0] <= members or counts[0] < 2 * rest:
        return ()
    if found.seq is not None and any(c.at is not None and c.at != found.seq for c in found.group.pending):
        return ()
    return tuple(c for cells in list(found.kinds.values())[1:] for c in cells)


def _kinds(cells: Iterable[Cell], key: Callable[[Cell], str]) -> dict[str, tuple[Cell, ...]]:
    by: dict[str, list[Cell]] = {}
    for cell in cells:
        by.setdefault(key(cell), []).append(cell)
    return {k: tuple(v) for k, v in sorted(by.items(), key=lambda kv: (-len(kv[1]), kv[0]))}


def _op(cell: Cell) -> str:
    """Op, with the two spellings of one op made equal."""
    op = "" if cell.work is None or cell.work.op is None else cell.work.op
    return {"_ALLGATHER_BASE": "ALLGATHER", "_REDUCE_SCATTER_BASE": "REDUCE_SCATTER"}.get(op, op)


def _size(cell: Cell) -> str | None:
    """The size that must be equal on all ranks for this op; None where it need not be, or is not told."""
    work = cell.work
    if work is None or work.op is None or work.op in OPEN_OPS or "COALESCED" in work.op:
        return None
    if work.shape is not None:
        return work.shape
    # Gathers of unequal parts into one buffer are legal: there the whole is equal and the part is not.
    value = work.numel_out if "GATHER" in work.op else work.numel_in
    return None if value is None else str(value)


def _op_and_size(cell: Cell) -> str:
    return f"{_op(cell)} of {_size(cell)}"
