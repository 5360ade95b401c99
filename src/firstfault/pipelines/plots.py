"""What the plots of a page are drawn from: the step tables and counters of an input, within a bound of bytes and sources.

Must not choose how anything is drawn, and changes nothing about the diagnosis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import ProgressSample
from firstfault.model.words import Category, SourceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from firstfault.analysis.conclude import Conclusion
    from firstfault.metrics.points import Point
    from firstfault.model.evidence import Source, SourceId
    from firstfault.model.plots import Plot, PlotMark, Plots
    from firstfault.pipelines.cite import Citer
    from firstfault.pipelines.lines import Line
    from firstfault.readers.store import Store

BYTES, LARGEST = 256 << 20, 128 << 20
"""Bytes that are read for a page in all, and of one source; `firstfault metrics` reads whatever it is given."""
SOURCES = 1024
"""Sources that are read for a page."""
MARKS, PAUSES = 6, 2
"""Abnormal points and planned pauses of one plot that are marked: the first ones."""
_MAY_HOLD = frozenset({SourceKind.LOG, SourceKind.METRICS, SourceKind.BLACK_BOX})


def plots_of(conclusion: Conclusion, cite: Citer, store: Store, ranks: Collection[int]) -> Plots | None:
    """The plots of an input; None where it holds no metrics.

    Args:
        conclusion: what was found.
        cite: of its lines.
        store: of its sources.
        ranks: of which a line of their own is drawn where there are many.
    """
    if not _may_tell(conclusion):
        return None
    sources = _in_order(conclusion)
    chosen = _within(sources, store)
    # What few pages need is loaded only for these.
    from firstfault.metrics import plots
    from firstfault.metrics.joint import read_together
    from firstfault.metrics.points import alarms
    from firstfault.model.plots import Plots
    from firstfault.pipelines.metrics import finding_of, points_and_lines, tables_of

    tables, devices = tables_of(store, chosen, workers=1)
    if not tables and not devices:
        return None
    ids = {s.path: s.id for s in chosen}
    points, lines = points_and_lines(store, ids, tables)
    wrong = alarms(points)
    named = {*ranks, *(p.rank for p in wrong if p.rank is not None)}
    drawn = plots.plots_of(tables, devices, abnormal={p.column for p in wrong}, ranks=named)
    shown = [_marked(plot, points, lines, ids, cite) for plot in drawn]
    if not shown:
        return None
    return Plots(
        plots=shown,
        findings=[finding_of(r) for r in read_together(tables, points, devices)],
        left_out=len(sources) - len(chosen),
    )


def _may_tell(conclusion: Conclusion) -> bool:
    """Whether anything speaks for metrics at all: a step, a table, a recorder's file, counters of GPUs, numbers that went wrong."""
    seen = conclusion.scene.case.seen
    tables = any(s.kind in {SourceKind.METRICS, SourceKind.BLACK_BOX} for s in seen.sources)
    return tables or bool(seen.progress or seen.courses) or conclusion.answer.category is Category.NUMERICAL


def _in_order(conclusion: Conclusion) -> list[Source]:
    """Sources that may hold metrics: what the verdict cites first, then what tells of progress."""
    seen = conclusion.scene.case.seen
    cited = {e.span.source for e in conclusion.answer.proof}
    steps = {p.source for p in seen.progress}
    may = [s for s in seen.sources if s.kind in _MAY_HOLD]
    return sorted(may, key=lambda s: (s.id not in cited, s.id not in steps and s.kind is SourceKind.LOG, s.path))


def _within(sources: Sequence[Source], store: Store) -> list[Source]:
    """The first of them that fit the bounds."""
    left = BYTES
    chosen: list[Source] = []
    for source in sources:
        size = store.size(source.id)
        if len(chosen) < SOURCES and size <= min(left, LARGEST):
            chosen.append(source)
            left -= size
    return chosen


def _marked(
    plot: Plot, points: Sequence[Point], lines: dict[str, dict[int, Line]], ids: dict[str, SourceId], cite: Citer
) -> Plot:
    from msgspec.structs import replace

    from firstfault.metrics.kinds import ORDINARY

    here = [p for p in points if p.column == plot.column]
    told = [p for p in here if p.kind not in ORDINARY][:MARKS] + [p for p in here if p.kind in ORDINARY][:PAUSES]
    marks = [_mark(p, plot, lines.get(p.source, {}), ids[p.source], cite) for p in told]
    return replace(plot, marks=[m for m in marks if m is not None])


def _mark(point: Point, plot: Plot, lines: dict[int, Line], source: SourceId, cite: Citer) -> PlotMark | None:
    from firstfault.metrics.kinds import ORDINARY
    from firstfault.metrics.words import summary_of
    from firstfault.model.plots import PlotMark

    line = lines.get(point.line)
    evidence = None if line is None else cite.sample(ProgressSample(source, point.line, line.offset))
    if evidence is None:
        return None
    return PlotMark(
        kind=point.kind.value,
        x=point.step if plot.axis == "step" else None,
        rank=point.rank,
        planned=point.kind in ORDINARY,
        text=summary_of(point) + (f" Before: {'; '.join(point.before)}." if point.before else ""),
        evidence=evidence,
    )
