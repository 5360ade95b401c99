"""Abnormal points in sentences, and the words of a log by which a long step is a planned pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.metrics.blocks import stamp_of
from firstfault.metrics.points import Kind
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.metrics.points import Point

_CHECKPOINT = lazy(
    r"(?i)\b(?:sav(?:ing|ed)|writing|wrote|stor(?:ing|ed))\b.{0,60}\b(?:checkpoint|ckpt|state|model)|checkpoint.{0,40}\bsaved\b"
)
_EVALUATION = lazy(
    r"(?i)\b(?:validation|validating|evaluat(?:ion|ing)|running eval)\b|\*{3,} ?Running (?:Evaluation|Prediction)"
)
_DONE = lazy(
    r"(?i)\bsuccess(?:fully)? (?:saved|stored|wrote|written)|\bsaved\b.{0,60}\b(?:checkpoint|ckpt|state|model)|checkpoint.{0,40}\b(?:saved|done|finished|completed)\b|\b(?:validation|evaluation) (?:is )?(?:done|finished|completed)\b"
)
_UNIT = {"step_time": " s", "data_time": "", "memory": " GiB", "memory_reserved": " GiB", "forward_time": " s", "backward_time": " s", "optimizer_time": " s"}  # fmt: skip


def pause_of(lines: Iterable[str]) -> Kind | None:
    """The planned pause of which lines tell; None where they tell of none."""
    found: Kind | None = None
    for line in lines:
        if _CHECKPOINT.search(line) is not None:
            found = Kind.CHECKPOINT_PAUSE
        elif found is None and _EVALUATION.search(line) is not None:
            found = Kind.EVALUATION_PAUSE
    return found


def done_at(lines: Iterable[str]) -> float | None:
    """When the last planned pause of which lines tell was over, by their own clock, in s; None where no such line tells it."""
    over: float | None = None
    for line in lines:
        if _DONE.search(line) is not None:
            over = stamp_of(line.encode())
        elif _CHECKPOINT.search(line) is not None or _EVALUATION.search(line) is not None:
            over = None
    return over


def summary_of(point: Point) -> str:
    """What a point says, in one sentence."""
    who = "" if point.rank is None else f" of rank {point.rank}"
    epoch = "" if point.epoch is None else f" (epoch {point.epoch:g})"
    if point.derived and point.epoch is not None:
        epoch = f" (by its epoch, {point.epoch:g})"
    at = f"from line {point.line}{epoch} on" if point.step is None else f"from step {point.step:g}{epoch} on"
    once = at.removesuffix(" on").replace("from", "at", 1)
    name = point.column.replace("_", " ")
    unit = _UNIT.get(point.column, "")
    value, usual = f"{point.value:.4g}{unit}", f"{point.usual:.4g}{unit}"
    match point.kind:
        case Kind.NAN:
            well = "" if point.usual != point.usual else f"; before it was {usual}"
            end = "to the end" if point.lasts else f"in {point.rows} rows"
            return f"The {name}{who} is no number {at}, {end}{well}."
        case Kind.LOSS_SPIKE | Kind.GRAD_SPIKE:
            return f"The {name}{who} jumps to {value} {once}, usually {usual}; {point.rows} such rows."
        case Kind.LOSS_RISE:
            return f"The loss{who} is higher {at}: {value}, before {usual}."
        case Kind.SCALE_FLOOR:
            return f"The loss scale falls {at}, from {usual} down to {value}."
        case Kind.SKIPPED:
            return f"Steps are skipped one after the other {at}."
        case Kind.STEP_TIME:
            return f"A step{who} takes longer {at}: {value}, before {usual}."
        case Kind.TAIL if point.column != "step_time":
            return f"In more and more steps the {name}{who} is low {at}: down to {value}, usually {usual}."
        case Kind.TAIL:
            return f"More and more steps{who} are slow {at}: up to {value}, usually {usual}."
        case Kind.THROUGHPUT:
            return f"The {name}{who} is lower {at}: {value}, before {usual}."
        case Kind.STALL:
            return f"It stood still {once}{who and f' ({who[4:]})'}: {value}, usually {usual}."
        case Kind.SLOW_RANK:
            return f"Rank {point.rank} is slower than the others {at}: {name} {value}, the median {usual}."
        case Kind.RANKS_DIFFER:
            return f"The ranks no longer agree on the {name} {at}: rank {point.rank} has {point.value:.6g}, the others {point.usual:.6g}."
        case Kind.LEAK:
            return f"The {name}{who} only climbs {at}: from {usual} to {value}."
        case Kind.MEMORY_JUMP:
            return f"The {name}{who} jumps {at}: from {usual} to {value}."
        case Kind.DATA_SHARE:
            return f"Waiting for data takes {100 * point.value:.0f} % of a step{who} {at}, before {100 * point.usual:.0f} %."
        case Kind.CHECKPOINT_PAUSE:
            return f"Planned pauses of {value} (checkpoints), the first {once}; {point.rows} of them."
        case Kind.EVALUATION_PAUSE:
            return f"Planned pauses of {value} (evaluations), the first {once}; {point.rows} of them."
