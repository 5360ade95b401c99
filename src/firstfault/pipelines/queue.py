"""A folder in which a scheduler's epilog leaves a note for each failed job, drained in order: `firstfault batch --queue`.

```text
QUEUE/new/4711.0     a note: lines of NAME=value; the name is the job and how often it was started again
QUEUE/done/4711.0    the note of a job that was diagnosed
QUEUE/out/4711.0.json the answer, a line of JSON
```

One drains at a time. An answer is there before its note leaves `new`, so that a process that is killed in between loses no
job and diagnoses none twice. Must not look into a log.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.batch import JobAnswer
from firstfault.model.lazy import lazy
from firstfault.pipelines.batch import Asked, batch
from firstfault.pipelines.errors import PipelineError
from firstfault.readers.jobs import Job, natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from firstfault.pipelines.batch import Limits
    from firstfault.pipelines.options import DiagnoseOptions

NEW, DONE, OUT = "new", "done", "out"
MOST_NOTE = 64 << 10
"""Bytes of a note that are read."""
AT_ONCE = 64
"""Notes that are taken in one go; new ones that come meanwhile are next."""
_NOTE = lazy(r"^[0-9]{1,12}(?:_[0-9]{1,7})?(?:\.[0-9]{1,4})?$")
_MARK = lazy(r"%(\d*)(.)")


class Note(Struct, frozen=True):
    """What the epilog wrote of a job."""

    name: str
    values: dict[str, str]

    @property
    def job(self) -> str:
        """Number of the job."""
        return self.values.get("JOB") or self.name.split(".")[0]

    @property
    def exit_code(self) -> int | None:
        """Status, or minus the signal; None where the note does not tell."""
        status, _, number = self.values.get("EXIT_CODE", "").partition(":")
        if not status.isdecimal():
            return None
        return -int(number) if number.isdecimal() and int(number) else int(status)

    def number(self, name: str) -> int | None:
        """A value as a number; None where it is none."""
        text = self.values.get(name, "")
        return int(text) if text.isdecimal() else None


class Queue:
    """The folder, as long as this process drains it."""

    def __init__(self, folder: str) -> None:
        """Makes what is not there.

        Raises:
            PipelineError: it cannot be used, or others could put notes there for a process of root's.
        """
        self.folder = Path(folder)
        try:
            for name in (NEW, DONE, OUT):
                (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError("this queue cannot be used", where=folder, why=error.strerror or str(error)) from error
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            for place in (self.folder, *(self.folder / name for name in (NEW, DONE, OUT))):
                told = place.stat()
                if told.st_uid != 0 or told.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise PipelineError(
                        "others than root can write into this queue", where=str(place),
                        why="a note tells which files are read and as whom",
                        fix=f"chown root {place} && chmod go-w {place}; or drain it as another user.",
                    )  # fmt: skip

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the queue.

        Raises:
            PipelineError: another process drains it.
        """
        import fcntl

        with (self.folder / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise PipelineError(
                    "another process drains this queue", where=str(self.folder), fix="Let it, or end it first."
                ) from error
            yield

    def waiting(self) -> list[Note]:
        """Notes that are not done, oldest first; what is no note is left where it is."""
        with os.scandir(self.folder / NEW) as entries:
            notes = [e for e in entries if _NOTE.match(e.name) and e.is_file(follow_symlinks=False)]
            found = [(note.stat(follow_symlinks=False).st_mtime_ns, natural(note.name), note.name) for note in notes]
        return [self._read(name) for _, _, name in sorted(found)]

    def _read(self, name: str) -> Note:
        with (self.folder / NEW / name).open("rb") as file:
            text = file.read(MOST_NOTE).decode("utf-8", "surrogateescape")
        pairs = (line.partition("=") for line in text.splitlines())
        return Note(name, {key.strip(): value for key, mark, value in pairs if mark})

    def answered(self, note: Note) -> bool:
        """Whether the answer is there: whoever drained before was ended in between."""
        return (self.folder / OUT / f"{note.name}.json").is_file()

    def keep(self, note: Note, line: str) -> None:
        """Writes an answer whole or not at all; the owner of the job may read it."""
        target = self.folder / OUT / f"{note.name}.json"
        part = target.with_suffix(".part")
        part.unlink(missing_ok=True)
        with part.open("x", encoding="utf-8") as file:
            part.chmod(0o600)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        uid = note.number("UID")
        if uid is not None and hasattr(os, "geteuid") and os.geteuid() == 0:
            os.chown(part, uid, -1)
        part.replace(target)

    def settle(self, note: Note) -> None:
        """Takes a note out of the waiting ones."""
        (self.folder / NEW / note.name).replace(self.folder / DONE / note.name)


def paths_of(note: Note, patterns: Sequence[str]) -> tuple[str, ...]:
    """What is there of a job's logs.

    Args:
        note: tells the scheduler's output files, with Slurm's marks such as `%j` in their names, and the working folder.
        patterns: further places, with the same marks; `*` stands for anything.
    """
    work = note.values.get("WORK_DIR", "")
    told = [note.values.get("STDOUT", "") or "slurm-%A_%a.out", note.values.get("STDERR", ""), "slurm-%j.out"]
    named = [_expanded(name, note, quoting=True) for name in told if name]
    wanted = [*named, *(_expanded(pattern, note, quoting=False) for pattern in patterns)]
    found: dict[str, None] = {}
    for pattern in wanted:
        for path in sorted(glob.glob(os.path.join(work, pattern))):  # noqa: PTH118, PTH207 - absolute ones stay
            if not stat.S_ISCHR(os.stat(path).st_mode):  # noqa: PTH116 - /dev/null
                found[path] = None
    return tuple(found)


def _expanded(name: str, note: Note, *, quoting: bool) -> str:
    """A file name with its marks filled in; marks of what differs by node or task become `*`."""
    array, _, element = note.job.partition("_")
    known = {
        "j": note.values.get("JOB_ID") or note.job, "J": note.values.get("JOB_ID") or note.job,
        "A": note.values.get("ARRAY_JOB") or array, "a": note.values.get("ARRAY_TASK") or element or "*",
        "u": note.values.get("USER") or "*", "x": note.values.get("JOB_NAME") or "*", "%": "%",
    }  # fmt: skip
    parts: list[str] = []
    at = 0
    for mark in _MARK.finditer(name):
        literal = name[at : mark.start()]
        parts.append(glob.escape(literal) if quoting else literal)
        value = known.get(mark[2], "*")
        parts.append(
            value if value == "*" else glob.escape(value.zfill(int(mark[1] or 0)) if value.isdecimal() else value)
        )
        at = mark.end()
    parts.append(glob.escape(name[at:]) if quoting else name[at:])
    return "".join(parts)


def drain(
    folder: str,
    options: DiagnoseOptions,
    limits: Limits,
    write: Callable[[JobAnswer], str],
    *,
    patterns: Sequence[str] = (),
    again_s: float | None = None,
) -> list[JobAnswer]:
    """Diagnoses what waits in a queue, oldest first.

    Args:
        folder: the queue.
        options: of each diagnosis.
        limits: what one job, and all of one go together, may take; a job that was not begun stays in the queue.
        write: gives the line that is kept of an answer.
        patterns: further places of logs; see `paths_of`.
        again_s: seconds after which it is looked again, until an interrupt; None to end when nothing waits.

    Returns:
        The answers, in the order in which they were given.

    Raises:
        PipelineError: the queue cannot be used.
    """
    queue, found = Queue(folder), list[JobAnswer]()
    with queue.alone():
        while True:
            notes = queue.waiting()[:AT_ONCE]
            for note in [note for note in notes if queue.answered(note)]:
                queue.settle(note)
                notes.remove(note)
            answers = _go(queue, notes, options, limits, write, patterns) if notes else []
            found += answers
            if any(answer.state == "not_begun" for answer in answers):
                return found  # interrupted, or the time is over
            if not notes:
                if again_s is None:
                    return found
                try:
                    time.sleep(again_s)
                except KeyboardInterrupt:
                    return found


def _go(  # noqa: PLR0917 - as `drain`
    queue: Queue,
    notes: Sequence[Note],
    options: DiagnoseOptions,
    limits: Limits,
    write: Callable[[JobAnswer], str],
    patterns: Sequence[str],
) -> list[JobAnswer]:
    """Diagnoses some notes."""
    asked = [
        Asked(Job(note.job, paths_of(note, patterns)), None, note.exit_code, note.number("UID"), note.number("GID"))
        for note in notes
    ]
    left = iter(notes)

    def told(answer: JobAnswer) -> None:
        note = next(left)
        if answer.state != "not_begun":
            queue.keep(note, write(answer))
            queue.settle(note)

    return batch(asked, options, limits, told).jobs
