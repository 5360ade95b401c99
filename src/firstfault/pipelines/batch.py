"""`firstfault batch`: diagnoses many jobs, each within limits of time and memory, and puts the answers beside each other.

Each job is diagnosed in a process of its own kind (`firstfault.pipelines.batch_child`), so that one that hangs, grows or dies
costs its own answer alone. Must not look into a log.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from firstfault.model.batch import Batch, JobAnswer, Shared
from firstfault.pipelines.batch_child import NO_LOGS, Request, encoded
from firstfault.pipelines.errors import PipelineError
from firstfault.readers.jobs import Job, Listed, jobs_in, of_listed, read_list
from firstfault.redact import printable
from firstfault.scan.executors import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.model.batch import JobState
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.redact import Level

BatchFormat = Literal["text", "json", "csv"]

GRACE = 10.0
"""Seconds that a job whose time is over has to say what is known of it."""
LOOK = 0.2
"""Seconds between two looks at the time and memory of the jobs at hand."""
MOST = 64 << 20
"""Bytes of an answer."""
ONE_CHILD = 50
"""Jobs after which a child is replaced: what it keeps of each stays small."""
Owner = tuple[int, int | None]
"""User and group as whom files are read; the group is None where it is to be looked up."""
PAGE = 4096 if not hasattr(os, "sysconf") else os.sysconf("SC_PAGE_SIZE")


class Limits(Struct, frozen=True, kw_only=True):
    """What one job, and all together, may take."""

    seconds: float = 600.0
    """For one job."""
    memory_mb: int = 4000
    """For one job, with all its processes; heeded on Linux alone."""
    deadline: float | None = None
    """Seconds for all; None for no end."""
    at_once: int = 0
    """Jobs that are diagnosed at one time; 0 for as many as there are processors."""


class Asked(Struct, frozen=True):
    """One job to be diagnosed."""

    job: Job
    state: str | None = None
    exit_code: int | None = None
    uid: int | None = None
    """Whom the job belongs to: where this process is root's, its files are read as that user, who may have named any."""
    gid: int | None = None
    """His group; None for the one that the system knows."""
    patterns: tuple[str, ...] = ()
    """Where further files of it may lie: looked for by whoever reads them, within the job's time."""


def jobs_of(folders: Sequence[str], listed: str | None, *, every: bool = False) -> list[Asked]:
    """The jobs that are to be diagnosed.

    Args:
        folders: whose entries are jobs; see `firstfault.readers.jobs.jobs_in`.
        listed: a scheduler's list of jobs; None for all that lie in the folders.
        every: whether also jobs are taken that the list says ended well, or still run.

    Raises:
        PipelineError: a folder or the list cannot be read, or nothing is there.
    """
    there: list[Job] = []
    for folder in folders:
        try:
            there += jobs_in(folder)
        except OSError as error:
            raise PipelineError(
                "this folder cannot be read", where=folder, why=error.strerror or str(error), fix="Give a folder whose entries are jobs."
            ) from error  # fmt: skip
    if listed is None:
        if not there:
            raise PipelineError(
                "no job lies there", where=", ".join(folders), fix="Give a folder in which each folder, archive or file is what one job left behind."
            )  # fmt: skip
        return [Asked(job) for job in _apart(there)]
    try:
        rows = read_list(listed)
    except (OSError, ValueError) as error:
        raise PipelineError(
            "this list of jobs cannot be used", where=listed, why=str(error),
            fix="Write one with `sacct --parsable2 --format=JobID,State,ExitCode > FILE`.",
        ) from error  # fmt: skip
    from firstfault.analysis.job_state import COMPLETED_STATES, OPEN_STATES

    # A word that is not known here is no word of a job that went well.
    wanted = [row for row in rows if every or _told(row) not in COMPLETED_STATES | OPEN_STATES]
    return [Asked(job, _told(row), row.exit_code) for row, job in of_listed(wanted, there)]


def _told(row: Listed) -> str | None:
    """The state by its whole name; None for a word that is not known."""
    from firstfault.analysis.job_state import known_state

    return known_state(row.state) or known_state(f"{row.state}+")


