"""Which files of a folder belong to which job, and which jobs a scheduler's list names. Opens nothing but that list."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ARRAY = lazy(r"^slurm-(\d{1,10})_(\d{1,7})\.\w+$")
"""What Slurm calls the file of an element of an array unless told otherwise."""
_NUMBER = lazy(r"(?:(?<![0-9A-Za-z])|(?<=[Jj])|(?<=job))(\d{3,10})(?![0-9A-Za-z])")
"""A number long enough for a job's; a date or the number of a task is told from it below."""
_DATE = lazy(r"^(?:19|20)\d{2}(?:[01]\d(?:[0-3]\d)?)?$")
_JOB_ID = lazy(r"^(\d{1,10}(?:_\d{1,7})?)(?:\+\d{1,4})?$")
_LIST = 64 << 20
"""Bytes of a scheduler's list that are read."""


class Job(Struct, frozen=True):
    """One job and what is there of it."""

    name: str
    paths: tuple[str, ...]


class Listed(Struct, frozen=True):
    """One job as the scheduler tells it."""

    name: str
    """Number, with `_` and the element's number for one of an array."""
    state: str
    """In capitals, without who cancelled it."""
    exit_code: int | None
    """Status, or minus the signal; None where it is not told."""


def jobs_in(folder: str) -> list[Job]:
    """The jobs whose files lie in a folder, by name.

    Each folder and each file in it is one job, but files that carry one job number in their names are one job together.
    Hidden entries are left out.

    Args:
        folder: a folder; a file is a job by itself.

    Raises:
        OSError: the folder cannot be listed.
    """
    if not Path(folder).is_dir():
        return [Job(Path(folder).name, (folder,))]
    found: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: natural(e.name)):
            if not entry.name.startswith("."):
                name = entry.name if entry.is_dir() else _job_of(entry.name) or entry.name
                found.setdefault(name, []).append(entry.path)
    return [Job(name, tuple(paths)) for name, paths in found.items()]


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which `job-9` comes before `job-10`."""
    parts = lazy(r"\d+|\D+").findall(name)
    return tuple((0, int(part), part) if part[0].isdecimal() and part.isascii() else (1, 0, part) for part in parts)


def _job_of(name: str) -> str | None:
    """Number of the job that a file's name carries; None where it carries none that is plain."""
    element = _ARRAY.match(name)
    if element:
        return f"{element[1]}_{element[2]}"
    numbers = [m[1] for m in _NUMBER.finditer(name) if not _DATE.match(m[1])]
    return numbers[0] if numbers else None


def of_listed(listed: Iterable[Listed], there: Sequence[Job]) -> list[tuple[Listed, Job]]:
    """Each listed job with what is there of it, in the order of the list; the files of an array's element are its own.

    Args:
        listed: the jobs.
        there: what `jobs_in` found; a folder belongs to the job whose number its name carries.
    """
    paths: dict[str, list[str]] = {}
    for job in there:
        for name in {job.name, _job_of(job.name) or job.name}:
            paths.setdefault(name, []).extend(job.paths)
    return [(one, Job(one.name, tuple(paths.get(one.name, ())))) for one in listed]


def read_list(path: str) -> list[Listed]:
    """The jobs of a scheduler's list, as `sacct --parsable2` or `--parsable` prints it; steps of jobs are left out.

    Args:
        path: a file with a line of column names, among them JobID and State; ExitCode may be there.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such list; the message says what is missing.
    """
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - at most so much of it
        lines = file.read(_LIST).splitlines()
    head = next((number for number, line in enumerate(lines) if "|" in line), None)
    columns = [] if head is None else [name.strip().lower() for name in lines[head].split("|")]
    wanted = next((name for name in ("jobid", "jobidraw") if name in columns), None)
    if head is None or wanted is None or "state" not in columns:
        raise ValueError("it has no line of column names with JobID and State, divided by `|`")
    found: dict[str, Listed] = {}
    for line in lines[head + 1 :]:
        cells = dict(zip(columns, (cell.strip() for cell in line.split("|"))))  # noqa: B905 - a cut line has fewer
        number = _JOB_ID.match(cells.get(wanted, ""))
        state = cells.get("state", "").upper().split(" ")[0].rstrip("+")
        if number and state:
            name = number[1]
            found[name] = Listed(name, state, _status(cells.get("exitcode", "")))  # a requeued job: its last row
    return list(found.values())


def _status(text: str) -> int | None:
    status, _, number = text.partition(":")
    if not status.isdecimal():
        return None
    return -int(number) if number.isdecimal() and int(number) else int(status)
