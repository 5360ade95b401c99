r"""Reads stack dumps: py-spy (text, --native, --locals, --json), faulthandler, pystack; alone in a file or inside a worker's log.

Takes dumps apart and says whose they are, where that is stated. What a frame means is not judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from firstfault.model.evidence import Frame, GlobalRank, LocalRank, Span, Who
from firstfault.model.lazy import lazy
from firstfault.model.stacks import StackDump, StackFrame, ThreadStack
from firstfault.readers.identity import locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.identity import SourceProfile

T = TypeVar("T")
MOST_FRAMES = 200
MOST_DUMPS = 20_000
MOST_TEXT = 4096
_PROCESS = lazy(r"Process (\d{1,9}): (.*)$")
_SPY_THREAD = lazy(r'Thread (\d{1,20}|0x[0-9A-Fa-f]{1,16}) \(([a-z]+(?:\+[a-z]+)*)\)(?:: "(.*)")?\s*$')
_SPY_FRAME = lazy(r"(?P<function>\S.{0,2000}?) \((?P<file>[^()\s][^()]{0,1000}?):(?P<line>\d{1,7})\)\s*$")
_SPY_NATIVE = lazy(r"(?P<function>\S.{0,3000}?) \((?P<file>[^():\s]{1,300})\)\s*$")
_CAUSE = lazy(r"(Timeout \(\d{1,4}:\d\d:\d\d(?:\.\d+)?\)!|Fatal Python error: .*)$")
_FAULT_THREAD = lazy(r"(Current thread|Thread) 0x([0-9a-f]{1,16})(?: \[(.*?)\])? \(most recent call first\):\s*$")
_FAULT_FRAME = lazy(r'\s*File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9}) in (?P<function>.{1,300}?)\s*$')
_PYSTACK_THREAD = lazy(r"Traceback for thread (\d{1,9}) (?:\((.*?)\) )?\[(.*?)\] \(most recent call last\):\s*$")
_PYSTACK_FRAME = lazy(
    r'\s*\((?P<kind>Python|C)\) File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9}), in (?P<function>.{1,3000}?)(?: \((?P<lib>[^()\s]{1,300})\))?\s*$'
)
_RANK = lazy(r"(?i)\b(?:global[ _]?)?rank[ :=#-]{0,3}(\d{1,6})\b")
_HEADED_HOST = lazy(r"\b(?:host(?:name)?|node)[ :=]{1,3}([A-Za-z0-9][\w.\-]{0,100})|^# ?([A-Za-z0-9][\w.\-]{0,100}): ")
_LOCAL_ARGUMENT = lazy(r"--local[-_]rank[= ](\d{1,4})\b")
_PLACED = lazy(r"(?:^|[^a-z])local[_\-]?(\d{1,4})(?!\d)")
_OF_A_CHILD = ("_worker_loop", "_bootstrap_worker", "spawn_main", "_pin_memory_loop")
_OUTERMOST = frozenset({"<module>", "_run_module_as_main", "_run_module_code"})
_THREAD_STARTS = frozenset(
    {"_bootstrap", "_bootstrap_inner", "Thread._bootstrap", "Thread._bootstrap_inner", "thread_run"}
)


class _Line(NamedTuple):
    """A line as it stands."""

    span: Span
    text: str


class _Draft:
    """A dump under way."""

    def __init__(self, tool: str, who: Who, cause: str | None = None) -> None:
        self.tool = tool
        self.who = who
        self.cause = cause
        self.pid: int | None = who.pid
        self.threads: list[_Thread] = []


class _Thread:
    """A thread under way."""

    def __init__(self, ident: str, name: str | None, state: str | None, line: _Line) -> None:
        self.ident = ident
        self.name = name
        self.state = state
        self.span = line.span
        self.text = line.text
        self.frames: list[StackFrame] = []

    def ended(self, draft: _Draft) -> ThreadStack:
        frames = tuple(reversed(self.frames)) if draft.tool == "pystack" else tuple(self.frames)
        return ThreadStack(
            name=self.name,
            state=self.state,
            span=self.span,
            text=self.text,
            frames=frames,
            main=self.is_main(draft, frames),
        )

    def is_main(self, draft: _Draft, frames: tuple[StackFrame, ...]) -> bool:
        if self.name is not None:
            return self.name in {"MainThread", "pt_main_thread"}
        if draft.pid is not None and self.ident == str(draft.pid):
            return True
        python = [f.frame.function for f in frames if not f.native]
        return bool(python) and python[-1] in _OUTERMOST


class _Reader:
    """Takes lines in order; one speaker's dumps do not disturb another's."""

    def __init__(self, source: SourceId, place: Who) -> None:
        self.source = source
        self.place = place
        self.drafts: dict[bytes, _Draft] = {}
        self.heading = Who()
        self.done: list[StackDump] = []

    def take(self, key: bytes, who: Who, text: str, line: _Line) -> None:
        """Takes the text of one line, without its prefix but with its indentation."""
        bare = text.strip()
        if not bare:
            return
        draft = self.drafts.get(key)
        if not text[:1].isspace() and self._starts(key, who, bare, line):
            return
        if draft is not None and draft.threads and self._frame(draft, text, line):
            return
        if not text[:1].isspace():
            self._headed(key, bare)

    def _starts(self, key: bytes, who: Who, bare: str, line: _Line) -> bool:
        draft = self.drafts.get(key)
        found = _PROCESS.match(bare)
        if found is not None:
            self._open(key, "py-spy", _of_command(self._who(who), int(found[1]), found[2]))
            return True
        found = _SPY_THREAD.match(bare)
        if found is not None:
            draft = draft if draft is not None and draft.tool == "py-spy" else self._open(key, "py-spy", self._who(who))
            draft.threads.append(_Thread(found[1], found[3], found[2], line))
            return True
        found = _CAUSE.match(bare)
        if found is not None:
            self._open(key, "faulthandler", self._who(who), found[1])
            return True
        found = _FAULT_THREAD.match(bare)
        if found is not None:
            if draft is None or draft.tool != "faulthandler" or _complete(draft):
                draft = self._open(key, "faulthandler", self._who(who))
            draft.threads.append(_Thread(found[2], found[3], None, line))
            return True
        found = _PYSTACK_THREAD.match(bare)
        if found is not None:
            if draft is None or draft.tool != "pystack" or any(t.ident == found[1] for t in draft.threads):
                draft = self._open(key, "pystack", self._who(who))
            draft.threads.append(_Thread(found[1], None, found[3] or None, line))
            return True
        return bare.startswith("Python v")

    def _frame(self, draft: _Draft, text: str, line: _Line) -> bool:
        """Whether a line is a frame of the thread that is open, or stands among its frames."""
        if not text[:1].isspace():
            return False
        frame = _FRAMES[draft.tool](text)
        thread = draft.threads[-1]
        if frame is not None and len(thread.frames) < MOST_FRAMES:
            thread.frames.append(StackFrame(frame[0], line.span, line.text, frame[1]))
        return True

    def _headed(self, key: bytes, bare: str) -> None:
        """Another line ends a dump; as a heading it may say whose the next one is."""
        self._close(key)
        rank, host = _RANK.search(bare), _HEADED_HOST.search(bare)
        if len(bare) < 200 and (rank is not None or host is not None):
            self.heading = Who(
                rank=None if rank is None else GlobalRank(int(rank[1])),
                host=None if host is None else host[1] or host[2],
            )

    def _who(self, who: Who) -> Who:
        """The speaker of the line, completed by the heading and the file's place."""
        return replace(
            who,
            rank=_first(who.rank, self.heading.rank, self.place.rank),
            local_rank=_first(who.local_rank, self.place.local_rank),
            host=_first(who.host, self.heading.host, self.place.host),
        )

    def _open(self, key: bytes, tool: str, who: Who, cause: str | None = None) -> _Draft:
        self._close(key)
        draft = _Draft(tool, who, cause)
        self.drafts[key] = draft
        return draft

    def _close(self, key: bytes) -> None:
        draft = self.drafts.pop(key, None)
        if draft is None or len(self.done) >= MOST_DUMPS:
            return
        threads = tuple(t.ended(draft) for t in draft.threads if t.frames)
        if not threads:
            return
        if not any(t.main for t in threads):
            # The oldest thread is printed last by faulthandler and pystack; one that a thread started is not it.
            last = threads[-1]
            started = any(f.frame.function in _THREAD_STARTS for f in last.frames[-3:])
            if draft.tool != "py-spy" and not started:
                threads = (*threads[:-1], replace(last, main=True))
        if any(f.frame.function.rsplit(".", 1)[-1] in _OF_A_CHILD for t in threads if t.main for f in t.frames):
            # A loader's worker or another child: it speaks for itself, not for its rank.
            draft.who = replace(draft.who, worker=-1)
        self.done.append(StackDump(tool=draft.tool, who=draft.who, threads=threads, cause=draft.cause))

    def close(self) -> list[StackDump]:
        """All dumps, with those of one process numbered in order."""
        for key in list(self.drafts):
            self._close(key)
        seen: dict[tuple[object, ...], int] = {}
        numbered = []
        for dump in sorted(self.done, key=lambda d: d.threads[0].span.offset):
            process = (dump.who, dump.tool)
            numbered.append(replace(dump, number=seen.get(process, 0)))
            seen[process] = seen.get(process, 0) + 1
        return numbered


