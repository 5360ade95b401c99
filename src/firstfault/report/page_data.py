"""The data of the HTML page's pictures: columns as they are, every text made neutral.

Must not infer, and must not put anything there that the page's own text does not stand for.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from firstfault.redact import walk
from firstfault.report.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.model.diagnosis import Diagnosis, Evidence
    from firstfault.model.page import Page
    from firstfault.model.plots import Plot, PlotLine
    from firstfault.model.views import MemoryRow

Cited = dict[str, dict[int, str]]
"""File -> number -> text of lines."""
AROUND = 5
"""Lines on each side of a cited one."""
LINK = 4
"""Lines of one link of the chain that stand among the key files."""
PLACES = 40
"""Places of one memory snapshot that are drawn."""
SNAPSHOTS = 16
"""Devices whose memory is drawn."""


class Line(Struct, frozen=True, kw_only=True):
    """One line of an excerpt."""

    number: int
    text: str
    cited: bool
    anchor: str = ""
    """Its name on the page; empty where nothing points at it."""


class Excerpt(Struct, frozen=True, kw_only=True):
    """Lines of one file that stand together."""

    lines: list[Line]


class FileExcerpts(Struct, frozen=True, kw_only=True):
    """One file with its excerpts in order."""

    file: str
    cited: int
    """Lines of it that are evidence."""
    excerpts: list[Excerpt]


def anchor(file: str, line: int) -> str:
    """Name of a line on the page; of fixed form, whatever characters a file's name holds."""
    return f"L{hashlib.sha256(file.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}-{line}"


def cited_lines(page: Page) -> Cited:
    """Every line that the page may point at; the most telling files and lines first."""
    d = page.diagnosis
    telling = [] if d.verdict.trigger is None else [d.verdict.trigger]
    telling += [e for link in d.chain for e in link.evidence]
    telling += d.key_lines
    telling += [e for reading in d.naive for e in reading.evidence]
    return _by_file([*telling, *_further(page)])


def _telling(page: Page) -> Cited:
    """The lines on which the verdict rests, of each link of the chain the first few."""
    d = page.diagnosis
    lines = [] if d.verdict.trigger is None else [d.verdict.trigger]
    lines += [e for link in d.chain for e in link.evidence[:LINK]]
    return _by_file([*lines, *d.key_lines])


def _further(page: Page) -> list[Evidence]:
    d = page.diagnosis
    lines = [e for fact in d.job.values() for e in fact.evidence]
    lines += [e for witness in d.ranks.witnesses for e in witness.evidence]
    lines += [a.first_line for a in d.attempts if a.first_line is not None]
    lines += [entry.evidence for entry in d.timeline]
    lines += _of_storage(d)
    lines += [] if page.stacks is None else [e for p in page.stacks.places for e in p.evidence]
    lines += [] if page.recorder is None else page.recorder.key_entries
    lines += [p.evidence for c in page.courses if c.told for p in c.points]
    lines += [] if page.plots is None else [m.evidence for plot in page.plots.plots for m in plot.marks]
    return [*lines, *(e for row in d.ranks.table for e in row.evidence)]


def _by_file(lines: Iterable[Evidence]) -> Cited:
    found: Cited = {}
    for line in lines:
        found.setdefault(line.file, {}).setdefault(line.line, line.text)
    return found


def _of_storage(diagnosis: Diagnosis) -> list[Evidence]:
    held = diagnosis.storage
    if held is None:
        return []
    restarts = [e for daemon in held.daemons for e in daemon.restarts]
    counted = [e for row in held.counters for e in row.evidence]
    return [*held.clock.evidence, *(event.evidence for event in held.events), *restarts, *counted]


def files_of(page: Page) -> tuple[list[FileExcerpts], list[FileExcerpts]]:
    """The excerpts of the files on which the verdict rests, and those of what else is cited; no cited line is in both."""
    around: dict[str, dict[int, str]] = {}
    for block in page.context:
        there = around.setdefault(block.file, {})
        there.update({block.first + i: text for i, text in enumerate(block.lines)})
    telling = _telling(page)
    rest = {
        file: left
        for file, lines in cited_lines(page).items()
        if (left := {n: text for n, text in lines.items() if n not in telling.get(file, {})})
    }
    return _files(telling, around), _files(rest, around)


