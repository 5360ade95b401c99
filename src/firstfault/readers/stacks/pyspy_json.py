"""Reads what `py-spy dump --json` writes; each frame is cited by the line that names its function.

Threads and lines are joined by where their bytes stand, never by counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from firstfault.model.evidence import Frame, Span, Who
from firstfault.model.stacks import StackDump, StackFrame, ThreadStack
from firstfault.readers.stacks.drafts import MOST_FRAMES
from firstfault.readers.stacks.forms import PY_SPY, is_native

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId

MOST_TEXT = 4096
WINDOW = 400
"""Bytes that are shown of a line that is too long to be shown as a whole."""


class _Frame(msgspec.Struct):
    name: str = "?"
    filename: str = ""
    short_filename: str | None = None
    line: int = 0


class _Thread(msgspec.Struct):
    pid: int
    frames: list[msgspec.Raw]
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False


class _Part(NamedTuple):
    """A value of the document, and where it stands."""

    raw: bytes
    start: int


def read_json(data: bytes, source: SourceId, who: Who) -> list[StackDump]:
    """All dumps of a document, one a process; empty where it is none."""
    try:
        threads = [
            (part, msgspec.json.decode(part.raw, type=_Thread))
            for part in _parts(data, 0, msgspec.json.decode(data, type=list[msgspec.Raw]))
        ]
        lines = _Lines(data, source)
        by_pid: dict[int, list[ThreadStack]] = {}
        for part, thread in threads:
            if thread.frames:  # else it runs no Python
                by_pid.setdefault(thread.pid, []).append(_stack(part, thread, lines))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    return [
        StackDump(tool=PY_SPY, who=replace(who, pid=pid), threads=tuple(found)) for pid, found in sorted(by_pid.items())
    ]


def _stack(part: _Part, thread: _Thread, lines: _Lines) -> ThreadStack:
    frames = []
    for place in _parts(part.raw, part.start, thread.frames[:MOST_FRAMES]):
        read = msgspec.json.decode(place.raw, type=_Frame)
        span, text = lines.of(place, b'"name"')
        file = read.short_filename or read.filename
        frames.append(StackFrame(Frame(file, read.line, read.name), span, text, is_native(read.filename)))
    span, text = lines.of(part, b'"thread_name"')
    return ThreadStack(
        name=thread.thread_name,
        state=("active" if thread.active else "idle") + ("+gil" if thread.owns_gil else ""),
        span=span,
        text=text,
        frames=tuple(frames),
        main=thread.thread_name == "MainThread" or thread.os_thread_id == thread.pid,
    )


def _parts(data: bytes, base: int, raws: list[msgspec.Raw]) -> list[_Part]:
    """The values of a list with their places; they stand in order, each behind the one before."""
    found = []
    at = 0
    for raw in raws:
        value = bytes(raw)
        at = data.index(value, at)
        found.append(_Part(value, base + at))
        at += len(value)
    return found


class _Lines:
    """Lines of the document by the places of its values, which come in order."""

    def __init__(self, data: bytes, source: SourceId) -> None:
        self.data = data
        self.source = source
        self.line = (0, -1)
        """Begin and end of the line that was looked at last."""
        self.number = 1

    def of(self, part: _Part, word: bytes) -> tuple[Span, str]:
        """The line on which a word of a value stands, else that of its first byte; of a long line what follows there."""
        at = part.start + max(part.raw.find(word), 0)
        start, end = self.line
        if not start <= at <= end:
            before, number = (start, self.number) if start <= at else (0, 1)
            start = self.data.rfind(b"\n", 0, at) + 1
            end = self.data.find(b"\n", at)
            end = len(self.data) if end < 0 else end
            self.number = number + self.data.count(b"\n", before, start)
            self.line = (start, end)
        begin, stop = (start, end) if end - start <= MOST_TEXT else (at, min(end, at + WINDOW))
        text = self.data[begin:stop].decode("utf-8", "backslashreplace")
        return Span(self.source, begin, stop - begin, self.number, begin - start + 1), text