def read_stacks(
    data: bytes, source: SourceId, profile: SourceProfile, *, path: str = "", offset: int = 0, line: int = 1
) -> list[StackDump]:
    """Every stack dump in a stretch of a source, in order.

    Args:
        data: the bytes, from the start of a line on.
        source: where they come from.
        profile: of the source.
        path: of the source as shown; its name may state the local rank.
        offset: of the first byte in the source.
        line: number of the first line.
    """
    if data.lstrip()[:1] == b"[":
        decoded = _of_json(data, source, profile)
        if decoded:
            return decoded
    place = profile.who
    if place.rank is None and place.local_rank is None:
        place = replace(place, local_rank=local_of_name(path))
    reader = _Reader(source, place)
    at, number = 0, line
    for raw in data.split(b"\n"):
        text = raw.removesuffix(b"\r")
        found = locate(text, 0, profile)
        body = found.body
        shown = text.decode("utf-8", "backslashreplace")[:MOST_TEXT]
        said = text[body:].decode("utf-8", "backslashreplace")
        if said or not text:
            reader.take(found.key, found.who, said, _Line(Span(source, offset + at, len(text), number, 1), shown))
        at += len(raw) + 1
        number += 1
    return reader.close()


def _complete(draft: _Draft) -> bool:
    """Whether the main thread of a dump was printed already: it comes last."""
    if not draft.threads or not draft.threads[-1].frames:
        return False
    frames = [f.frame.function for f in draft.threads[-1].frames if not f.native]
    if not frames:
        return False
    return frames[-1] in _OUTERMOST