def _apart(jobs: Iterable[Job]) -> list[Job]:
    """Each job once, however often its folder was named; those of one name in several folders keep a name each."""
    once = {tuple(map(os.path.realpath, job.paths)): job for job in reversed(list(jobs))}
    rest = list(reversed(once.values()))
    named: dict[int, str] = {n: job.name for n, job in enumerate(rest)}
    parents = {n: list(Path(os.path.realpath(job.paths[0])).parents) for n, job in enumerate(rest)}
    for depth in range(max(map(len, parents.values()), default=0)):
        counts = Counter(named.values())
        for n, name in named.items():
            if counts[name] > 1 and depth < len(parents[n]) - 1:
                named[n] = f"{parents[n][depth].name}/{name}"
    return [Job(named[n], job.paths) for n, job in enumerate(rest)]


def batch(
    asked: Sequence[Asked],
    options: DiagnoseOptions,
    limits: Limits,
    told: Callable[[JobAnswer], object] | None = None,
) -> Batch:
    """Diagnoses all jobs.

    Args:
        asked: the jobs.
        options: of each diagnosis; the scheduler's word is that of the job.
        limits: what one job, and all together, may take.
        told: called with each answer, in the order of the jobs, as soon as it and all before it are there.

    Returns:
        The answers in the order of the jobs. Where an interrupt from the keyboard came, the rest is `not_begun`.
    """
    found: dict[int, JobAnswer] = {}
    next_told = 0

    def keep(number: int, answer: JobAnswer) -> None:
        nonlocal next_told
        one = asked[number]
        paths = answer.paths if one.patterns else list(one.job.paths)
        found[number] = replace(answer, job=one.job.name, paths=paths, scheduler_state=one.state)
        while told is not None and next_told in found:
            next_told += 1
            told(found[next_told - 1])

    waiting = deque[int]()
    for number, one in enumerate(asked):
        if one.job.paths or one.patterns:
            waiting.append(number)
        else:
            keep(number, _without("no_logs", NO_LOGS))
    note = "the time for the whole batch was over"
    try:
        _Desk(asked, options, limits, waiting, keep).run()
    except KeyboardInterrupt:
        note = "the batch was interrupted"
    for number in range(len(asked)):
        if number not in found:
            keep(number, _without("not_begun", note))
    answers = [found[number] for number in range(len(asked))]
    return summed(answers)


def summed(answers: list[JobAnswer]) -> Batch:
    """The answers with what several of them share."""
    return Batch(jobs=answers, categories=_categories(answers), hosts=_hosts(answers))


def _without(state: JobState, note: str, seconds: float = 0.0) -> JobAnswer:
    code = 2 if state in {"no_logs", "broken"} else 3
    return JobAnswer(job="", paths=[], state=state, note=note, exit_code=code, seconds=round(seconds, 3))


class _Child:
    """One process that diagnoses, and the job that it is at."""

    def __init__(self, owner: Owner | None) -> None:
        """owner: user and group as whom it reads; None for ours."""
        self.owner = owner
        whom = [] if owner is None else [f"{owner[0]}:{'' if owner[1] is None else owner[1]}"]
        safe = "-P" if sys.version_info >= (3, 11) else "-B"
        self.words = [sys.executable, safe, "-m", "firstfault.pipelines.batch_child", *whom]
        self.process = subprocess.Popen(  # noqa: S603 - ourselves
            self.words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard reaches us alone
            bufsize=0,
        )
        self.number: int | None = None
        self.began = self.until = 0.0
        self.hurried = False
        self.served = 0
        self.text = b""

    def ask(self, number: int, request: Request, until: float) -> None:
        assert self.process.stdin is not None
        self.number, self.began, self.until, self.hurried = number, time.monotonic(), until, False
        self.served += 1
        self.text = b""
        self.process.stdin.write(encoded(request))

    def read(self) -> JobAnswer | None:
        """The answer, where it is whole now; raises EOFError where the process is gone."""
        assert self.process.stdout is not None
        piece = os.read(self.process.stdout.fileno(), 1 << 20)
        self.text += piece
        if not piece or len(self.text) > MOST:
            raise EOFError
        if not self.text.endswith(b"\n"):
            return None
        return msgspec.json.decode(self.text, type=JobAnswer)

    def failed_to_start(self) -> bool:
        """Whether it ended by itself with an error, which no job makes it do."""
        try:
            return self.process.wait(timeout=1.0) > 0
        except subprocess.TimeoutExpired:
            return False

    def hurry(self) -> None:
        """Asks for what is known by now."""
        self.hurried = True
        self.until = time.monotonic() + GRACE
        self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Ends it with all its processes."""
        try:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        except ProcessLookupError:
            pass
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait()


def _owner(one: Asked) -> Owner | None:
    """As whom a job's files are read; None for ourselves, who can be nobody else but as root."""
    if one.uid is None or not hasattr(os, "geteuid") or os.geteuid() != 0 or one.uid == 0:
        return None
    return one.uid, one.gid


