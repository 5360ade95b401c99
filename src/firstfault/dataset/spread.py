"""How items fall on ranks: what each rank would get, and whether the ranks end together. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.dataset import DataFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def uneven(counts: Sequence[int | None], what: str, *, certain: bool = True) -> Iterator[DataFinding]:
    """A finding where ranks do not get the same number.

    Args:
        counts: of each rank; None where it is not known.
        what: which things are counted.
        certain: whether the job is known to divide them so.
    """
    known = {r: c for r, c in enumerate(counts) if c is not None}
    if len(known) < 2 or len(set(known.values())) == 1:
        return
    least, most = min(known.values()), max(known.values())
    short = [r for r, c in known.items() if c == least]
    told = f"{len(short)} of {len(known)} ranks get none" if least == 0 else f"ranks get {least} to {most} {what}"
    yield DataFinding(
        check="ranks.uneven", state="fail" if certain or least == 0 else "warn", what=f"{told}; rank {short[0]} has the fewest", ranks=short[:64],
        why="A rank that ends early leaves the others waiting in their next collective until its time-out.",
        fix="Drop the rest (drop_last, with_epoch, equal shards), repeat it, or use join() of DistributedDataParallel.",
    )  # fmt: skip


def of_shards(sizes: Sequence[int | None], world: int) -> list[int | None]:
    """Samples of each rank where shard i goes to rank i modulo the world size; None of a rank with a shard that was not counted."""
    held: list[int | None] = [0] * world
    for number, size in enumerate(sizes):
        so_far = held[number % world]
        held[number % world] = None if size is None or so_far is None else so_far + size
    return held
