"""Steps of rows that tell an epoch alone, by what the Hugging Face Trainer says at its start of how many steps one has.

    Num examples = 8,000
    Num Epochs = 3
    Total train batch size (w. parallel, distributed & accumulation) = 64
    Gradient Accumulation steps = 4
    Total optimization steps = 375

Must not guess: rows whose epochs are rounded too coarsely for one step, and that come at no even interval, stay without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.steps import Column, Steps
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Series = NDArray[np.float64]

HEAD = 4 << 20
"""Bytes at the start of a log in which the Trainer tells its plan."""
DECIMALS = 6
"""Digits behind the point from which on an epoch counts as exact."""
_PLAN = lazy(
    rb"\b(Num examples|Num Epochs|Gradient Accumulation steps|Total optimization steps|Total train batch size) (?:\([^)\n]{0,80}\) )?= ([\d,]{1,20})"
)
_EXAMPLES, _EPOCHS, _BATCH, _STEPS = (
    b"Num examples",
    b"Num Epochs",
    b"Total train batch size",
    b"Total optimization steps",
)
_ACCUMULATED = b"Gradient Accumulation steps"


class Plan(NamedTuple):
    """What a Trainer is about to do."""

    epoch: int
    """Steps of one."""
    pace: float
    """Steps in which the printed epoch would grow by 1: a part of a step more where the last batches are dropped."""
    total: int
    """Steps of the run."""


def plan_of(head: bytes) -> Plan | None:
    """The plan that the start of a log tells; None where it tells none, several, or one whose numbers do not agree.

    A run that is stopped by its number of steps tells a number of epochs that it does not finish: an epoch's steps follow from its
    examples, and the rest must fit.
    """
    told: dict[bytes, set[int]] = {}
    for name, number in _PLAN.findall(head):
        told.setdefault(name, set()).add(int(number.replace(b",", b"") or b"0"))
    told.setdefault(_ACCUMULATED, {1})
    if not {_EXAMPLES, _EPOCHS, _BATCH, _STEPS} <= told.keys() or any(len(numbers) > 1 for numbers in told.values()):
        return None
    examples, epochs, batch, total, accumulated = (
        next(iter(told[name])) for name in (_EXAMPLES, _EPOCHS, _BATCH, _STEPS, _ACCUMULATED)
    )
    if min(examples, epochs, batch, total, accumulated) < 1 or batch % accumulated:
        return None
    batches = -(-examples * accumulated // batch)
    fewer, more = max(batches // accumulated, 1), -(-batches // accumulated)
    if not (epochs - 1) * fewer < total <= epochs * more:
        return None
    # The last batches of an epoch, too few for a step, are one of their own or none: the total tells which.
    whole = next((n for n in (fewer, more) if n * epochs == total), fewer if fewer == more or epochs == 1 else None)
    return None if whole is None else Plan(whole, batches / accumulated, total)


def with_steps(steps: Steps, plan: Plan) -> Steps:
    """The same with the step of each row of training; as it was where their epochs are too coarse for that.

    An evaluation is left without: it belongs to the last step before it.
    """
    epoch = steps.columns["epoch"]
    known = epoch.there & np.isfinite(epoch.values)
    loss = steps.columns.get("loss")
    trained = known if loss is None else known & loss.there
    if np.count_nonzero(trained) < 2:
        return steps
    found = _steps_of(epoch.values[trained], plan)
    if found is None:
        return steps
    values = np.full(steps.height, np.nan)
    values[trained] = found
    return steps._replace(columns={**steps.columns, "step": Column(values, trained)}, derived=True)


def _steps_of(epochs: Series, plan: Plan) -> Series | None:
    """The steps of epochs, as multiples of one interval, or each by itself where that is exact; None where neither is."""
    whole = np.floor(epochs)
    steps = whole * plan.epoch + (epochs - whole) * plan.pace
    if np.any(np.diff(epochs) < 0) or steps[-1] > plan.total + 1:
        return None  # a run that began again, or another's plan
    digits = next((k for k in range(DECIMALS) if np.all(np.abs(np.round(epochs, k) - epochs) < 1e-9)), DECIMALS)
    # Texts of four digits in all have fewer behind the point the larger they are.
    coarse = np.maximum(0.5 * 10.0**-digits, 0.5 * 10.0 ** (np.floor(np.log10(np.maximum(epochs, 1e-9))) - 3))
    error = coarse * plan.pace
    interval = float(np.round((steps[-1] - steps[0]) / (len(steps) - 1)))
    if interval >= 1:
        first = max(1.0, float(np.round(steps[0] / interval))) * interval
        even = first + interval * np.arange(len(steps))
        if bool(np.all(np.abs(even - steps) <= error + 0.5)):
            return np.asarray(even, np.float64)
    exact = np.asarray(np.round(steps), np.float64)
    return exact if bool(np.all(error < 0.5) and np.all(np.diff(exact) > 0)) else None