class _Desk:
    """Gives jobs to children and looks after their time and memory."""

    def __init__(
        self,
        asked: Sequence[Asked],
        options: DiagnoseOptions,
        limits: Limits,
        waiting: deque[int],
        keep: Callable[[int, JobAnswer], None],
    ) -> None:
        self.asked, self.limits, self.waiting, self.keep = asked, limits, waiting, keep
        self.at_once = min(limits.at_once or processors(), len(asked))
        self.options = options if self.at_once < 2 else replace(options, engine="inline")
        self.end = None if limits.deadline is None else time.monotonic() + limits.deadline
        self.children: list[_Child] = []
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Until no job is left, or the time for all is over."""
        with ExitStack() as stack:
            stack.callback(self._end_all)
            while self.waiting or self.children:
                self._give()
                for key, _ in self.selector.select(LOOK):
                    self._hear(key.data)
                for child in list(self.children):
                    self._look(child)

    def _give(self) -> None:
        if self.end is not None and time.monotonic() >= self.end:
            self.waiting.clear()
        idle = [child for child in self.children if child.number is None]
        while self.waiting and len(self.children) - len(idle) < self.at_once:
            number = self.waiting.popleft()
            one = self.asked[number]
            child = self._fit(idle, _owner(one))
            options = replace(self.options, job_state=one.state, exit_code=one.exit_code)
            until = time.monotonic() + self.limits.seconds
            paths, patterns = list(map(os.fsencode, one.job.paths)), list(map(os.fsencode, one.patterns))
            try:
                child.ask(number, Request(printable(one.job.name), paths, options, patterns), until)
            except BrokenPipeError:
                continue  # it is gone: heard of at the next look
        if not self.waiting:
            for child in idle:
                self._drop(child)

    def _fit(self, idle: list[_Child], owner: Owner | None) -> _Child:
        """An idle child of that owner, or a new one in the place of another's."""
        for child in idle:
            if child.owner == owner:
                idle.remove(child)
                return child
        if idle:
            self._drop(idle.pop())
        return self._new(owner)

    def _new(self, owner: Owner | None) -> _Child:
        child = _Child(owner)
        self.children.append(child)
        assert child.process.stdout is not None
        self.selector.register(child.process.stdout, selectors.EVENT_READ, child)
        return child

    def _drop(self, child: _Child) -> None:
        assert child.process.stdout is not None
        self.selector.unregister(child.process.stdout)
        self.children.remove(child)
        child.end()

    def _end_all(self) -> None:
        for child in list(self.children):
            self._drop(child)
        self.selector.close()

    def _hear(self, child: _Child) -> None:
        try:
            answer = child.read()
        except (EOFError, OSError, msgspec.MsgspecError):
            if child.hurried:  # its order to stop may come before it has begun to listen for one
                self._lost(child, "too_long", "it was not read within its time")
                return
            if child.served <= 1 and child.failed_to_start():
                raise PipelineError(
                    "processes that read jobs do not start", why=f"the first one ended with {child.process.returncode}",
                    fix=f"See what it says: {' '.join(child.words)} < /dev/null",
                ) from None  # fmt: skip
            self._lost(child, "broken", "the process that read it died")
            return
        if answer is None or child.number is None:
            return
        if child.hurried and answer.state == "diagnosed":
            answer = replace(answer, state="cut_short", note="its time was over: this is what was known by then")
        self.keep(child.number, answer)
        child.number = None
        if child.served >= ONE_CHILD:
            self._drop(child)

    def _look(self, child: _Child) -> None:
        if child not in self.children or child.number is None:
            return
        now = time.monotonic()
        if now >= child.until and child.hurried:
            self._lost(child, "too_long", "it was not read within its time")
        elif now >= child.until or (self.end is not None and now >= self.end and not child.hurried):
            child.hurry()
        elif resident(child.process.pid) > self.limits.memory_mb * 1_000_000:
            self._lost(child, "too_much_memory", f"reading it took more than {self.limits.memory_mb} MB of memory")

    def _lost(self, child: _Child, state: JobState, note: str) -> None:
        number, took = child.number, time.monotonic() - child.began
        self._drop(child)
        if number is not None:
            self.keep(number, _without(state, note, took))


