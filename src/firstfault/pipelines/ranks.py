"""The table of all ranks at the end of one attempt: folds, filters, re-reads every line behind a row.

Must not fold equal rows or choose columns: that is how a table is shown, not what it says.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.rank_table import InGroup, lines_of, rank_entries
from firstfault.analysis.telling import counted
from firstfault.analysis.wording import ranges
from firstfault.model.diagnosis import CoverageRow
from firstfault.model.views import GroupCell, PartWord, Proof, RankLine, RankTable
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.verdict import verdict_in

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import IO

    from firstfault.analysis.rank_table import Entry
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Cell, Group
    from firstfault.model.evidence import Event
    from firstfault.model.views import StateWord
    from firstfault.pipelines.options import DiagnoseOptions


class RankFilters(Struct, frozen=True, kw_only=True):
    """Which rows are wanted; what is empty leaves nothing out."""

    ranks: tuple[tuple[int, int], ...] = ()
    """Ranges of global ranks, both ends included."""
    hosts: tuple[str, ...] = ()
    """Names, with or without their domain; `*` and `?` stand for anything."""
    groups: tuple[str, ...] = ()
    """Names or descriptions of process groups; `default` is the default group."""
    parts: tuple[PartWord, ...] = ()
    outliers: bool = False


def rank_table(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions,
    filters: RankFilters | None = None,
    *,
    stdin: IO[bytes] | None = None,
) -> RankTable:
    """What is true of every rank at the end of one attempt.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: as for a diagnosis; one attempt, not all.
        filters: which rows are wanted; all where None.
        stdin: where `-` reads from; the process's own standard input where None.

    Returns:
        The table, not yet redacted: outliers first.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt or the group asked for is not there.
    """
    wanted = filters or RankFilters()
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier, _):
        scene = conclusion.scene
        cite = Citer(verifier, scene.case.paths)
        entries = rank_entries(scene, conclusion.answer)
        groups = _groups(entries, wanted)
        kept = [e for e in entries if _wanted(e, wanted, groups)]
        cite.ahead(e for entry in kept for e in lines_of(entry))
        verdict = verdict_in(conclusion.scene, conclusion.answer, cite)
        rows = [_line(entry, groups, cite) for entry in kept]
        here = counted(scene, conclusion.answer)
        return RankTable(
            verdict=verdict,
            attempt=scene.number,
            attempts=len(conclusion.attempts),
            left_out=len(entries) - len(kept),
            coverage=coverage_of(scene),
            expected=scene.complete.expected,
            seen=len(here.seen),
            seen_ranks=ranges(here.seen, most=len(here.seen)),
            at_least=here.at_least,
            silent=[int(r) for r in here.silent],
            ranks=rows,
            verification=cite.verification(),
        )


def coverage_of(scene: Scene) -> list[CoverageRow]:
    """What became of every input."""
    return [CoverageRow(file=c.file, state=c.state, reason=c.reason, bytes=c.bytes) for c in scene.case.seen.coverage]


def group_name(group: Group) -> str:
    """Name of a group with its description, as a cell shows it."""
    if group.default:
        return "default"
    if group.name.startswith("?"):
        return "not named"
    return f"{group.name} ({group.desc})" if group.desc else group.name


def _groups(entries: Sequence[Entry], wanted: RankFilters) -> frozenset[str] | None:
    """Names of the groups asked for; None where all are."""
    if not wanted.groups:
        return None
    known = {g.group.name: g.group for e in entries for g in e.groups}
    found = frozenset(n for n, group in known.items() if set(wanted.groups) & {n, group.desc, group_name(group)})
    if not found:
        there = ", ".join(f"`{group_name(g)}`" for _, g in sorted(known.items()))
        raise PipelineError(
            f"no rank is stuck in a process group called {', '.join(wanted.groups)}",
            where="--group",
            why=f"groups in which ranks are stuck: {there}"
            if known
            else "no line states what a process group waits for",
            fix="Give one of these names, or leave --group out." if known else "Leave --group out.",
        )
    return found


def _wanted(entry: Entry, filters: RankFilters, groups: frozenset[str] | None) -> bool:
    if filters.outliers and not entry.outlier:
        return False
    if filters.ranks and not any(low <= entry.rank <= high for low, high in filters.ranks):
        return False
    if filters.parts and (entry.part is None or str(entry.part) not in filters.parts):
        return False
    if filters.hosts and not _on(entry.host, filters.hosts):
        return False
    return groups is None or any(g.group.name in groups for g in entry.groups)


def _on(host: str | None, patterns: Sequence[str]) -> bool:
    names = () if host is None else (host, short_host(host))
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _line(entry: Entry, groups: frozenset[str] | None, cite: Citer) -> RankLine:
    shown = [g for g in entry.groups if groups is None or g.group.name in groups]
    return RankLine(
        rank=int(entry.rank),
        local_rank=entry.local_rank,
        node_rank=entry.node_rank,
        host=entry.host,
        state=cast("StateWord", str(entry.state)),
        part=None if entry.part is None else cast("PartWord", str(entry.part)),
        outlier=entry.outlier,
        groups=[_cell(g) for g in shown],
        last_step=None if entry.step is None else entry.step.step,
        phase=entry.phase,
        note=entry.note,
        proof=_proof(entry, shown, cite),
    )


def _cell(here: InGroup) -> GroupCell:
    cell = here.cell
    work = cell.work
    return GroupCell(
        group=group_name(here.group),
        last_enqueued=cell.enqueued,
        last_completed=cell.completed,
        op=None if work is None else work.op,
        seq=None if work is None else work.seq,
        numel_in=None if work is None else work.numel_in,
        numel_out=None if work is None else work.numel_out,
        timeout_ms=None if work is None else work.timeout_ms,
        ran_ms=None if work is None else work.ran_ms,
        in_flight=cell.pending,
    )


def _proof(entry: Entry, shown: Sequence[InGroup], cite: Citer) -> list[Proof]:
    """The lines of one row, each with the names of the cells that it states."""
    states: dict[tuple[int, int], tuple[Event, list[str]]] = {}

    def told(event: Event | None, *names: str) -> None:
        if event is not None and names:
            known = states.setdefault((event.span.source, event.span.offset), (event, []))
            known[1].extend(n for n in names if n not in known[1])

    if entry.own_error:
        told(entry.note_event, "note")
    for number, here in enumerate(shown):
        work = here.cell.work
        if work is not None:
            told(work.event, *(f"groups.{number}.{name}" for name in _stated_by_work(here.cell)))
        told(here.cell.state, *(f"groups.{number}.{name}" for name in _stated_by_counters(here.cell)))
    told(entry.note_event, "note")
    told(entry.phase_event, "phase")
    for name, event in entry.named.items():
        told(event, name)
    proof = []
    for event, names in states.values():
        evidence = cite.event(event)
        if evidence is not None:
            proof.append(Proof(states=names, evidence=evidence))
    step = None if entry.step is None else cite.sample(entry.step)
    return proof if step is None else [*proof, Proof(states=["last_step"], evidence=step)]


def _stated_by_work(cell: Cell) -> list[str]:
    work = cell.work
    names: tuple[Literal["op", "seq", "numel_in", "numel_out", "timeout_ms", "ran_ms"], ...]
    names = ("op", "seq", "numel_in", "numel_out", "timeout_ms", "ran_ms")
    return [name for name in names if getattr(work, name) is not None]


def _stated_by_counters(cell: Cell) -> list[str]:
    pairs = (("last_enqueued", cell.enqueued), ("last_completed", cell.completed))
    return [name for name, value in pairs if value is not None]
