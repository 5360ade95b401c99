"""The steps of one source in columns: parts put together in order, lines about one step joined, attempts told apart.

Must not read bytes or judge a value. Works without polars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.blocks import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from firstfault.metrics.blocks import Part


TURNS = 32
"""Rows within which processes that write in turns are taken to be of one mind about the step."""


class Column(NamedTuple):
    """Values and where there are any: a NaN that was printed is a value."""

    values: NDArray[np.float64]
    there: NDArray[np.bool_]


class Steps(NamedTuple):
    """The steps of one source, in the order of its lines."""

    source: str
    """As shown."""
    line: NDArray[np.int64]
    attempt: NDArray[np.int64]
    columns: dict[str, Column]
    place: NDArray[np.int64] | None = None
    r"""Which piece of its line, parted by `\r`, each row is; None where no line is parted."""
    derived: bool = False
    """Whether the steps are not printed, and follow from the epochs."""

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.line)

    def values(self, name: str) -> NDArray[np.float64] | None:
        """Values of a column, NaN where there is none; None where the source has none at all."""
        column = self.columns.get(name)
        return None if column is None else np.where(column.there, column.values, np.nan)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Steps:
        """The same with these rows alone."""
        columns = {n: Column(c.values[rows], c.there[rows]) for n, c in self.columns.items()}
        told = {n: c for n, c in columns.items() if c.there.any()}
        place = None if self.place is None else self.place[rows]
        return Steps(self.source, self.line[rows], self.attempt[rows], told, place, self.derived)


def gather_steps(
    source: str, parts: Sequence[Part], *, rank: int | None = None, by_epoch: Callable[[Steps], Steps] | None = None
) -> Steps:
    """The steps of a source.

    Args:
        source: as shown.
        parts: of its blocks, in order.
        rank: that the name of the file tells; a line's own word wins.
        by_epoch: gives rows that tell an epoch and no step their steps.
    """
    steps = _joined(source, parts)
    if by_epoch is not None and "epoch" in steps.columns and "step" not in steps.columns:
        steps = by_epoch(steps)
    if "step" in steps.columns:
        steps = _carried(steps)
        steps = _merged(steps)
    if rank is not None and steps.height:
        told = steps.columns.get("rank")
        values = np.full(steps.height, float(rank))
        if told is not None:
            values = np.where(told.there, told.values, values)
        steps.columns["rank"] = Column(values, np.ones(steps.height, dtype=bool))
    return steps._replace(attempt=_attempts(steps))


def _joined(source: str, parts: Sequence[Part]) -> Steps:
    parts = [p for p in parts if len(p.line)]
    if not parts:
        return Steps(source, np.empty(0, np.int64), np.empty(0, np.int64), {})
    line = np.concatenate([p.line for p in parts])
    place = _places(parts)
    order = _order(line, place)
    names = sorted({name for p in parts for name in p.columns} - {PLACE})
    held = {name: [name in p.columns for p in parts] for name in names}
    columns = {}
    for name in names:
        everywhere = all(held[name])
        # Taken out of the parts one after the other, so that a long table is not held twice.
        values = joined([p.columns.pop(name) if name in p.columns else _nothing(p) for p in parts])
        there = (
            np.broadcast_to(np.True_, len(line))
            if everywhere
            else np.concatenate([np.full(len(p.line), had) for p, had in zip(parts, held[name], strict=True)])
        )
        columns[name] = Column(values, there) if order is None else Column(values[order], there[order])
    if order is not None:
        line, place = line[order], None if place is None else place[order]
    return Steps(source, line, np.ones(len(line), np.int64), columns, place)


def _places(parts: Sequence[Part]) -> NDArray[np.int64] | None:
    if not any(PLACE in p.columns for p in parts):
        return None
    told = [p.columns[PLACE] if PLACE in p.columns else np.zeros(len(p.line)) for p in parts]
    return np.concatenate(told).astype(np.int64)


def _order(line: NDArray[np.int64], place: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    r"""How rows are to be put so that they stand as in the source, also within a line of many `\r`; None where they do."""
    gaps = np.diff(line)
    if bool((gaps > 0).all()):
        return None
    if place is not None:
        return np.lexsort((place, line))
    return None if bool((gaps >= 0).all()) else np.argsort(line, kind="stable")


def joined(pieces: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """One column of all pieces; one that has the same number everywhere is held once."""
    first = pieces[0][0]
    if all(piece.strides == (0,) and piece[0] == first for piece in pieces):
        return np.broadcast_to(first, sum(map(len, pieces)))
    return np.concatenate(pieces)


def _nothing(part: Part) -> NDArray[np.float64]:
    return np.full(len(part.line), np.nan)


def _carried(steps: Steps) -> Steps:
    """Lines with a metric and no step belong to the last step that was named: tables below a bar, timers, overflows."""
    step = steps.columns["step"]
    if step.there.all():
        return steps
    at = np.where(step.there, np.arange(steps.height), -1)
    last = np.maximum.accumulate(at)
    known = last >= 0
    values = np.where(known, step.values[np.maximum(last, 0)], np.nan)
    steps.columns["step"] = Column(values, known)
    return steps


def _merged(steps: Steps) -> Steps:
    """Neighbouring lines about one step as one row: the first value of each column counts."""
    step, rank = steps.columns["step"], steps.columns.get("rank")
    if steps.height < 2:
        return steps
    new = np.ones(steps.height, dtype=bool)
    new[1:] = (step.values[1:] != step.values[:-1]) | ~step.there[1:] | ~step.there[:-1]
    if rank is not None:
        new[1:] |= rank.there[1:] & rank.there[:-1] & (rank.values[1:] != rank.values[:-1])
    if new.all():
        return steps
    new |= _of_others(steps, new)
    begin = np.flatnonzero(new)
    columns = {}
    for name, column in steps.columns.items():
        at = np.where(column.there, np.arange(steps.height), steps.height)
        first = np.minimum.reduceat(at, begin)
        there = first < steps.height
        columns[name] = Column(np.where(there, column.values[np.minimum(first, steps.height - 1)], np.nan), there)
    place = None if steps.place is None else steps.place[begin]
    return Steps(steps.source, steps.line[begin], steps.attempt[begin], columns, place, steps.derived)


def _of_others(steps: Steps, new: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which lines are of another process than those before them about the same step, though no rank is told.

    They tell a value again, and another one, in a line of the same columns; a NaN is one whatever else its line holds.
    """
    group = np.cumsum(new)
    others = np.zeros(steps.height, dtype=bool)
    form = np.zeros(steps.height, np.int64)
    for n, column in enumerate(steps.columns.values()):
        form += column.there.astype(np.int64) << n
    for name in ("loss", "grad_norm"):
        told = steps.columns.get(name)
        if told is None:
            continue
        rows = np.flatnonzero(told.there)
        values = told.values[rows]
        wrong = ~np.isfinite(values)
        differs = (values[1:] != values[:-1]) & ~(wrong[1:] & wrong[:-1])
        differs &= (form[rows[1:]] == form[rows[:-1]]) | (wrong[1:] != wrong[:-1])
        others[rows[1:]] |= differs & (group[rows[1:]] == group[rows[:-1]])
    return others


