"""The page of one incident: the diagnosis, and beside it what its pictures are drawn from.

Must not choose what is shown where; that is the renderer's business. Everything is bounded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.gpu_evidence import SAMPLE
from firstfault.analysis.lanes import lanes
from firstfault.analysis.rank_table import at_work, lines_of
from firstfault.analysis.verify import NO_LINES
from firstfault.model.evidence import Event, SourceId, When
from firstfault.model.page import Context, Course, CoursePoint, GroupColumns, Lanes, Page, RankColumns
from firstfault.pipelines.build import Builder
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.flight_recorder import recorder_of
from firstfault.pipelines.memory import memory_of
from firstfault.pipelines.plots import plots_of
from firstfault.pipelines.ranks import group_name
from firstfault.pipelines.stacks import stacks_of
from firstfault.pipelines.times import time_of
from firstfault.report.page_data import AROUND, cited_lines

if TYPE_CHECKING:
    import os
    from collections.abc import Container, Iterable, Sequence
    from typing import IO

    from firstfault.analysis.rank_table import Entry
    from firstfault.analysis.state.groups import Group
    from firstfault.model.gpu_course import GpuCourse, GpuSample
    from firstfault.model.words import Word
    from firstfault.pipelines.cite import Citer
    from firstfault.pipelines.options import DiagnoseOptions

RANKS = 65_536
"""Ranks that a page holds; outliers come first."""
PLACES = 160
"""Cited lines that are shown with the lines around them; the most telling ones."""
COURSES = 512
"""GPUs whose counters are shown."""
POINTS = ("first", "slowed", "errors", "idle", "busy", "lost", "last")


def page(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions | None = None,
    *,
    stdin: IO[bytes] | None = None,
) -> Page:
    """The diagnosis of an input with what a page about it shows.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: as for a diagnosis.
        stdin: where `-` reads from; the process's own standard input where None.

    Returns:
        The page, not yet redacted.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    from firstfault.pipelines.options import DiagnoseOptions

    options = options or DiagnoseOptions()
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier, store):
        builder = Builder(conclusion, verifier, every=options.attempt == "all")
        diagnosis = builder.build()
        cite, seen = builder.cite, conclusion.scene.case.seen
        entries = builder.entries[:RANKS]
        shown = Page(
            diagnosis=diagnosis,
            ranks=_columns(entries, len(builder.entries) - len(entries), cite, conclusion.answer.proof),
            lanes=_lanes(builder, entries),
            courses=_courses(seen.courses, cite),
            stacks=stacks_of(conclusion, cite) if seen.stacks else None,
            memory=memory_of(conclusion, cite) if seen.snapshots else None,
            recorder=recorder_of(conclusion, cite) if seen.dumps else None,
            plots=plots_of(conclusion, cite, store, diagnosis.verdict.culprits.ranks),
        )
        return replace(shown, context=_context(shown, builder))


class _Names:
    """Different names in the order in which they came, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str | Word | None) -> int | None:
        """Number of a name; None for none."""
        return None if name is None or name == "" else self.of(str(name))

    def of(self, name: str) -> int:
        """Number of a name that is there."""
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The names by their numbers."""
        return list(self._numbers)


def _columns(entries: Sequence[Entry], left_out: int, cite: Citer, proof: Sequence[Event]) -> RankColumns:
    hosts, states, parts, phases, notes, files = (_Names() for _ in range(6))
    told = [next(iter(lines_of(e)), None) for e in entries]
    cite.ahead(e for e in told if e is not None)
    cited = [None if e is None else cite.event(e) for e in told]
    return RankColumns(
        rank=[int(e.rank) for e in entries],
        host=[hosts.number(e.host) for e in entries],
        local_rank=[e.local_rank for e in entries],
        node_rank=[e.node_rank for e in entries],
        state=[states.of(str(e.state)) for e in entries],
        part=[parts.number(e.part) for e in entries],
        outlier=[e.outlier for e in entries],
        last_step=[None if e.step is None else e.step.step for e in entries],
        phase=[phases.number(e.phase) for e in entries],
        note=[notes.number(e.note) for e in entries],
        file=[None if c is None else files.of(c.file) for c in cited],
        line=[None if c is None else c.line for c in cited],
        hosts=hosts.all,
        states=states.all,
        parts=parts.all,
        phases=phases.all,
        notes=notes.all,
        files=files.all,
        groups=_groups(entries, proof),
        left_out=left_out,
    )


def _groups(entries: Sequence[Entry], proof: Sequence[Event]) -> list[GroupColumns]:
    """The groups in which somebody is stuck; ranks of which a cell says nothing are left out.

    Args:
        entries: the ranks.
        proof: lines on which the verdict rests.
    """
    proving = {(e.span.source, e.span.offset) for e in proof}
    groups: dict[str, Group] = {}
    rows: dict[str, list[int]] = {}
    for row, entry in enumerate(entries):
        for here in entry.groups:
            if any(told is not None and told is not False for told in at_work(here.cell)):
                groups[here.group.name] = here.group
                rows.setdefault(here.group.name, []).append(row)
    return [_group(groups[name], rows[name], entries, proving) for name in rows]


