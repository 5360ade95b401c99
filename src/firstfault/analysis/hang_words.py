"""Sentences about a hang: which collective, how long, who stood where, and what a sync point is usually for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import sort_key
from firstfault.analysis.state.standing import leaders, main_work
from firstfault.analysis.wording import duration, ranks_text
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Container

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Cell, Group, HangState
    from firstfault.analysis.state.picture import Picture
    from firstfault.analysis.state.works import Work
    from firstfault.model.evidence import GlobalRank

LONGER = 1.5
"""A work that ran this many times its timeout was not looked at in time."""
SHOWN = 8
"""Ranks that are listed; of more only the number is given."""
STEPS = 50
"""Steps from which on collectives a step can be told from the numbers."""


def collective(group: Group | None) -> str:
    """`ALLREDUCE 5753 of the default group`; where ranks stand in different sends and receives, no single one."""
    if group is None:
        return "a collective"
    if group.p2p and len({(c.work.op, c.at) for c in group.pending if c.work is not None}) > 1:
        return f"sends and receives of {group.title}"
    op, seq = main_work(group)
    what = " ".join(str(x) for x in (op, seq) if x is not None) or "a collective"
    return f"{what} of {group.title}"


def waited(scene: Scene) -> str:
    """` for 30 min`, or nothing."""
    hang = scene.hang
    return "" if hang is None or hang.waited_ms is None else f" for {duration(hang.waited_ms)}"


def sync_point(scene: Scene, work: Work | None) -> str | None:
    """What a collective of this op, size and group is usually for; None where it is not told."""
    if work is None or work.op is None:
        return None
    one = work.numel_in == 1 and work.numel_out == 1
    if work.op == "BROADCAST" and one:
        framework = scene.facts.get("framework")
        if framework is not None and "nemo" in str(framework.value).lower():
            return "a broadcast of one element is NeMo's check for preemption at every step"
        return "a broadcast of one element is a flag that rank 0 gives out, such as a check for preemption"
    if work.op == "ALLREDUCE" and one:
        return "an all-reduce of one element is a barrier or a flag, not gradients"
    if work.op == "ALLGATHER" and work.seq in {0, 1} and work.numel_in == 1:
        return (
            "it is the first collective of the job (DDP compares parameter counts): suspect the set-up of the network"
        )
    axis = _axis(work.desc or "")
    if axis is not None:
        return _ALONG[axis]
    if work.desc == "MODEL_PARALLEL_GROUP":
        return "the model-parallel group agrees on the norm of gradients and on overflows, before the optimizer's step"
    if work.op == "BROADCAST" and _saving(scene):
        return "a checkpoint had begun and not ended: its broadcasts tell the others what was saved"
    if work.op in {"_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"}:
        return "gathers and scatters of shards belong to FSDP or ZeRO, inside a step"
    if work.op == "ALLREDUCE" and (work.numel_in or 0) > 1 << 20:
        return "an all-reduce of that size is a bucket of gradients, in the backward pass"
    return None


_ALONG = {
    "tensor": "collectives of a tensor-parallel group carry activations, in the forward or backward pass of each layer",
    "pipeline": "a pipeline group carries activations from stage to stage",
    "expert": "an expert group exchanges tokens, in the forward or backward pass of each such layer",
}
"""What collectives of a group along one axis of parallelism are for."""
_AXIS_OF = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data", "cp": "context", "sp": "sequence"}
_AXES = frozenset({*_AXIS_OF.values(), "replicate", "shard", "fsdp"})
_WORDS = lazy(r"[^a-z]+")


def _axis(desc: str) -> str | None:
    """The axis of parallelism whose collectives are told, by the words of a group's description; None where it names others too.

    Megatron writes `TENSOR_MODEL_PARALLEL_GROUP`, a device mesh `mesh_tp`, programs `ep` or `EXPERT`.
    """
    words = {_AXIS_OF.get(w, w.removesuffix("s")) for w in _WORDS.split(desc.lower())}
    named = words & _AXES
    axis = next(iter(named)) if len(named) == 1 else None
    return axis if axis in _ALONG else None


def _saving(scene: Scene) -> bool:
    """Whether the last line about a checkpoint says that it began."""
    lines = scene.marked(Mark.CHECKPOINT_BEGIN, Mark.CHECKPOINT_END)
    last = max(lines, key=sort_key, default=None)
    return last is not None and scene.case.has(last, Mark.CHECKPOINT_BEGIN)


def first_collective(group: Group | None) -> bool:
    """Whether the stuck collective is the first of its group: nothing was ever completed."""
    if group is None:
        return False
    pending = group.pending
    if any(c.completed is not None for c in pending):
        return all(c.completed in {None, -1, 0} for c in pending)
    return bool(pending) and all(c.at in {0, 1} for c in pending)


def lead_text(picture: Picture) -> str | None:
    """Why a rank is ahead of the others without being at fault, in steps where the log allows that."""
    for group in picture.state.stuck:
        ahead = leaders(group)
        if ahead and len(ahead) * 2 < len(group.pending):
            cell, lead = ahead[0]
            text = (
                f"{ranks_text([int(c.rank) for c, _ in ahead]).capitalize()} is ahead by {lead} in {group.title} because "
                "the root of a broadcast does not wait for the others"
            )
            per = per_step(picture, cell.at - lead if cell.at is not None else None)
            if per is not None and lead >= per:
                steps = lead // per
                text += (
                    f"; at about {per} collectives a step in this log that is {steps} step{'s' if steps > 1 else ''}"
                )
            return text + "."
    return None


def per_step(picture: Picture, seq: int | None) -> int | None:
    """Collectives a step, from the number reached against the step reached; None where they do not fit a whole number."""
    if seq is None or "resumed_from" in picture.scene.facts:
        return None
    steps = [t.last.step for t in picture.scene.case.tracks.values() if t.last.step is not None]
    reached = max(steps, default=0)
    if reached < STEPS:
        return None
    ratio = seq / reached
    whole = round(ratio)
    return whole if whole >= 1 and abs(ratio - whole) <= 0.03 * whole else None


def overrun(picture: Picture) -> str | None:
    """A remark where a work ran far longer than its timeout."""
    for group in picture.state.stuck:
        for cell in group.pending:
            work = cell.work
            if work is not None and work.ran_ms and work.timeout_ms and work.ran_ms > LONGER * work.timeout_ms:
                return (
                    f"The watchdog of rank {cell.rank} looked only after {duration(work.ran_ms)} although the timeout is "
                    f"{duration(work.timeout_ms)}: another timeout ended the wait, or the process was stopped or starved."
                )
    return None


def other_clocks(picture: Picture) -> str | None:
    """A remark where time-outs are stamped on clocks that nothing joins."""
    hang = picture.scene.hang
    if hang is None or not hang.apart:
        return None
    return f"{hang.apart} of the time-outs are on another clock and not comparable: when the wait began is told by the others."


def accounted(picture: Picture) -> str:
    """`15 of 16 ranks are accounted for`."""
    where = picture.where
    total = f"{where.total}" if where.witnessed else f"at least {where.total}"
    return f"{where.accounted} of {total} ranks are accounted for"


def waiting_there(picture: Picture) -> str:
    """Who waited in the nearest collective, and how many more waited for these in other groups."""
    waiting = picture.where.waiting or (() if picture.scene.hang is None else picture.scene.hang.waiters)
    if not waiting:
        return "ranks"
    here = () if picture.nearest is None else tuple(c.rank for c in picture.nearest.pending)
    shown = here or waiting
    text = ranks_text(shown) if len(shown) <= SHOWN else f"{len(shown)} ranks"
    others = len(set(waiting) - set(here)) if here else 0
    return f"{text} and, in other groups, {others} more" if others else text


_PARTS = {
    "initiator": "time-out of their own",
    "notified": "only told of it",
    "died": "had failed before",
    "terminated": "ended by the launcher",
    "silent": "silent",
}


def others_text(state: HangState, waiters: Container[GlobalRank]) -> str:
    """What became of the ranks that are not among those who waited: `only told of it: ranks 0, 5; silent: rank 7`."""
    by: dict[str, list[int]] = {}
    for rank, part in state.parts.items():
        if rank not in waiters:
            by.setdefault(str(part), []).append(int(rank))
    shown = [
        f"{_PARTS[word]}: {ranks_text(ranks) if len(ranks) <= SHOWN else f'{len(ranks)} ranks'}"
        for word, ranks in sorted(by.items())
    ]
    return "; ".join(shown)


def rank_notes(state: HangState) -> dict[GlobalRank, str]:
    """What is known of each rank at the hang, for a table: its part, and in each group its counters and stuck work.

    Groups in which a rank is neither stuck nor beside others that are, are left out.
    """
    notes: dict[GlobalRank, list[str]] = {rank: [str(part)] for rank, part in state.parts.items()}
    for group in state.stuck:
        for rank, cell in sorted(group.cells.items()):
            notes.setdefault(rank, []).append(f"{group.title}: {_cell(cell)}")
    return {rank: "; ".join(texts) for rank, texts in sorted(notes.items())}


def _cell(cell: Cell) -> str:
    parts = []
    if cell.work is not None:
        size = f" of {cell.work.numel_in}" if cell.work.numel_in is not None else ""
        parts.append(f"stuck in {cell.work.op} {'?' if cell.work.seq is None else cell.work.seq}{size}")
    if cell.enqueued is not None:
        parts.append(f"enqueued {cell.enqueued}, completed {'?' if cell.completed is None else cell.completed}")
    if cell.idle:
        parts.append("nothing in flight")
    return ", ".join(parts) or "no counters"
