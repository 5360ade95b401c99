"""What abnormal points mean together, with what speaks against each reading and what to measure next.

No reading is more than `supported`: a course shows when and how, and rarely why. Must not read a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.course import row_of
from firstfault.metrics.points import Kind
from firstfault.metrics.steps import by_rank
from firstfault.model.words import Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.metrics.devices import DeviceSeries
    from firstfault.metrics.points import Point
    from firstfault.metrics.steps import Steps

CLOSE_ROWS = 60
"""Rows before a point in which an earlier one belongs to it."""
AFTER_START = 50
"""Rows after a start of the run in which a bad loss is taken to come from how it started."""


class Reading(NamedTuple):
    """What several points mean together."""

    claim: str
    strength: Strength
    step: float | None
    supports: tuple[str, ...]
    against: tuple[str, ...]
    following: tuple[str, ...]


def read_together(tables: Sequence[Steps], points: Sequence[Point], devices: Sequence[DeviceSeries]) -> list[Reading]:
    """All readings, in the order of the steps at which they begin.

    Args:
        tables: the steps of each source.
        points: found in them.
        devices: courses of the GPUs, on the clock of their monitor.
    """
    found = [
        *_numbers(tables, points),
        *_slower(tables, points, devices),
        *_standing(tables, devices),
        *_memory(tables, points),
    ]
    return sorted(found, key=lambda r: (r.step is None, r.step or 0.0))


def _table_of(tables: Sequence[Steps], point: Point) -> Steps:
    return next(t for t in tables if t.source == point.source)


def _row(steps: Steps, point: Point) -> int:
    return row_of(steps, point)


def _at(point: Point) -> str:
    return f"line {point.line} of {point.source}" if point.step is None else f"step {point.step:g}"


def _numbers(tables: Sequence[Steps], points: Sequence[Point]) -> Iterator[Reading]:
    """Bad losses: what came before them."""
    bad = [p for p in points if p.kind in {Kind.NAN, Kind.LOSS_RISE, Kind.LOSS_SPIKE} and p.column == "loss"]
    for point in bad[:3]:
        steps = _table_of(tables, point)
        row = _row(steps, point)
        start = _start_before(steps, row)
        if start is not None and point.kind is not Kind.LOSS_SPIKE:
            yield Reading(
                "The loss is bad since the run started again: the checkpoint, or what it does not hold (seed, order of the data, state of the optimizer).",
                Strength.SUPPORTED if row - start <= 5 else Strength.POSSIBLE, point.step,
                (f"the run started again {row - start} rows before", f"the loss at {_at(point)} is {point.value:.4g}, before it was {point.usual:.4g}"),
                ("whether the same steps went well before the restart is not compared here",) if row - start > 5 else (),
                ("Compare the checkpoint's weights with those before it, and the loss of the first batch with that of the first run.",),
            )  # fmt: skip
            continue
        grown = [
            p for p in points
            if p.kind is Kind.GRAD_SPIKE and p.source == point.source and 0 <= row - _row(steps, p) <= CLOSE_ROWS
        ]  # fmt: skip
        epoch = _epoch_before(steps, row)
        if grown and point.kind is Kind.NAN:
            yield Reading(
                "The gradients grew before the loss became NaN: the optimisation diverged, and no single kernel or rank is needed to explain it.",
                Strength.SUPPORTED, grown[-1].step,
                (f"gradient norm up to {grown[-1].value:.4g} at {_at(grown[-1])}, usually {grown[-1].usual:.4g}", f"the loss is NaN from {_at(point)}", *point.before),
                ("a bad batch or a fault of one GPU also lets gradients grow",),
                ("Run from the last checkpoint with the batches of these steps on other GPUs: if it diverges there too, it is data or settings.",),
            )  # fmt: skip
        elif epoch is not None:
            yield Reading(
                "The loss turns bad where a new pass over the data begins: the data of that shard or the order of the pass.",
                Strength.POSSIBLE, point.step,
                (f"epoch {epoch:g} begins within 2 rows of {_at(point)}",),
                ("a schedule that changes at the same step fits as well",),
                ("Train the same steps with that shard left out.",),
            )  # fmt: skip
        elif point.kind is Kind.NAN:
            yield Reading(
                "The loss became NaN from one row to the next: a value in the batch, an operation without a guard, or a GPU.",
                Strength.POSSIBLE, point.step, (f"the loss is NaN from {_at(point)}", *point.before),
                () if "grad_norm" in steps.columns else ("the gradient norm is not logged: whether it grew before is not known",),
                ("Run these batches with torch.autograd.set_detect_anomaly(True), on other GPUs.",),
            )  # fmt: skip


def _start_before(steps: Steps, row: int) -> int | None:
    """The row at which the run started again shortly before a row; None where it did not."""
    low = max(1, row - AFTER_START)
    starts = np.flatnonzero(np.diff(steps.attempt[low - 1 : row + 1]) != 0) + low
    return int(starts[-1]) if len(starts) else None


def _epoch_before(steps: Steps, row: int) -> float | None:
    """The epoch that begins within two rows of a row, where epochs are whole numbers."""
    epoch = steps.values("epoch")
    if epoch is None:
        return None
    near = epoch[max(0, row - 2) : row + 2]
    near = near[np.isfinite(near)]
    if len(near) > 1 and near[-1] > near[0] and float(near[-1]).is_integer() and float(near[0]).is_integer():
        return float(near[-1])
    return None


def _slower(tables: Sequence[Steps], points: Sequence[Point], devices: Sequence[DeviceSeries]) -> Iterator[Reading]:
    """A longer step: data, communication, heat, or one slow rank."""
    slow = next((p for p in points if p.kind in {Kind.STEP_TIME, Kind.THROUGHPUT, Kind.DATA_SHARE}), None)
    if slow is None:
        slow = next((p for p in points if p.kind is Kind.SLOW_RANK), None)
    if slow is None:
        return
    what = _longer(slow)
    rank = next((p for p in points if p.kind is Kind.SLOW_RANK), None)
    data = next((p for p in points if p.kind is Kind.DATA_SHARE), None)
    hot = _heat(slow, devices)
    use = _change(slow, devices, "utilization")
    if rank is not None:
        yield Reading(
            f"Rank {rank.rank} is slow in {rank.column.removesuffix('_time')}; the others wait for it in each step.", Strength.SUPPORTED, rank.step,
            (f"{rank.column} of rank {rank.rank} is {rank.value:.4g} s from {_at(rank)}, the median of the ranks {rank.usual:.4g} s", what),
            ("more work of its own (longer sequences, an evaluation, a save) looks alike",),
            (f"Look at the GPU, the loader and the machine of rank {rank.rank} at that time; let it change places with another.",),
        )  # fmt: skip
    elif data is not None:
        against = [] if use is None or use[1] < use[0] else ["the GPUs are as busy as before"]
        queue = _queue(tables, slow)
        against += [f"{queue:g} batches were ready"] if queue is not None and queue > 1 else []
        yield Reading(
            "The steps wait for data.", Strength.POSSIBLE if against else Strength.SUPPORTED, data.step,
            (f"waiting for data takes {100 * data.value:.0f} % of a step from {_at(data)}, before {100 * data.usual:.0f} %", *(["no batch was ready"] if queue is not None and queue <= 1 else [])),
            tuple(against),
            ("Measure the loader alone, and what the store answers at that time; raise workers or prefetch only after that.",),
        )  # fmt: skip
    elif hot is not None:
        yield Reading(
            "The GPUs run slower because of heat.", Strength.SUPPORTED, slow.step, (*hot, what), (),
            ("Look at fans, inlet temperature and the reasons for throttling (nvidia-smi -q -d PERFORMANCE).",),
        )  # fmt: skip
    elif use is not None and use[1] < use[0] - 10:
        waited = _waited(tables, slow)
        yield Reading(
            "The GPUs wait: for communication, or for the host." if waited else "The GPUs wait: for communication or for data.", Strength.POSSIBLE, slow.step,
            (what, f"GPU utilisation {use[0]:.0f} % before, {use[1]:.0f} % after", *(["the time spent waiting for data did not grow"] if waited else [])),
            () if waited else ("the time spent waiting for data is not logged",),
            ("Log data time and queue depth for each step; run an all-reduce test over the same machines.",),
        )  # fmt: skip


def _longer(point: Point) -> str:
    if point.kind is Kind.THROUGHPUT:
        return f"{point.column} falls from {point.usual:.4g} to {point.value:.4g} at {_at(point)}"
    return f"{point.column} goes from {point.usual:.4g} to {point.value:.4g} at {_at(point)}"


def _change(point: Point, devices: Sequence[DeviceSeries], name: str) -> tuple[float, float] | None:
    """Median of a counter over all GPUs in the stretches before and after a point; None where either was not measured."""
    if point.time is None:
        return None
    before, after = [], []
    for device in devices:
        values = device.columns.get(name)
        if values is None:
            continue
        good = np.isfinite(values) & np.isfinite(device.time)
        before.append(values[good & (device.time < point.time)])
        after.append(values[good & (device.time >= point.time)])
    first, last = (np.concatenate(x) if x else np.empty(0) for x in (before, after))
    if len(first) < 5 or len(last) < 5:
        return None
    return float(np.median(first)), float(np.median(last))


def _heat(point: Point, devices: Sequence[DeviceSeries]) -> tuple[str, ...] | None:
    clock, heat = _change(point, devices, "clock"), _change(point, devices, "temperature")
    if clock is None or heat is None or clock[1] > 0.93 * clock[0] or heat[1] < heat[0] + 5:
        return None
    return (
        f"clock {clock[0]:.0f} MHz before, {clock[1]:.0f} MHz after",
        f"temperature {heat[0]:.0f} °C before, {heat[1]:.0f} °C after",
    )


def _queue(tables: Sequence[Steps], point: Point) -> float | None:
    steps = _table_of(tables, point)
    depth = steps.values("queue")
    if depth is None:
        return None
    after = depth[_row(steps, point) :]
    after = after[np.isfinite(after)]
    return float(np.median(after)) if len(after) else None


def _waited(tables: Sequence[Steps], point: Point) -> bool:
    return "data_time" in _table_of(tables, point).columns


def _standing(tables: Sequence[Steps], devices: Sequence[DeviceSeries]) -> Iterator[Reading]:
    """GPUs that do nothing to the end while memory is held."""
    idle = [d for d in devices if d.idle_from is not None]
    if not idle or len(idle) * 2 < len(devices):
        return
    began = min(d.idle_from for d in idle if d.idle_from is not None)
    last = [
        t for s in tables if (v := s.values("time")) is not None and np.isfinite(v).any() for t in [float(np.nanmax(v))]
    ]
    if last and max(last) > began + 60:
        return
    steps = [float(np.nanmax(v)) for s in tables if (v := s.values("step")) is not None and np.isfinite(v).any()]
    yield Reading(
        "The processes live and do nothing: a hang.", Strength.SUPPORTED if last else Strength.POSSIBLE, max(steps) if steps else None,
        (f"{len(idle)} of {len(devices)} GPUs at 0 % to the end with memory in use", *(["no step is printed after that"] if last else [])),
        () if last else ("the steps have no times: whether they went on is not known",),
        ("Take stacks of all ranks (py-spy dump) and read the logs of all ranks: firstfault PATH.",),
    )  # fmt: skip


def _memory(tables: Sequence[Steps], points: Sequence[Point]) -> Iterator[Reading]:
    """Memory that climbs, and memory that is reserved and not used."""
    for point in points:
        if point.kind is not Kind.LEAK:
            continue
        steps = _table_of(tables, point)
        if point.column == "memory_reserved" and "memory" in steps.columns:
            yield Reading(
                "Memory is reserved and not used: fragmentation.", Strength.SUPPORTED, point.step,
                (f"reserved memory climbs from {point.usual:.4g} to {point.value:.4g} GiB, memory in use does not",), (),
                ("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and take a memory snapshot.",),
            )  # fmt: skip
        else:
            yield Reading(
                "Memory that is never given back: a leak.", Strength.SUPPORTED, point.step,
                (f"{point.column} climbs from {point.usual:.4g} to {point.value:.4g} GiB from {_at(point)} on",),
                ("inputs that grow by plan look alike",),
                ("Take a memory snapshot (torch.cuda.memory._dump_snapshot) and read it: firstfault memory PATH.",),
            )  # fmt: skip
    for _, steps in (pair for table in tables for pair in by_rank(table)):
        used, held = steps.values("memory"), steps.values("memory_reserved")
        if used is None or held is None:
            continue
        gap = (held - used)[np.isfinite(held - used)]
        size = float(np.nanmedian(held)) if len(gap) else 0.0
        tenth = len(gap) // 10
        if tenth < 5 or any(p.kind is Kind.LEAK and p.column == "memory_reserved" for p in points):
            continue
        first, last = float(np.median(gap[tenth : 2 * tenth])), float(np.median(gap[-tenth:]))
        if last > 0.25 * size and last > 1.5 * max(first, 0.0) + 0.05 * size:
            yield Reading(
                "Memory is reserved and not used: fragmentation.", Strength.POSSIBLE, None,
                (f"{last:.3g} GiB reserved beyond what is in use, at first {first:.3g} GiB",), ("peaks between the lines are not seen",),
                ("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and take a memory snapshot.",),
            )  # fmt: skip