def _group(
    group: Group, rows: list[int], entries: Sequence[Entry], proving: Container[tuple[SourceId, int]]
) -> GroupColumns:
    ops = _Names()
    cells = [group.cells[entries[row].rank] for row in rows]
    works = [cell.work for cell in cells]
    return GroupColumns(
        name=group_name(group),
        in_verdict=any(
            work is not None and (work.event.span.source, work.event.span.offset) in proving for work in works
        ),
        rows=rows,
        enqueued=[c.enqueued for c in cells],
        completed=[c.completed for c in cells],
        op=[None if w is None else ops.number(w.op) for w in works],
        seq=[None if w is None else w.seq for w in works],
        numel_in=[None if w is None else w.numel_in for w in works],
        numel_out=[None if w is None else w.numel_out for w in works],
        timeout_ms=[None if w is None else w.timeout_ms for w in works],
        ran_ms=[None if w is None else w.ran_ms for w in works],
        in_flight=[c.pending for c in cells],
        ops=ops.all,
    )


def _lanes(builder: Builder, entries: Sequence[Entry]) -> Lanes | None:
    course = lanes(builder.scene, entries, builder.conclusion.answer.trigger)
    if course is None or course.start.earliest is None:
        return None
    zero, start = course.start.earliest, course.start
    waits = [lane.wait_from for lane in course.lanes.values() if lane.wait_from is not None]
    if waits and min(waits) < zero:  # a wait may begin before the first line that is there
        zero = min(waits)
        start = When(earliest=zero, latest=zero, zone=start.zone, dated=start.dated, yeared=start.yeared)
    origin = time_of(start)
    if origin is None:
        return None

    def since(times: Iterable[float | None]) -> list[float | None]:
        return [None if at is None else round(at - zero, 1) for at in times]

    rows = [course.lanes[e.rank] for e in entries]
    first_fault, fault_after, fault_before = since([course.first_fault, course.fault_after, course.fault_before])
    return Lanes(
        origin=origin,
        seconds=round(course.end - zero, 1),
        first_fault=first_fault,
        fault_after=fault_after,
        fault_before=fault_before,
        begins=since(lane.begins for lane in rows),
        active_to=since(lane.active_to for lane in rows),
        wait_from=since(lane.wait_from for lane in rows),
        wait_to=since(lane.wait_to for lane in rows),
        died=since(lane.died for lane in rows),
        died_after=since(lane.died_after for lane in rows),
        died_before=since(lane.died_before for lane in rows),
        reported=since(lane.reported for lane in rows),
        ends=since(lane.ends for lane in rows),
    )


def _context(shown: Page, builder: Builder) -> list[Context]:
    """The lines around the most telling evidence, by file and place."""
    cite = builder.cite
    proof = builder.conclusion.answer.proof
    dumps = {(cite.path(e.span.source), e.span.line) for e in proof if e.signature in NO_LINES}
    told: dict[str, dict[int, str]] = {}
    wanted = [(file, line) for file, lines in cited_lines(shown).items() for line in lines]
    for place in sorted(wanted[:PLACES]):
        span = cite.spans.get(place)
        if span is None or place in dumps:
            continue
        first, lines = cite.verifier.around(span, AROUND)
        there = told.setdefault(place[0], {})
        for number, line in enumerate(lines, first):
            there.setdefault(number, line)
    found: list[Context] = []
    for file, there in sorted(told.items()):
        begin, run = 0, list[str]()
        for number in sorted(there):
            if run and number == begin + len(run):
                run.append(there[number])
                continue
            if run:
                found.append(Context(file=file, first=begin, lines=run))
            begin, run = number, [there[number]]
        if run:
            found.append(Context(file=file, first=begin, lines=run))
    return found


def _courses(courses: Sequence[GpuCourse], cite: Citer) -> list[Course]:
    shown = sorted(courses, key=lambda c: not _told(c))[:COURSES]
    rows = []
    for course in shown:
        points = [p for what in POINTS if (p := _point(what, getattr(course, what), cite)) is not None]
        rows.append(
            Course(
                gpu=course.gpu,
                bus=course.bus,
                host=course.host,
                samples=course.count,
                points=points,
                told=_told(course),
            )
        )
    return rows


def _told(course: GpuCourse) -> bool:
    return any(row is not None for row in (course.lost, course.errors, course.slowed, course.idle))


def _point(what: str, sample: GpuSample | None, cite: Citer) -> CoursePoint | None:
    if sample is None:
        return None
    line = cite.event(Event(signature=SAMPLE, span=sample.span, text=sample.text, when=sample.when))
    if line is None:
        return None
    return CoursePoint(
        what=what,
        evidence=line,
        utilization=sample.utilization,
        memory=sample.memory,
        temperature=sample.temperature,
        uncorrected=sample.uncorrected,
    )
