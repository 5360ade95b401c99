"""The training metrics of an input: tables, abnormal points, readings, curves. Result objects only; nothing is redacted or printed here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.course import row_of
from firstfault.metrics.curves import curves_of
from firstfault.metrics.devices import DeviceSeries, read_devices
from firstfault.metrics.histories import longest
from firstfault.metrics.joint import read_together
from firstfault.metrics.points import Kind, Point, find_points
from firstfault.metrics.read import read_source_steps
from firstfault.metrics.steps import by_rank, unnamed
from firstfault.metrics.timers import read_timers
from firstfault.metrics.words import done_at, pause_of, summary_of
from firstfault.model.diagnosis import CoverageRow, Evidence
from firstfault.model.metrics import MetricFinding, MetricPoint, MetricsView, MetricTable
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.lines import lines_of
from firstfault.readers.open import Opened, open_inputs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from firstfault.metrics.joint import Reading
    from firstfault.metrics.steps import Steps
    from firstfault.model.evidence import Source, SourceId
    from firstfault.pipelines.lines import Line
    from firstfault.readers.store import Store
    from firstfault.redact import Redacted

BEFORE = 400
"""Lines between the row before a long step and its own in which its reason may be told: each rank may tell of a checkpoint."""


class Measured(NamedTuple):
    """What was read."""

    tables: list[Steps]
    devices: list[DeviceSeries]
    points: list[Point]
    view: MetricsView


@contextmanager
def opened_tables(
    paths: Sequence[str | os.PathLike[str]], stdin: IO[bytes] | None = None
) -> Iterator[tuple[Opened, list[Steps], list[DeviceSeries]]]:
    """The step tables and GPU counters of an input, which stays open meanwhile.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        stdin: where `-` reads from.
    """
    with open_inputs(paths, stdin=stdin) as opened:
        yield opened, *tables_of(opened.store, opened.sources)


def tables_of(
    store: Store, sources: Iterable[Source], *, workers: int | None = None
) -> tuple[list[Steps], list[DeviceSeries]]:
    """The step tables and GPU counters of some sources.

    Args:
        store: of the sources.
        sources: which ones.
        workers: processes at most; one for each processor where None.
    """
    tables: list[Steps] = []
    devices: list[DeviceSeries] = []
    for source in sources:
        if source.kind in {SourceKind.METRICS, SourceKind.LOG}:
            found = read_devices(store, source.id, source.path)
            if found:
                devices += found
                continue
        if source.kind is SourceKind.BLACK_BOX:
            from firstfault.metrics.boxes import read_box_steps

            table = read_box_steps(store, source.id, source.path)
        else:
            table = read_source_steps(store, source, workers=workers)
            timers = None if table is None else read_timers(store, source)
            if timers is not None:
                tables.append(timers)
        if table is not None:
            tables.append(table)
    return list(longest(tables)), devices


def metrics_of(paths: Sequence[str | os.PathLike[str]], *, stdin: IO[bytes] | None = None) -> Measured:
    """Reads the metrics of an input and says where they begin to go wrong.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        stdin: where `-` reads from; the process's own standard input where None.
    """
    with opened_tables(paths, stdin) as (opened, tables, devices):
        points, text = points_and_lines(opened.store, {s.path: s.id for s in opened.sources}, tables)
        readings = read_together(tables, points, devices)
        read = {t.source for t in tables} | {d.source for d in devices}
        view = MetricsView(
            tables=[_table(t) for t in tables],
            points=[_point(p, text.get(p.source, {})) for p in points],
            findings=[finding_of(r) for r in readings],
            curves=list(curves_of(tables)),
            coverage=[_coverage(c.file, c.state, c.reason, c.bytes, read=c.file in read) for c in opened.coverage],
        )  # fmt: skip
        return Measured(tables, devices, points, view)


def points_and_lines(
    store: Store, ids: Mapping[str, SourceId], tables: Sequence[Steps]
) -> tuple[list[Point], dict[str, dict[int, Line]]]:
    """The abnormal points of some tables, and the lines of each source that tell of them, by number."""
    points = find_points(tables)
    waits = {n: _wait_of(tables, p) for n, p in enumerate(points) if p.kind is Kind.STALL}
    lines = {path: lines_of(store, ids[path], wanted) for path, wanted in _wanted(points, waits).items()}
    told = [_with_reason(p, waits[n], lines.get(p.source, {})) if n in waits else p for n, p in enumerate(points)]
    return told, lines


def finding_of(reading: Reading) -> MetricFinding:
    """A reading, as it leaves."""
    return MetricFinding(
        claim=reading.claim,
        strength=reading.strength,
        step=reading.step,
        supports=list(reading.supports),
        against=list(reading.against),
        next=list(reading.following),
    )


def _coverage(file: str, state: CoverageState, reason: str, size: int, *, read: bool) -> CoverageRow:
    if state is CoverageState.READ and not read:
        return CoverageRow(file=file, state=CoverageState.SKIPPED, reason="no step lines in it", bytes=size)
    return CoverageRow(file=file, state=state, reason=reason, bytes=size)


class _Wait(NamedTuple):
    """What lies between the row before a long step and its own."""

    after: int
    """Line of the row before."""
    until: int
    """Line of its own."""
    begin: float
    end: float
    """Times of both rows; NaN where they tell none."""


def _wait_of(tables: Iterable[Steps], point: Point) -> _Wait:
    for table in tables:
        row = row_of(table, point)
        if table.source != point.source or table.line[row] != point.line:
            continue
        earlier = np.arange(row)
        rank = table.columns.get("rank")
        if rank is not None and point.rank is not None:
            earlier = earlier[rank.values[:row] == point.rank]
        time = table.values("time")
        begin, end = (time[earlier[-1]], time[row]) if time is not None and len(earlier) else (np.nan, np.nan)
        return _Wait(int(table.line[earlier[-1]]) if len(earlier) else 0, point.line, float(begin), float(end))
    return _Wait(point.line, point.line, np.nan, np.nan)


def _wanted(points: Iterable[Point], waits: Mapping[int, _Wait]) -> dict[str, set[int]]:
    """Lines to read again, by source: those of points, and those in which the reason of a long step may be told."""
    wanted: dict[str, set[int]] = {}
    for n, point in enumerate(points):
        wait = waits.get(n)
        low = point.line if wait is None else max(wait.after + 1, point.line - BEFORE)
        wanted.setdefault(point.source, set()).update({point.line, *range(low, point.line)})
    return wanted


def _with_reason(point: Point, wait: _Wait, lines: Mapping[int, Line]) -> Point:
    """A long step in which the log tells of a checkpoint or an evaluation, and not that it was done long before the end, is a planned pause."""
    between = range(max(wait.after + 1, point.line - BEFORE), point.line)
    texts = [lines[n].text for n in between if n in lines]
    kind = pause_of(texts)
    if kind is None:
        return point
    done = done_at(texts)
    # A log of local times next to one of another clock would mislead: both times are of the same log.
    if done is not None and wait.begin <= done <= wait.end and wait.end - done > (wait.end - wait.begin) / 2:
        return point
    return point._replace(kind=kind)


def _table(table: Steps) -> MetricTable:
    step = table.values("step")
    ranks = [r for r, _ in by_rank(table) if r is not None]
    told = step is not None and bool(np.isfinite(step).any())
    return MetricTable(
        file=table.source,
        rows=table.height,
        ranks=ranks,
        unnamed=unnamed(table),
        attempts=int(table.attempt.max()) if table.height else 1,
        first_step=float(np.nanmin(step)) if told and step is not None else None,
        last_step=float(np.nanmax(step)) if told and step is not None else None,
        columns=list(table.columns),
    )


def _point(point: Point, lines: Mapping[int, Line]) -> MetricPoint:
    line = lines.get(point.line)
    line = None if line is None else line.at_place(point.place)
    return MetricPoint(
        kind=point.kind.value,
        column=point.column,
        rank=point.rank,
        attempt=point.attempt,
        step=point.step,
        value=point.value if np.isfinite(point.value) else None,
        usual=point.usual if np.isfinite(point.usual) else None,
        count=point.rows,
        lasts=point.lasts,
        before=list(point.before),
        summary=summary_of(point),
        evidence=Evidence(file=point.source, line=point.line, column=1, text="" if line is None else line.text),
    )


def export(measured: Measured, names: Sequence[str], path: Path) -> None:
    """Writes the step tables to a file.

    Args:
        measured: what was read.
        names: what stands for each source, as far as it may leave.
        path: ends in .parquet, .csv, .json or .jsonl.

    Raises:
        PipelineError: polars is not installed, or the name ends otherwise.
    """
    from firstfault.metrics.frame import SUFFIXES, to_frame, write_frame

    if path.suffix.lower() not in SUFFIXES:
        raise PipelineError(
            "this is no form in which a table is written",
            where=str(path),
            fix=f"End the name in {', '.join(SUFFIXES)}.",
        )
    try:
        frame = to_frame(measured.tables, names)
    except ImportError as error:
        raise PipelineError(
            "a table cannot be written without polars",
            where=str(path),
            why=str(error),
            fix="In the clone: pip install '.[metrics]'",
        ) from error
    write_frame(frame, path)


def draw(safe: Redacted[MetricsView], path: Path) -> None:
    """Draws the curves to a file.

    Args:
        safe: what may leave.
        path: ends in .svg or .png.

    Raises:
        PipelineError: matplotlib is not installed, or the name ends otherwise.
    """
    if path.suffix.lower() not in {".svg", ".png"}:
        raise PipelineError(
            "this is no form in which curves are drawn", where=str(path), fix="End the name in .svg or .png."
        )
    try:
        from firstfault.report.plot import draw_metrics
    except ImportError as error:
        raise PipelineError(
            "curves cannot be drawn without matplotlib",
            where=str(path),
            why=str(error),
            fix="In the clone: pip install '.[plots]'",
        ) from error
    draw_metrics(safe, path)
