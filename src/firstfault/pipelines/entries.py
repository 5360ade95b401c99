"""The rows of a timeline: moments clock by clock, folded, each with its line read again. One way for the view and for the diagnosis.

Must not order across clocks, and chooses no columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.order import exact
from firstfault.analysis.timeline import ClockKey, Fold, Moment, fold, in_order
from firstfault.model.evidence import Event, Failure
from firstfault.model.views import Clock, Entry
from firstfault.pipelines.times import time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from firstfault.model.diagnosis import Evidence
    from firstfault.model.evidence import SourceId
    from firstfault.pipelines.cite import Citer


class Rows(NamedTuple):
    """A timeline."""

    clocks: list[Clock]
    entries: list[Entry]
    """Those of the first clock, then those of the next; what has no time comes last."""
    left_out: list[int]
    """How many rows of the same clock stand before each entry and were left out."""


def rows_of(kept: Collection[Moment], cite: Citer, *, folded: bool = True, most: int | None = None) -> Rows:
    """The rows of moments.

    Args:
        kept: what is wanted.
        cite: reads their lines again; what does not read back has no row.
        folded: whether equal moments of one burst share a row.
        most: rows of one clock, of which the middle is left out first; all where None.
    """
    rows = Rows([], [], [])
    for key, ordered in in_order(kept).items():
        number = None
        if key is not None:
            number = len(rows.clocks) + 1
            rows.clocks.append(_clock(key, number, ordered, cite))
        folds = fold(ordered) if folded else [Fold(m) for m in ordered]
        gone = 0 if most is None else max(0, len(folds) - most)
        head = len(folds) if most is None or not gone else most - most // 2
        for at, one in enumerate([*folds[:head], *folds[head + gone :]]):
            entry = _entry(one, number, cite)
            if entry is not None:
                rows.entries.append(entry)
                rows.left_out.append(gone if at == head else 0)
    return rows


def _clock(key: ClockKey, number: int, ordered: Sequence[Moment], cite: Citer) -> Clock:
    zone, dated, yeared = key
    files = sorted({cite.path(m.source) for m in ordered})
    return Clock(number=number, zone=zone, dated=dated, yeared=yeared, files=files, events=len(ordered))


def _entry(found: Fold, clock: int | None, cite: Citer) -> Entry | None:
    """The entry of a fold; None where its first line does not read back."""
    first, last = found.moments[0], found.moments[-1]
    evidence = _cited(first, cite)
    if evidence is None:
        return None
    when = found.when
    sources: dict[SourceId, None] = dict.fromkeys(m.source for m in found.moments)
    return Entry(
        clock=clock,
        time=time_of(when),
        exact=all(exact(m.when) for m in found.moments),
        role=first.role,
        what=first.what,
        signature=first.signature,
        attempt=first.attempt,
        ranks=sorted({int(m.rank) for m in found.moments if m.rank is not None}),
        hosts=sorted({m.host for m in found.moments if m.host is not None}),
        files=sorted(cite.path(s) for s in sources),
        count=found.count,
        evidence=evidence,
        last=None if last is first else _cited(last, cite),
    )


def _cited(moment: Moment, cite: Citer) -> Evidence | None:
    shown = moment.shown
    if isinstance(shown, Event):
        return cite.event(shown)
    return cite.failure(shown) if isinstance(shown, Failure) else cite.sample(shown)
