"""The rows of a timeline: moments clock by clock, folded, each with its line read again. One way for the view and for the diagnosis.

Must not order across clocks, and chooses no columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from firstfault.analysis.order import exact
from firstfault.analysis.timeline import ClockKey, Fold, Moment, fold, in_order
from firstfault.model.diagnosis import Time
from firstfault.model.evidence import Event, Failure
from firstfault.model.views import Clock, Entry
from firstfault.model.words import Role
from firstfault.pipelines.times import time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from firstfault.model.diagnosis import Evidence
    from firstfault.model.evidence import ProgressSample, SourceId
    from firstfault.pipelines.cite import Citer

    Shown = Event | Failure | ProgressSample


class Rows(NamedTuple):
    """A timeline."""

    clocks: list[Clock]
    entries: list[Entry]
    """Those of the first clock, then those of the next; what has no time comes last."""
    left_out: list[int]
    """How many rows of the same clock stand before each entry and were left out."""


class Row(Struct, frozen=True, kw_only=True):
    """A row without its lines; the fields are those of `Entry`."""

    clock: int | None
    time: Time | None
    exact: bool
    role: Role
    what: str
    signature: str
    attempt: int
    ranks: list[int]
    hosts: list[str]
    files: list[str]
    count: int
    left_out: int
    """How many rows of the same clock stand before it and were left out."""


class Outline(NamedTuple):
    """A timeline of which no line was read again."""

    clocks: list[Clock]
    rows: list[Row]
    lines: list[tuple[Shown, Shown | None]]
    """Of each row the first line, and the last where it is another."""


def rows_of(kept: Collection[Moment], cite: Citer, *, folded: bool = True, most: int | None = None) -> Rows:
    """The rows of moments.

    Args:
        kept: what is wanted.
        cite: reads their lines again; what does not read back has no row.
        folded: whether equal moments of one burst share a row.
        most: rows of one clock, of which the middle is left out first; all where None.
    """
    return cited(outline_of(kept, cite.paths, folded=folded, most=most), cite)


def outline_of(
    kept: Collection[Moment],
    paths: Mapping[SourceId, str],
    *,
    folded: bool = True,
    most: int | None = None,
) -> Outline:
    """The same without reading a line again; `paths` are those that are shown, by source."""
    found = Outline([], [], [])
    for key, ordered in in_order(kept).items():
        number = None
        if key is not None:
            number = len(found.clocks) + 1
            found.clocks.append(_clock(key, number, ordered, paths))
        folds = fold(ordered) if folded else [Fold(m) for m in ordered]
        gone = 0 if most is None else max(0, len(folds) - most)
        head = len(folds) if most is None or not gone else most - most // 2
        for at, one in enumerate([*folds[:head], *folds[head + gone :]]):
            first, last = one.moments[0], one.moments[-1]
            found.rows.append(_row(one, number, gone if at == head else 0, paths))
            found.lines.append((first.shown, None if last is first else last.shown))
    return found


def cited(outline: Outline, cite: Citer) -> Rows:
    """The rows of a timeline with their lines, read again; what does not read back has no row."""
    rows = Rows(outline.clocks, [], [])
    for row, (first, last) in zip(outline.rows, outline.lines, strict=True):
        entry = _entry(row, first, last, cite)
        if entry is not None:
            rows.entries.append(entry)
            rows.left_out.append(row.left_out)
    return rows


def _clock(key: ClockKey, number: int, ordered: Sequence[Moment], paths: Mapping[SourceId, str]) -> Clock:
    zone, dated, yeared = key
    files = _paths((m.source for m in ordered), paths)
    return Clock(number=number, zone=zone, dated=dated, yeared=yeared, files=files, events=len(ordered))


def _paths(sources: Iterable[SourceId], paths: Mapping[SourceId, str]) -> list[str]:
    """Shown paths, each once, sorted."""
    return sorted({paths.get(source, "?") for source in set(sources)})


def _row(found: Fold, clock: int | None, left_out: int, paths: Mapping[SourceId, str]) -> Row:
    first = found.moments[0]
    sources: dict[SourceId, None] = dict.fromkeys(m.source for m in found.moments)
    return Row(
        clock=clock,
        time=time_of(found.when),
        exact=all(exact(m.when) for m in found.moments),
        role=first.role,
        what=first.what,
        signature=first.signature,
        attempt=first.attempt,
        ranks=sorted({int(m.rank) for m in found.moments if m.rank is not None}),
        hosts=sorted({m.host for m in found.moments if m.host is not None}),
        files=sorted(paths.get(s, "?") for s in sources),
        count=found.count,
        left_out=left_out,
    )


def _entry(row: Row, first: Shown, last: Shown | None, cite: Citer) -> Entry | None:
    """The entry of a row; None where its first line does not read back."""
    evidence = _cited(first, cite)
    if evidence is None:
        return None
    return Entry(
        clock=row.clock,
        time=row.time,
        exact=row.exact,
        role=row.role,
        what=row.what,
        signature=row.signature,
        attempt=row.attempt,
        ranks=row.ranks,
        hosts=row.hosts,
        files=row.files,
        count=row.count,
        evidence=evidence,
        last=None if last is None else _cited(last, cite),
    )


def _cited(shown: Shown, cite: Citer) -> Evidence | None:
    if isinstance(shown, Event):
        return cite.event(shown)
    return cite.failure(shown) if isinstance(shown, Failure) else cite.sample(shown)
