"""Ranks that were outside the stuck collective because they were inside another one, by the frames of their own errors.

Looks only at tracebacks of the rank itself. A call of the same kind as the stuck collective proves nothing: a late rank may
have come to it after the others had given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import Event, Frame, GlobalRank
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Cell
    from firstfault.model.evidence import SourceId

CALLS = {
    "all_reduce": "ALLREDUCE",
    "all_gather": "ALLGATHER",
    "all_gather_into_tensor": "ALLGATHER",
    "all_gather_object": "ALLGATHER",
    "barrier": "ALLREDUCE",
    "monitored_barrier": "BARRIER",
    "broadcast": "BROADCAST",
    "broadcast_object_list": "BROADCAST",
    "reduce": "REDUCE",
    "reduce_scatter": "REDUCE_SCATTER",
    "reduce_scatter_tensor": "REDUCE_SCATTER",
    "gather": "GATHER",
    "gather_object": "GATHER",
    "scatter": "SCATTER",
    "scatter_object_list": "SCATTER",
    "all_to_all": "ALLTOALL",
    "all_to_all_single": "ALLTOALL",
}
"""Functions of torch.distributed, with the op under which NCCL's watchdog tells them."""


class Elsewhere(Struct, frozen=True, kw_only=True):
    """A rank that was inside another collective."""

    rank: GlobalRank
    call: str
    event: Event
    user_frame: Frame | None


def elsewhere(scene: Scene, ranks: Iterable[GlobalRank], ops: Iterable[str]) -> tuple[Elsewhere, ...]:
    """Those of some ranks whose own traceback ends inside a collective of another kind than the stuck one, by rank.

    Args:
        scene: the attempt.
        ranks: ranks that are stated to be outside.
        ops: ops at which the others are stuck.
    """
    wanted, stuck = set(ranks), {_plain(op) for op in ops}
    found: dict[GlobalRank, Elsewhere] = {}
    for event in scene.events:
        if event.exception is None or event.exception.ignored:
            continue
        rank = scene.roster.rank(event)
        call = _call(event.exception.frames)
        if rank in wanted and rank is not None and call is not None and CALLS[call] not in stuck:
            found[rank] = Elsewhere(rank=rank, call=call, event=event, user_frame=event.exception.user_frame)
    return tuple(found[r] for r in sorted(found))


class Called(Struct, frozen=True, kw_only=True):
    """What a rank that waited had called."""

    rank: GlobalRank
    call: str
    """A function of torch.distributed, or the backward pass."""
    event: Event


BACKWARD = "the backward pass"


def called(scene: Scene, cells: Iterable[Cell]) -> tuple[Called, ...]:
    """What ranks that wait had called when they gave up, by the stacks of their own errors about the wait, by rank.

    A file in which one rank alone tells of its wait is that rank's, whatever its lines carry.
    """
    own: dict[SourceId, set[GlobalRank]] = {}
    for cell in cells:
        for line in cell.events:
            own.setdefault(line.span.source, set()).add(cell.rank)
    wanted = {rank for ranks in own.values() for rank in ranks}
    about = scene.case.signatures_with(Mark.HANG, Mark.ABORT)
    found: dict[GlobalRank, Called] = {}
    for event in scene.events:
        if event.exception is None or event.exception.ignored or event.signature not in about:
            continue
        rank = scene.roster.rank(event)
        there = own.get(event.span.source, set())
        if rank is None and len(there) == 1:
            (rank,) = there
        call = _call(event.exception.frames) or (BACKWARD if _backward(event.exception.frames) else None)
        if rank in wanted and rank is not None and call is not None:
            found[rank] = Called(rank=rank, call=call, event=event)
    return tuple(found[r] for r in sorted(found))


def _backward(frames: tuple[Frame, ...]) -> bool:
    """Whether a stack ends inside autograd."""
    return bool(frames) and "/torch/autograd/" in frames[-1].file.replace("\\", "/")


def _call(frames: tuple[Frame, ...]) -> str | None:
    """The collective in whose call a stack ends; None where it ends elsewhere."""
    for frame in reversed(frames):
        if "torch/distributed/" not in frame.file.replace("\\", "/"):
            return None
        if frame.function in CALLS:
            return frame.function
    return None


def _plain(op: str) -> str:
    return op.removeprefix("_").removesuffix("_BASE").removesuffix("_COALESCED")