def _spy_frame(text: str) -> tuple[Frame, bool] | None:
    if len(text) - len(text.lstrip()) > 6:
        return None  # arguments and locals stand deeper
    bare = text.strip()
    found = _SPY_FRAME.match(bare)
    if found is not None:
        return Frame(found["file"], int(found["line"]), found["function"]), _is_native(found["file"])
    native = _SPY_NATIVE.match(bare)
    return None if native is None else (Frame(native["file"], 0, native["function"]), True)


def _is_native(file: str) -> bool:
    return file.endswith((".so", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".S")) or ".so." in file


def _fault_frame(text: str) -> tuple[Frame, bool] | None:
    found = _FAULT_FRAME.match(text)
    return None if found is None else (Frame(found["file"], int(found["line"]), found["function"]), False)


def _pystack_frame(text: str) -> tuple[Frame, bool] | None:
    found = _PYSTACK_FRAME.match(text)
    if found is None:
        return None
    native = found["kind"] == "C"
    return Frame(
        found["lib"] or found["file"] if native else found["file"], int(found["line"]), found["function"]
    ), native


_FRAMES = {"py-spy": _spy_frame, "faulthandler": _fault_frame, "pystack": _pystack_frame}


def _of_command(who: Who, pid: int, command: str) -> Who:
    """Adds the process's number, and the local rank that its command line states."""
    local = _LOCAL_ARGUMENT.search(command)
    stated = None if local is None else LocalRank(int(local[1]))
    return replace(who, pid=pid, local_rank=_first(who.local_rank, stated))


def local_of_name(path: str) -> LocalRank | None:
    """The local rank that the name of a file of stacks states as `local5`; None where it does not."""
    found = _PLACED.search(path.rsplit("/", 1)[-1].lower())
    return None if found is None else LocalRank(int(found[1]))


def _first(*values: T | None) -> T | None:
    return next((v for v in values if v is not None), None)


class _JsonFrame(msgspec.Struct):
    name: str = "?"
    filename: str = ""
    short_filename: str | None = None
    line: int = 0


class _JsonThread(msgspec.Struct):
    pid: int
    frames: list[_JsonFrame]
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False


def _of_json(data: bytes, source: SourceId, profile: SourceProfile) -> list[StackDump]:
    """What `py-spy dump --json` writes; the lines that prove a frame are those of its function's name."""
    try:
        threads = msgspec.json.decode(data, type=list[_JsonThread])
    except (msgspec.DecodeError, RecursionError):
        return []
    places = _places(data, source)
    by_pid: dict[int, list[ThreadStack]] = {}
    for thread in threads:
        header = next(places, None)
        if not thread.frames:
            continue  # it runs no Python
        span, text = header if header is not None else (Span(source, 0, 0, 1, 1), "")
        frames = tuple(
            StackFrame(Frame(f.short_filename or f.filename, f.line, f.name), span, text, _is_native(f.filename))
            for f in thread.frames[:MOST_FRAMES]
        )
        state = ("active" if thread.active else "idle") + ("+gil" if thread.owns_gil else "")
        main = thread.thread_name == "MainThread" or (thread.os_thread_id == thread.pid)
        by_pid.setdefault(thread.pid, []).append(
            ThreadStack(name=thread.thread_name, state=state, span=span, text=text, frames=frames, main=main)
        )
    who = profile.who
    return [
        StackDump(tool="py-spy", who=replace(who, pid=pid), threads=tuple(found))
        for pid, found in sorted(by_pid.items())
    ]


def _places(data: bytes, source: SourceId) -> Iterator[tuple[Span, str]]:
    """The line that begins each thread of a JSON dump, by its `thread_name`."""
    at = counted = 0
    number = 1
    while (at := data.find(b'"thread_name"', at)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        number += data.count(b"\n", counted, start)
        counted = start
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[start:end]
        yield (
            Span(source, start, len(line), number, 1),
            line.decode("utf-8", "backslashreplace")[:MOST_TEXT],
        )
        at = max(end, at + 1)