def resident(session: int) -> int:
    """Bytes that all processes of a session hold in memory; 0 where the system does not tell."""
    total = 0
    try:
        names = [entry.name for entry in Path("/proc").iterdir()]
    except OSError:
        return 0
    for name in names:
        if name.isdecimal():
            try:
                stat = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
                if int(stat[3]) == session:
                    total += int(stat[21]) * PAGE
            except (OSError, IndexError, ValueError):
                continue
    return total


def _categories(answers: Iterable[JobAnswer]) -> list[Shared]:
    found: dict[str, list[str]] = {}
    for answer in answers:
        if answer.state in {"diagnosed", "cut_short"} and answer.failed is not False:
            found.setdefault(str(answer.category), []).append(answer.job)
    return _frequent(found)


def _hosts(answers: Iterable[JobAnswer]) -> list[Shared]:
    found: dict[str, list[str]] = {}
    for answer in answers:
        for host in dict.fromkeys([*answer.culprits.hosts, *answer.culprits.storage_nodes]):
            found.setdefault(host, []).append(answer.job)
    return _frequent(found)


def _frequent(found: dict[str, list[str]]) -> list[Shared]:
    return [Shared(name=name, jobs=jobs) for name, jobs in sorted(found.items(), key=lambda i: (-len(i[1]), i[0]))]


def exit_code_of(found: Batch) -> int:
    """1 where a job failed with a category, else 3 where one could not be decided, else 0; 2 where no job could be read."""
    codes = {answer.exit_code for answer in found.jobs}
    if codes <= {2}:
        return 2 if codes else 0
    return 1 if 1 in codes else 3 if codes - {0} else 0


def publish_line(answer: JobAnswer, level: Level, *, key: bytes, language: str = "en") -> str:
    """Redacts one answer and gives it as one line of JSON.

    Args:
        answer: to one job.
        level: what is taken out first; see `firstfault.redact.redact`.
        key: makes the pseudonyms of all lines of one batch the same.
        language: of the sentences.

    Returns:
        The line, with its newline.
    """
    from firstfault.redact import redact
    from firstfault.report.batch import render_line

    return render_line(redact(answer, level, key=key), language=language)


def publish_counts(found: Batch, level: Level, *, key: bytes) -> str:
    """The answers as Prometheus metrics; arguments as of `publish_line`."""
    from firstfault.redact import redact
    from firstfault.report.prometheus import batch_as_prometheus

    return batch_as_prometheus(redact(found, level, key=key))


def publish_batch(
    found: Batch, form: BatchFormat, level: Level, *, key: bytes, width: int = 100, language: str = "en"
) -> str:
    """Redacts and renders the answers to many jobs.

    Args:
        found: the answers.
        form: the format to give; json is a line for each job.
        level: what is taken out first; see `firstfault.redact.redact`.
        key: as of `publish_line`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    if form == "json":
        return "".join(publish_line(answer, level, key=key, language=language) for answer in found.jobs)
    from firstfault.redact import redact
    from firstfault.report.batch import render_batch, render_batch_csv

    safe = redact(found, level, key=key)
    if form == "csv":
        return render_batch_csv(safe, language=language)
    return render_batch(safe, width=width, language=language)
