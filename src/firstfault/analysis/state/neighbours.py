"""Which job, or which element of a job array, each file of a folder is of: each is a job of its own, with an end of its own.

Goes by names of files and by the rows of a scheduler's table. A number behind a job's (`slurm-4711_3.out`) may as well be a
task's of one job: it is an element's only where a table has such elements, or the files state jobs of their own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import SourceId
from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event

_NUMBERED = lazy(r"^(slurm|job|error|err|out|output|log|std(?:out|err))[-_.](\d+)(?=[-_.])", re.IGNORECASE)
_JOB = lazy(r"[1-9]\d{3,8}")
"""A scheduler's job number: never padded, and of at least four digits, unlike the number of a rank or a node."""
_ELEMENT = lazy(r"(?<![\dA-Za-z])(\d{1,12})_(\d{1,8})(?=[-_.]|$)")
_NUMBER = lazy(r"(?<![\d.])[1-9]\d{1,11}(?![\d])")
SEVERAL = 2


class Neighbours(Struct, frozen=True):
    """Jobs or elements whose files lie side by side, each by its place in `names`."""

    names: tuple[str, ...] = ()
    """What each is called, in order; empty where all files may be of one job."""
    place: dict[SourceId, int] = {}
    """Of the files that belong to one of them."""
    array: bool = False
    """Whether they are elements of one array: those run side by side, and none is the successor of another."""

    def listed(self, case: Case) -> bool:
        """Whether a scheduler's table has rows of several of them."""
        rows = (self.of_row(e) for e in case.events if "row_job" in e.fields)
        return len({row for row in rows if row is not None}) >= SEVERAL

    def of_row(self, event: Event) -> int | None:
        """The one that a line outside of their files names by its number; None where it names none of them."""
        number = event.fields.get("row_job") or event.fields.get("job_id")
        if number is None or not self.names:
            return None
        task = event.fields.get("row_task")
        name = f"{number}_{task}" if self.array and task is not None else number
        return self.names.index(name) if name in self.names else None


def neighbours(case: Case) -> Neighbours:
    """The jobs or elements that the files are of; none where nothing tells several apart."""
    jobs = _by_rows(case) or _jobs(case.paths)
    several = sorted({j for j in jobs.values() if j is not None})
    if len(several) >= SEVERAL:
        place = {s: several.index(j) for s, j in jobs.items() if j is not None}
        return Neighbours(tuple(str(j) for j in several), place)
    return _elements(case)


def _by_rows(case: Case) -> dict[SourceId, int | None]:
    """Job numbers in the names of logs by the rows of a table, where these hold several of them; else empty."""
    rows = {e.fields["row_job"] for e in case.events if "row_job" in e.fields and "row_task" not in e.fields}
    if len(rows) < SEVERAL:
        return {}
    found: dict[SourceId, int | None] = dict.fromkeys(case.paths)
    for source, path in case.paths.items():
        named = {n for n in _NUMBER.findall(_name(path)) if n in rows}
        if case.kind_of.get(source) is SourceKind.LOG and len(named) == 1:
            found[source] = int(named.pop())
    return found if len({n for n in found.values() if n is not None}) >= SEVERAL else {}


def _elements(case: Case) -> Neighbours:
    rows = {
        (e.fields["row_job"], e.fields["row_task"])
        for e in case.events
        if "row_job" in e.fields and "row_task" in e.fields
    }
    logs = [s for s, kind in case.kind_of.items() if kind is SourceKind.LOG]
    found: dict[SourceId, tuple[str, str]] = {}
    for source in logs:
        named = _ELEMENT.search(_name(case.paths[source]))
        if named is not None:
            found[source] = (named[1], named[2])
    if not (_many(found, rows) or _jobs_of_their_own(case, found)):
        found = _by_number(case, logs, rows)
        if not _many(found, rows):
            return Neighbours()
    order = sorted(set(found.values()), key=lambda e: (int(e[0]), int(e[1])))
    if len({job for job, _ in order}) > 1:
        return Neighbours()
    return Neighbours(
        tuple(f"{job}_{task}" for job, task in order), {s: order.index(e) for s, e in found.items()}, array=True
    )


def _many(found: Mapping[SourceId, tuple[str, str]], rows: set[tuple[str, str]]) -> bool:
    """Whether a table has all elements that files are named by, and these are several."""
    named = set(found.values())
    return len(named) >= SEVERAL and len(named & rows) >= SEVERAL


def _jobs_of_their_own(case: Case, found: Mapping[SourceId, tuple[str, str]]) -> bool:
    """Whether the scheduler's lines in several files name a job each, and no two elements the same one."""
    stated: dict[tuple[str, str], set[str]] = {}
    for event in case.events if found else ():
        element = found.get(event.span.source)
        job = event.fields.get("job_id")
        if element is not None and job is not None:
            stated.setdefault(element, set()).add(job)
    jobs = [job for named in stated.values() for job in named]
    return len(stated) >= SEVERAL and len(jobs) == len(set(jobs)) == len(stated)


def _by_number(case: Case, logs: list[SourceId], rows: set[tuple[str, str]]) -> dict[SourceId, tuple[str, str]]:
    """Elements by the last number in the names of files of which none speaks of a rank, where a table has one array alone."""
    jobs = {job for job, _ in rows}
    if len(jobs) != 1 or any(e.who.rank is not None for e in case.events):
        return {}
    job = next(iter(jobs))
    places = case.seen.place
    numbers = {s: str(n) for s in logs if (n := case.seen.task_files.get(s)) is not None}
    if any((who := places.get(s)) is not None and who.rank is not None for s in numbers):
        return {}
    return {s: (job, n) for s, n in numbers.items() if (job, n) in rows}


def _jobs(paths: Mapping[SourceId, str]) -> dict[SourceId, int | None]:
    """Job numbers in the names of a scheduler's output files; None where there is none.

    Where names of one kind also hold numbers that can be no job's (`log_0001`, `out_7`), all of them count ranks or nodes.
    """
    found = {s: _NUMBERED.search(_name(path)) for s, path in paths.items()}
    counters = {m.group(1).lower() for m in found.values() if m is not None and not _JOB.fullmatch(m.group(2))}
    return {
        s: int(m.group(2)) if m is not None and m.group(1).lower() not in counters else None for s, m in found.items()
    }


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]