def _attempts(steps: Steps) -> NDArray[np.int64]:
    """Number of the start to which each row belongs: a start is where the step goes back, for each rank by itself."""
    count = np.ones(steps.height, np.int64)
    step, rank = steps.columns.get("step"), steps.columns.get("rank")
    if step is None or steps.height < 2:
        return count
    epoch = steps.columns.get("epoch")
    if rank is None and epoch is None and step.there.all():
        return np.asarray(1 + np.cumsum(_goes_back(step.values)), dtype=np.int64)
    ranks = np.where(rank.there, rank.values, -1.0) if rank is not None else np.zeros(steps.height)
    for one in np.unique(ranks):
        rows = np.flatnonzero((ranks == one) & step.there)
        back = _goes_back(step.values[rows])
        if epoch is not None:
            # Steps that are counted within an epoch begin anew with each.
            last = np.fmax.accumulate(np.where(epoch.there & np.isfinite(epoch.values), epoch.values, -1.0)[rows])
            back &= ~(np.diff(last, prepend=last[:1]) > 0)
        count[rows] = 1 + np.cumsum(back)
    if not step.there.all():
        count = np.maximum.accumulate(count) if len(np.unique(ranks)) == 1 else count
    return count


def _goes_back(step: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where a run starts again: the step goes back, and not only since several processes without names write in turns."""
    back = np.diff(step, prepend=step[:1]) < 0
    if np.count_nonzero(back) < 2 or not (in_turns(step) and _settles(step, back)):
        return back
    last = -np.inf
    for at in np.flatnonzero(back).tolist():
        ahead, behind = step[at : at + TURNS], step[max(0, at - TURNS) : at]
        back[at] = at - last >= TURNS and bool(ahead.max() < behind.max())
        last = at if back[at] else last
    return back


def in_turns(step: NDArray[np.float64]) -> bool:
    """Whether most steps are told several times, as by processes that write into one log."""
    return len(np.unique(step)) * 3 <= len(step) * 2


def unnamed(steps: Steps) -> int:
    """How many processes tell each step of a source without their ranks, about; 0 where they are named or one alone writes."""
    step, epoch = steps.columns.get("step"), steps.values("epoch")
    if step is None or "rank" in steps.columns:
        return 0
    known = step.there & np.isfinite(step.values)
    keys = [steps.attempt.astype(np.float64), step.values, *([] if epoch is None else [np.nan_to_num(epoch, nan=-1.0)])]
    count = np.unique(np.stack(keys)[:, known], axis=1, return_counts=True)[1]
    if len(count) * 3 > int(known.sum()) * 2:
        return 0
    return max(2, round(float(np.median(count))))


def _settles(step: NDArray[np.float64], back: NDArray[np.bool_]) -> bool:
    """Whether most of the steps that go back do so by no more than a few rows."""
    low = np.minimum.reduceat(step, np.arange(0, len(step), TURNS))
    return int(np.count_nonzero(np.diff(low) < 0)) * 4 <= int(np.count_nonzero(back))


def by_rank(steps: Steps) -> Iterable[tuple[int | None, Steps]]:
    """The steps of each rank that the source tells; of all where it tells none."""
    rank = steps.columns.get("rank")
    if rank is None:
        yield None, steps
        return
    ranks = np.where(rank.there, rank.values, -1.0)
    for one in np.unique(ranks):
        yield (None if one < 0 else int(one)), steps.take(np.flatnonzero(ranks == one))
