"""Different works at one number of one group: what was issued by whom, and who is the smaller side.

Point-to-point works, and sizes that may rightly differ between ranks, are left out. Says nothing of the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.groups import Cell, Group, gather_ratio, positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from firstfault.analysis.state.works import Work

ROOTED = frozenset({"BROADCAST", "REDUCE", "GATHER", "SCATTER"})
"""Collectives in which a root, or those around it, may be done before the others: being ahead there is normal."""
OPEN_OPS = frozenset({"ALLTOALL", "ALLTOALL_BASE", "SCATTER", "GATHER", "UNKNOWN"})
"""Collectives in which sizes may differ between ranks."""


PAIR = 2
"""Ranks of the smallest job that waits."""


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

    One rank may rightly be ahead of the receivers of a broadcast, its root; two may not. Of a job of two ranks there is
    nobody else: what the one waits in the other has not issued, or has left without it.
    """
    told = [c for c in group.pending if c.work is not None and c.work.op is not None and not c.work.p2p]
    if len(told) < 2 or any(c.at is not None for c in group.pending):
        return None
    ops = _kinds(told, _op)
    rooted = [op for op in ops if op in ROOTED]
    elsewhere = sum(len(cells) for op, cells in ops.items() if op not in ROOTED)
    pair = group.default and group.size == len(told) == len(group.cells) == PAIR
    if len(ops) < 2 or (rooted and elsewhere < 2 and not pair):
        return None
    return Difference(group=group, seq=None, kinds=ops, of_size=False)


def nameless(works: Iterable[Work]) -> dict[str, tuple[Work, ...]] | None:
    """Different ops at one number among works of which neither group nor global rank is told (torch up to 2.2).

    Only where they are certainly of one group, and all of it: the size that a gather or scatter among them tells, and every
    number below it once. Then what they issued is comparable, though nobody's global rank is known.

    Returns:
        Works by op, most frequent first; None where they agree or are not certainly one group.
    """
    found = [w for w in works if w.op is not None and not w.p2p and w.seq is not None and w.group is None]
    # A process tells its work up to four times, with the time that it ran.
    told = list({(w.group_rank, w.op, w.seq, w.ran_ms): w for w in reversed(found)}.values())
    sizes = {size for w in told if (size := gather_ratio(w)) is not None}
    members = [w.group_rank for w in told]
    if len(sizes) != 1 or len({w.seq for w in told}) != 1 or len({w.timeout_ms for w in told}) != 1:
        return None
    if sorted(m for m in members if m is not None) != list(range(next(iter(sizes)))):
        return None
    by: dict[str, list[Work]] = {}
    for work in told:
        by.setdefault(_plain(work), []).append(work)
    ordered = sorted(by.items(), key=lambda kv: (-len(kv[1]), kv[0]))
    return {op: tuple(found) for op, found in ordered} if len(by) > 1 else None


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
    return "" if cell.work is None else _plain(cell.work)


def _plain(work: Work) -> str:
    """Op, with the two spellings of one op made equal."""
    op = work.op or ""
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
