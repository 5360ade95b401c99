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
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

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
MODES = {NEW: 0o700, DONE: 0o700, OUT: 0o711}
"""Of the folders: whoever knows the number of his job comes to its answer."""
MOST_NOTE = 64 << 10
"""Bytes of a note that are read."""
MOST_ID = (1 << 32) - 1
"""No user or group has this number, or one above it."""
WIDEST = 10
"""Digits to which a mark such as `%7j` can fill up a number, as in Slurm."""
KEPT = 10_000
"""Answers that are remembered for the table at the end: a worker may run for a year."""
AT_ONCE = 64
"""Notes that are taken in one go; new ones that come meanwhile are next."""
NOBODYS = "its note does not say whose job it is, and root reads no file for nobody"
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
        """A value as the number of a user or group; None where it is none."""
        text = self.values.get(name, "")
        return int(text) if text.isdecimal() and len(text) <= 10 and int(text) < MOST_ID else None


class Queue:
    """The folder, as long as this process drains it."""

    def __init__(self, folder: str) -> None:
        """Makes what is not there.

        Raises:
            PipelineError: it cannot be used, or others could put notes there for a process of root's.
        """
        self.folder = Path(folder)
        try:
            for name, mode in MODES.items():
                (self.folder / name).mkdir(mode=mode, parents=True, exist_ok=True)
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

        private = os.open(self.folder / ".lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(private, "w") as lock:  # whoever can open it can hold it
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
            found: list[tuple[int, tuple[tuple[int, int, str], ...], str]] = []
            for note in notes:
                with suppress(FileNotFoundError):
                    found.append((note.stat(follow_symlinks=False).st_mtime_ns, natural(note.name), note.name))
        return [whole for _, _, name in sorted(found) if (whole := self._read(name)) is not None]

    def _read(self, name: str) -> Note | None:
        """A note; None where somebody took it away."""
        try:
            with (self.folder / NEW / name).open("rb") as file:
                text = file.read(MOST_NOTE).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return None
        pairs = (line.partition("=") for line in text.split("\n"))
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
        with suppress(FileNotFoundError):
            (self.folder / NEW / note.name).replace(self.folder / DONE / note.name)


def patterns_of(note: Note, patterns: Sequence[str]) -> tuple[str, ...]:
    """Where logs of a job may lie; nothing is looked at here.

    Args:
        note: tells the scheduler's output files, with Slurm's marks such as `%j` in their names, and the working folder.
        patterns: further places, with the same marks; `*` stands for anything.
    """
    work = note.values.get("WORK_DIR", "")
    told = [note.values.get("STDOUT", "") or "slurm-%A_%a.out", note.values.get("STDERR", ""), "slurm-%j.out"]
    wanted = [_expanded(name, note, quoting=True) for name in told if name]
    wanted += [_expanded(pattern, note, quoting=False) for pattern in patterns]
    return tuple(dict.fromkeys(os.path.join(work, pattern) for pattern in wanted if pattern is not None))  # noqa: PTH118 - absolute ones stay


def _expanded(name: str, note: Note, *, quoting: bool) -> str | None:
    """A file name with its marks filled in; marks of what differs by node or task become `*`.

    quoting: whether `*` means itself in it.

    Returns:
        None where it might be another job's: nothing but a `*` of ours tells jobs apart, or a value leads to other folders.
    """
    array, _, element = note.job.partition("_")
    number = note.values.get("JOB_ID") or note.job
    known = {
        "j": number, "J": number, "A": note.values.get("ARRAY_JOB") or array,
        "a": note.values.get("ARRAY_TASK") or element, "u": note.values.get("USER", ""),
        "x": note.values.get("JOB_NAME", ""), "%": "%",
    }  # fmt: skip
    parts: list[str] = []
    at, own, open_ended = 0, False, False
    for mark in _MARK.finditer(name):
        literal = name[at : mark.start()]
        parts.append(glob.escape(literal) if quoting else literal)
        value = known.get(mark[2], "")
        if "/" in value or "\0" in value or value in {".", ".."}:
            return None
        own |= mark[2] in "jJA"
        open_ended |= not value
        filled = value.zfill(min(int(mark[1][:3] or 0), WIDEST)) if value.isdecimal() else value
        parts.append(glob.escape(filled) if value else "*")
        at = mark.end()
    parts.append(glob.escape(name[at:]) if quoting else name[at:])
    return "".join(parts) if own or not open_ended else None


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
        limits: what one job, and all together, may take; a job that was not begun stays in the queue.
        write: gives the line that is kept of an answer.
        patterns: further places of logs; see `patterns_of`.
        again_s: seconds after which it is looked again, until an interrupt; None to end when nothing waits.

    Returns:
        The answers, in the order in which they were given; of very many the last ones.

    Raises:
        PipelineError: the queue cannot be used.
    """
    queue, found = Queue(folder), deque[JobAnswer](maxlen=KEPT)
    end = None if limits.deadline is None else time.monotonic() + limits.deadline
    with queue.alone():
        while True:
            notes = queue.waiting()[:AT_ONCE]
            for note in [note for note in notes if queue.answered(note)]:
                queue.settle(note)
                notes.remove(note)
            left = None if end is None else max(0.0, end - time.monotonic())
            answers = _go(queue, notes, options, replace(limits, deadline=left), write, patterns) if notes else []
            found.extend(answers)
            if any(answer.state == "not_begun" for answer in answers):
                return list(found)  # interrupted, or the time is over
            if not notes:
                if again_s is None or left == 0:
                    return list(found)
                try:
                    time.sleep(again_s if left is None else min(again_s, left))
                except KeyboardInterrupt:
                    return list(found)


def _go(  # noqa: PLR0917 - as `drain`
    queue: Queue,
    notes: Sequence[Note],
    options: DiagnoseOptions,
    limits: Limits,
    write: Callable[[JobAnswer], str],
    patterns: Sequence[str],
) -> list[JobAnswer]:
    """Diagnoses some notes."""
    named = {note.name: note for note in notes}

    def told(answer: JobAnswer) -> JobAnswer:
        """Keeps an answer under its note, whose name it has."""
        note = named[answer.job]
        answer = replace(answer, job=note.job)
        if answer.state != "not_begun":
            queue.keep(note, write(answer))
            queue.settle(note)
        return answer

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    asked: list[Asked] = []
    nobodys: list[JobAnswer] = []
    for note in notes:
        user = note.number("UID")
        if root and user is None:  # as root it would be read with all rights
            unread = JobAnswer(job=note.name, paths=[], state="unread", note=NOBODYS, exit_code=2)
            nobodys.append(told(unread))
        else:
            asked.append(
                Asked(Job(note.name, ()), None, note.exit_code, user, note.number("GID"), patterns_of(note, patterns))
            )
    done = batch(asked, options, limits, told).jobs if asked else []
    return nobodys + [replace(answer, job=named[answer.job].job) for answer in done]
