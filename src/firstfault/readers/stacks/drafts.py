"""Stack dumps under way: threads with their frames become the dump of a process; says which thread is the main one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.model.lazy import lazy
from firstfault.model.stacks import StackDump, StackFrame, ThreadStack
from firstfault.readers.stacks.forms import C10, EU_STACK, GDB, PY_SPY, PYSTACK

if TYPE_CHECKING:
    from firstfault.model.evidence import Span, Who
    from firstfault.readers.stacks.forms import Head, Read

MOST_FRAMES = 200
_OF_A_CHILD = ("_worker_loop", "_bootstrap_worker", "_pin_memory_loop", "_process_worker")
_SPAWNED = "spawn_main"
"""The start of a process of multiprocessing: a helper, unless something says whose it is."""
_OUTERMOST = frozenset({"<module>", "_run_module_as_main", "_run_module_code"})
_THREAD_STARTS = frozenset(
    {"_bootstrap", "_bootstrap_inner", "Thread._bootstrap", "Thread._bootstrap_inner", "thread_run"}
)
_LIBRARY = lazy(r"[/\\](?:python\d[\d.]*|site-packages|dist-packages)[/\\]")
_OF_MAIN = frozenset({"MainThread", "pt_main_thread"})
_WITH_IDS = frozenset({PY_SPY, PYSTACK, GDB, EU_STACK, C10})
"""Tools that print the thread's number for the system, which for the main thread is that of the process."""


class Line(NamedTuple):
    """A line as it stands."""

    span: Span
    text: str


class Thread:
    """A thread under way."""

    def __init__(self, head: Head, line: Line) -> None:
        self.head = head
        self.line = line
        self.frames: list[StackFrame] = []

    def add(self, read: Read, line: Line) -> None:
        """Takes a frame, up to a limit."""
        if len(self.frames) < MOST_FRAMES:
            self.frames.append(StackFrame(read.frame, line.span, line.text, read.native))

    @property
    def begins(self) -> bool:
        """Whether the outermost frame of a thread that prints it last is that of a program's start."""
        python = [f.frame.function for f in self.frames if not f.native]
        return bool(python) and python[-1] in _OUTERMOST

    def ended(self, draft: Draft) -> ThreadStack:
        """The thread as it was read."""
        frames = tuple(reversed(self.frames)) if draft.tool == PYSTACK else tuple(self.frames)
        return ThreadStack(
            name=self.head.name,
            state=self.head.state,
            span=self.line.span,
            text=self.line.text,
            frames=frames,
            main=self._is_main(draft, frames),
        )

    def _is_main(self, draft: Draft, frames: tuple[StackFrame, ...]) -> bool:
        if self.head.main or self.head.name in _OF_MAIN:
            return True
        if draft.tool == PY_SPY and self.head.name is not None:
            return False
        if draft.tool in _WITH_IDS and draft.who.pid is not None:
            return self.head.ident == str(draft.who.pid)
        python = [f.frame.function for f in frames if not f.native]
        return bool(python) and python[-1] in _OUTERMOST


class Draft:
    """A dump under way."""

    def __init__(self, tool: str, who: Who, cause: str | None = None) -> None:
        self.tool = tool
        self.who = who
        self.cause = cause
        self.threads: list[Thread] = []

    def takes(self, head: Head) -> bool:
        """Whether a thread is one more of this process, and not the first of another dump."""
        if head.tool != self.tool or (head.pid is not None and self.who.pid not in {None, head.pid}):
            return False
        if head.tool == "faulthandler":
            return not (self.threads and self.threads[-1].begins)  # the main thread comes last
        return head.tool == PY_SPY or all(t.head.ident != head.ident for t in self.threads)

    def add(self, head: Head, line: Line) -> None:
        """Takes the line that begins a thread."""
        if head.pid is not None and self.who.pid is None:
            self.who = replace(self.who, pid=head.pid)
        self.cause = self.cause or head.cause
        self.threads.append(Thread(head, line))

    def ended(self) -> StackDump | None:
        """The dump; None where no thread has a frame."""
        threads = tuple(t.ended(self) for t in self.threads if t.frames)
        if not threads:
            return None
        if not any(t.main for t in threads):
            # The oldest thread is printed last by faulthandler and pystack; one that a thread started is not it.
            last = threads[-1]
            started = any(f.frame.function in _THREAD_STARTS for f in last.frames[-3:])
            # No program begins in a library: of a stack that seems to, the rest is lost, and with it the threads behind it.
            lost = _LIBRARY.search(last.frames[-1].frame.file) is not None and not last.frames[-1].native
            if self.tool not in {PY_SPY, C10} and not started and not lost:
                threads = (*threads[:-1], replace(last, main=True))
        who = self.who
        main = {f.frame.function.rsplit(".", 1)[-1] for t in threads if t.main for f in t.frames}
        nobody = who.rank is None and who.local_rank is None
        if main.intersection(_OF_A_CHILD) or (_SPAWNED in main and nobody):
            # A loader's worker or another child: it speaks for itself, not for its rank.
            who = replace(who, worker=-1)
        return StackDump(tool=self.tool, who=who, threads=threads, cause=self.cause)
