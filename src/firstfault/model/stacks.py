"""Stack dumps of processes: what each thread was in at one moment. Observations only; what a frame means is not said here."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Frame, Span, Who


class StackFrame(Struct, frozen=True):
    """One frame of one thread, with the line that shows it."""

    frame: Frame
    """File as printed (py-spy shortens it), line (0 where not printed), function."""
    span: Span
    text: str
    """The line as it stands in the source."""
    native: bool = False
    """A frame of C or C++ code; then the file is its library."""


class ThreadStack(Struct, frozen=True, kw_only=True):
    """One thread of a dump."""

    name: str | None
    """As the tool prints it; None where it prints none."""
    state: str | None
    """py-spy's guess from the operating system (`idle`, `active+gil`), pystack's flags; idle is not hung."""
    span: Span
    text: str
    frames: tuple[StackFrame, ...]
    """Innermost first, whatever the order in which the tool prints them."""
    main: bool
    """Whether it is the main thread: by its name, its number, or its outermost frame."""


class StackDump(Struct, frozen=True, kw_only=True):
    """All threads of one process at one moment."""

    tool: str
    """`py-spy`, `faulthandler`, `pystack`, `gdb`, `eu-stack` or `c10`; empty where there is no stack."""
    who: Who
    """What the file's place, a heading, or the process's command line tells."""
    threads: tuple[ThreadStack, ...]
    cause: str | None = None
    """Why the process dumped itself: `Timeout (0:02:00)!`, `Fatal Python error: Aborted`; None where it was asked."""
    number: int = 0
    """How many dumps of this process stand before it in its source."""
    refused: str = ""
    """What stands where the stack of a rank should be, which gave none in time: `Error: 408`; then there are no threads."""
    span: Span | None = None
    """Where that stands."""

    @property
    def begin(self) -> Span:
        """Where it begins."""
        if self.span is not None:
            return self.span
        return self.threads[0].span

    @property
    def main(self) -> ThreadStack | None:
        """The main thread; None where it cannot be told."""
        return next((t for t in self.threads if t.main), None)