def _files(cited: Cited, around: Mapping[str, Mapping[int, str]]) -> list[FileExcerpts]:
    found = []
    for file, lines in cited.items():
        there = around.get(file, {})
        near = {n: there[n] for at in lines for n in range(at - AROUND, at + AROUND + 1) if n in there}
        found.append(FileExcerpts(file=file, cited=len(lines), excerpts=_excerpts(file, {**near, **lines}, lines)))
    return found


def _excerpts(file: str, lines: Mapping[int, str], cited: Mapping[int, str]) -> list[Excerpt]:
    found: list[Excerpt] = []
    for number in sorted(lines):
        name = anchor(file, number) if number in cited else ""
        line = Line(number=number, text=lines[number], cited=number in cited, anchor=name)
        if found and found[-1].lines[-1].number == number - 1:
            found[-1].lines.append(line)
        else:
            found.append(Excerpt(lines=[line]))
    return found


def data_of(page: Page, say: Mapping[str, str]) -> dict[str, Any]:
    """What the script reads."""
    calm: Page = walk(page, neutral)
    diagnosis, ranks = calm.diagnosis, msgspec.to_builtins(calm.ranks)
    prefix = "page.js."
    return {
        "say": {key[len(prefix) :]: text for key, text in say.items() if key.startswith(prefix)},
        "ranks": ranks,
        "expected": diagnosis.ranks.expected,
        "lanes": None if calm.lanes is None else msgspec.to_builtins(calm.lanes),
        "culprits": diagnosis.verdict.culprits.ranks,
        "anchors": _anchors(page),
        "memory": [_memory(row) for row in _devices(calm)[:SNAPSHOTS]],
        "plots": _plots(page, calm),
    }


def _plots(page: Page, calm: Page) -> list[dict[str, Any]]:
    """The plots; a line is named on the page by its file as it is, and shown as it was made neutral."""
    if page.plots is None or calm.plots is None:
        return []
    shown = []
    for plot, as_is in zip(calm.plots.plots, page.plots.plots, strict=True):
        places = [anchor(mark.evidence.file, mark.evidence.line) for mark in as_is.marks]
        marks = zip(plot.marks, places, strict=True)
        shown.append(
            {
                "column": plot.column,
                "unit": plot.unit,
                "axis": plot.axis,
                "lines": [[_course(line, plot), line.x, line.y] for line in plot.lines],
                "spread": None if plot.spread is None else msgspec.to_builtins(plot.spread),
                "marks": [[m.x, "planned" if m.planned else "bad", m.text, place] for m, place in marks],
            }
        )
    return shown


def _course(line: PlotLine, plot: Plot) -> dict[str, Any]:
    """Whose a line is; its file only where lines of several are drawn."""
    several = len({other.file for other in plot.lines}) > 1
    return {
        "rank": line.rank,
        "device": line.device,
        "host": line.host,
        "file": line.file if several else "",
        "attempt": line.attempt,
    }


def _anchors(page: Page) -> dict[str, str]:
    """The lines of ranks that stand on the page: number of the file and the line -> their name there."""
    cited = cited_lines(page)
    ranks = page.ranks
    pairs = {(f, n) for f, n in zip(ranks.file, ranks.line, strict=True) if f is not None and n is not None}
    return {f"{f}:{n}": anchor(ranks.files[f], n) for f, n in sorted(pairs) if n in cited.get(ranks.files[f], {})}


def _devices(page: Page) -> list[MemoryRow]:
    """Devices with a snapshot, those of the culprits first."""
    named = set(page.diagnosis.verdict.culprits.ranks)
    rows = [] if page.memory is None else page.memory.rows
    return sorted(rows, key=lambda row: row.rank not in named)


def _memory(row: MemoryRow) -> dict[str, Any]:
    return {
        "who": row.rank,
        "host": row.host,
        "device": row.device,
        "failed": row.failed,
        "held": row.held,
        "reserved": row.reserved,
        "inactive": row.inactive,
        "nameless": row.nameless,
        "places": [[p.place, p.bytes, p.blocks, p.part, p.steady] for p in row.places[:PLACES]],
        "rest": sum(p.bytes for p in row.places[PLACES:]),
    }
