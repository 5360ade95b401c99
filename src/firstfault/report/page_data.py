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
    from collections.abc import Mapping

    from firstfault.model.diagnosis import Diagnosis, Evidence
    from firstfault.model.page import Page

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


def cited_lines(page: Page) -> dict[str, dict[int, str]]:
    """File -> number -> text of every line that the page may point at; the most telling files and lines first."""
    d, found = page.diagnosis, dict[str, dict[int, str]]()
    everything = [] if d.verdict.trigger is None else [d.verdict.trigger]
    everything += [e for link in d.chain for e in link.evidence]
    everything += d.key_lines
    everything += [e for reading in d.naive for e in reading.evidence]
    everything += [e for fact in d.job.values() for e in fact.evidence]
    everything += [e for witness in d.ranks.witnesses for e in witness.evidence]
    everything += [a.first_line for a in d.attempts if a.first_line is not None]
    everything += [entry.evidence for entry in d.timeline]
    everything += _of_storage(d)
    everything += [] if page.stacks is None else [e for p in page.stacks.places for e in p.evidence]
    everything += [] if page.recorder is None else page.recorder.key_entries
    everything += [p.evidence for c in page.courses if c.told for p in c.points]
    everything += [e for row in d.ranks.table for e in row.evidence]
    for line in everything:
        found.setdefault(line.file, {}).setdefault(line.line, line.text)
    return found


def _of_storage(diagnosis: Diagnosis) -> list[Evidence]:
    held = diagnosis.storage
    if held is None:
        return []
    restarts = [e for daemon in held.daemons for e in daemon.restarts]
    counted = [e for row in held.counters for e in row.evidence]
    return [*held.clock.evidence, *(event.evidence for event in held.events), *restarts, *counted]


def files_of(page: Page) -> list[FileExcerpts]:
    """The excerpts of every file that is cited; the lines around a cited one where the page has them."""
    around: dict[str, dict[int, str]] = {}
    for block in page.context:
        there = around.setdefault(block.file, {})
        there.update({block.first + i: text for i, text in enumerate(block.lines)})
    found = []
    for file, cited in cited_lines(page).items():
        lines = {**around.get(file, {}), **cited}
        found.append(FileExcerpts(file=file, cited=len(cited), excerpts=_excerpts(file, lines, cited)))
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
        "memory": [] if calm.memory is None else [_memory(row) for row in calm.memory.rows[:SNAPSHOTS]],
    }


def _anchors(page: Page) -> dict[str, str]:
    """The lines of ranks that stand on the page: number of the file and the line -> their name there."""
    cited = cited_lines(page)
    ranks = page.ranks
    pairs = {(f, n) for f, n in zip(ranks.file, ranks.line, strict=True) if f is not None and n is not None}
    return {
        f"{f}:{n}": anchor(ranks.files[f], n) for f, n in sorted(pairs) if n in cited.get(ranks.files[f], {})
    }


def _memory(row: Any) -> dict[str, Any]:
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
