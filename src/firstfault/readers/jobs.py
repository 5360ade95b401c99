"""Which files belong to which job, and which jobs a scheduler's list names. Opens nothing but that list."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView, Sequence

_PLAIN = lazy(r"^(?:slurm-|job[-_]?)?(\d{1,10}(?:_\d{1,7})?)\.\w+$")
"""What Slurm calls the file of a job, or of an element of an array, unless told otherwise: a day has no such name."""
_NUMBER = lazy(r"(?:(?<![0-9A-Za-z])|(?<=[Jj])|(?<=job))(\d{3,10})(?![0-9A-Za-z])")
"""A number long enough for a job's; a date or the number of a task is told from it below."""
_DATE = lazy(r"^(?:19|20)\d{2}(?:[01]\d(?:[0-3]\d)?)?$")
_STAMP = lazy(
    r"(?<![0-9A-Za-z])(?:19|20)\d{2}([-_.]?)[01]\d\1[0-3]\d[T_.-]?"
    r"(?:(?:[01]\d|2[0-3])[0-5]\d[0-5]\d|(?:[01]\d|2[0-3])[-_.:h][0-5]\d(?:[-_.:m][0-5]\d)?)(?![0-9A-Za-z])"
)
"""A day with its time, such as `20260301-101500`: the time looks like a job's number."""
_LISTED = lazy(r"(?:(?<![0-9A-Za-z])|(?<=[Jj])|(?<=job))(\d{1,10})(?![0-9A-Za-z])(?:(?=[_-](\d{1,7})(?![0-9A-Za-z])))?")
"""A number that a list may hold, and the one behind it, which may be that of an element of its array."""
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

    Each folder and each file in it is one job, but files that carry one job number in their names are one job together, and so
    are those with one day and time and no number. Left out are hidden entries, and links to what is there under its own name,
    such as `latest`.

    Args:
        folder: a folder; a file is a job by itself.

    Raises:
        OSError: the folder cannot be listed.
    """
    if not Path(folder).is_dir():
        return [Job(Path(folder).name, (folder,))]
    found: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        shown = {entry.name: entry for entry in entries if not entry.name.startswith(".")}
    real = os.path.realpath(folder)
    for entry in sorted(shown.values(), key=lambda e: natural(e.name)):
        if not (entry.is_symlink() and _inside(entry.path, real) in shown):
            name = entry.name if entry.is_dir() else _job_of(entry.name) or entry.name
            found.setdefault(name, []).append(entry.path)
    return [Job(name, tuple(paths)) for name, paths in found.items()]


def _inside(link: str, folder: str) -> str | None:
    """Name of the entry of a folder in which what a link points at lies; None where that is elsewhere."""
    try:
        return Path(os.path.realpath(link)).relative_to(folder).parts[0]
    except (ValueError, IndexError):
        return None


def there(patterns: Iterable[str]) -> list[str]:
    """The files and folders that patterns with `*` find, each once; devices such as /dev/null are none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):  # noqa: PTH207 - absolute patterns of other origins
            with contextlib.suppress(OSError):
                if not stat.S_ISCHR(os.stat(path).st_mode):  # noqa: PTH116 - as above
                    found[path] = None
    return list(found)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which `job-9` comes before `job-10`."""
    parts = lazy(r"\d+|\D+").findall(name)
    return tuple((0, int(part), part) if part[0].isdecimal() and part.isascii() else (1, 0, part) for part in parts)


def _job_of(name: str) -> str | None:
    """Number of the job that a file's name carries, else its day and time; None where it carries neither plainly."""
    if (plain := _PLAIN.match(name)) is not None and name.startswith("slurm-"):
        return plain[1]
    stamp = _STAMP.search(name)
    rest = name if stamp is None else f"{name[: stamp.start()]} {name[stamp.end() :]}"
    numbers = [m[1] for m in _NUMBER.finditer(rest) if not _DATE.match(m[1])]
    return numbers[0] if numbers else None if stamp is None else stamp.group()


def of_listed(listed: Iterable[Listed], there: Sequence[Job]) -> list[tuple[Listed, Job]]:
    """Each listed job with what is there of it, in the order of the list; the files of an array's element are its own.

    A file or folder is a job's where its name carries that job's number and no other of the list.

    Args:
        listed: the jobs.
        there: what `jobs_in` found.
    """
    rows = list(listed)
    paths: dict[str, list[str]] = {row.name: [] for row in rows}
    for path in dict.fromkeys(path for job in there for path in job.paths):
        name = _of_these(Path(path).name, paths.keys())
        if name is not None:
            paths[name].append(path)
    return [(row, Job(row.name, tuple(paths[row.name]))) for row in rows]


def _of_these(name: str, known: KeysView[str]) -> str | None:
    """The one of the known jobs whose number a name carries; None where it carries none, or several."""
    plain = _PLAIN.match(name)
    for whole in (name, "" if plain is None else plain[1]):
        if whole in known:
            return whole
    found = list(_LISTED.finditer(name))
    elements = {f"{m[1]}_{m[2]}" for m in found} & known
    # A short number is a rank's or a node's rather than a job's where the name holds others.
    jobs = {m[1] for m in found if not _DATE.match(m[1]) and (len(m[1]) > 2 or len(found) == 1)} & known
    few = elements or jobs
    return few.pop() if len(few) == 1 else None


def read_list(path: str) -> list[Listed]:
    """The jobs of a scheduler's list, as `sacct --parsable2` or `--parsable` prints it; steps of jobs are left out.

    Args:
        path: a file with a line of column names, among them JobID and State; ExitCode may be there.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such list; the message says what is missing.
    """
    with open(path, encoding="utf-8-sig", errors="replace") as file:  # noqa: PTH123 - at most so much of it
        lines = file.read(_LIST).splitlines()
    head = next((number for number, line in enumerate(lines) if "|" in line), None)
    columns = [] if head is None else [name.strip().lower() for name in lines[head].split("|")]
    wanted = next((name for name in ("jobid", "jobidraw") if name in columns), None)
    if head is None or wanted is None or "state" not in columns:
        raise ValueError("it has no line of column names with JobID and State, divided by `|`")
    found: dict[str, Listed] = {}
    for line in lines[head + 1 :]:
        cells = dict(zip(columns, _cells(line, columns)))  # noqa: B905 - a cut line has fewer
        number = _JOB_ID.match(cells.get(wanted, ""))
        state = cells.get("state", "").upper().split(" ")[0].rstrip("+")
        if number and state:
            name = number[1]
            found[name] = Listed(name, state, _status(cells.get("exitcode", "")))  # a requeued job: its last row
    return list(found.values())


def _cells(line: str, columns: Sequence[str]) -> list[str]:
    """The cells of a row; the name of a job may hold what divides them."""
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) > len(columns) and not cells[-1] and columns[-1]:
        cells.pop()
    more = len(cells) - len(columns)
    if more > 0 and "jobname" in columns:
        at = columns.index("jobname")
        cells[at : at + more + 1] = ["|".join(cells[at : at + more + 1])]
    return cells


def _status(text: str) -> int | None:
    status, _, number = text.partition(":")
    if not status.isdecimal():
        return None
    return -int(number) if number.isdecimal() and int(number) else int(status)
