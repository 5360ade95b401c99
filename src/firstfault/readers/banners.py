"""What launchers say about processes that died: torchrun's list of failures, error.json, and single exit lines.

"Root cause" is the launcher's word for the first exit that it saw on its own node; it is kept as a fact, not believed.
"""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from firstfault.model.evidence import Failure, GlobalRank, LocalRank, Span, When, Who
from firstfault.model.lazy import lazy
from firstfault.readers.clock import instant
from firstfault.readers.frames import HEAD, clean
from firstfault.readers.identity import locate
from firstfault.readers.lines import LONGEST_LINE, Line
from firstfault.readers.stamps import build_stamp, match_stamp
from firstfault.readers.traceback import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.model.evidence import Event, PythonException, SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

REACH = 128 * 1024
"""Bytes around a line of a banner in which the rest of it is looked for."""
MOST_BACK = 1200

_ENTRY = lazy(r"^\[(\d{1,6})\]:$")
_FIELD = lazy(r"^(time|host|rank|exitcode|error_file|traceback|msg|message) *: ?(.*)$")
_ROOT = lazy(r"^Root Cause\b")
_OTHERS = lazy(r"^(?:Other )?Failures:$")
_RULE = lazy(r"^[=*-]{20,}$")
_TELLING = lazy(rb"Root Cause|Failures:|[=*-]{20}|\[\d{1,6}\]:|[\x00\x1b]")
"""What a line holds in which one of the four above can match; colours may stand between their letters."""
_INDEX = lazy(rb"\[\d{1,6}\]:")
_RULED = lazy(rb"[=*-][=*-]{19}")
_BEGINNINGS = (b"Root Cause", b"Failures:", b"\x00", b"\x1b")
"""One of these, an index or a rule is in every such line."""
_ROOT_WORD, _ESCAPE, _NUL = b"Root", b"\x1b", b"\x00"
_ENDS = frozenset(bytes((b,)) for b in (*b"=*-:", *range(0x20), *range(0x7F, 0x100)))
"""Last bytes that such a line can have, blanks left out; controls and what is no ASCII may be blank as well."""
_RANK = lazy(r"(\d{1,6})(?: \(local_rank: (\d{1,4})\))?")
_EXIT = lazy(r"(-?\d{1,5})(?: \(pid: (\d{1,9})\))?")
_NO_TRACE = lazy(r"^(?:To enable traceback see|<NONE>|<N/A>|Process failed with exitcode)")

_ENDED = lazy(r"Signal (\d{1,2}) \(SIG\w+\) received by PID (\d{1,9})|Process failed with exitcode (-?\d{1,5})")
"""What the agent notes where a process left no exception."""
_TOLD = lazy(rb'"message"\s*:\s*"')

_DEEPSPEED = lazy(r"exits with return code = (-?\d{1,5})")
_LOCAL_ARGUMENT = lazy(r"--local[_-]rank[= ',]{1,5}(\d{1,4})")
_AGENT = lazy(r"failed \(exitcode: (-?\d{1,5})\) local_rank: (\d{1,4}) \(pid: (\d{1,9})\)")
_SPAWN = lazy(
    r"(?i)\bprocess (\d{1,5}) terminated with (?:signal (SIG[A-Z0-9]+|\d{1,3})|exit code (\d{1,5})|the following error)"
)
_LIGHTNING = lazy(r"Child process with PID (\d{1,9}) terminated with code (-?\d{1,5})")
_CALLED = lazy(r"returned non-zero exit status (\d{1,5})|died with <Signals\.(SIG[A-Z0-9]+): (\d{1,3})>")
_ENDINGS = lazy(r"with return code = |failed \(exitcode|returned non-zero|terminated with code |died with <")
"""Of which one is in every line of four of these five: looked for first, because it is cheap."""
_SPAWN_ENDINGS = lazy(r"(?i)terminated with (?:signal |exit code |the following error)")
"""The same for the fifth."""


class _Part(NamedTuple):
    text: str
    line: Line
    start: int
    key: bytes
    who: Who


class _Entry:
    """One entry of a list of failures, line by line."""

    __slots__ = (
        "error_file",
        "exit_code",
        "host",
        "last",
        "local_rank",
        "message",
        "pid",
        "rank",
        "root",
        "span",
        "time",
        "tracing",
        "who",
    )

    def __init__(self, who: Who, *, root: bool) -> None:
        self.who = who
        self.root = root
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.pid: int | None = None
        self.host: str | None = None
        self.exit_code: int | None = None
        self.time = ""
        self.error_file = ""
        self.message = ""
        self.tracing = False
        self.span: Span | None = None
        self.last = ""


def read_banners(
    store: TextStore,
    source: SourceId,
    places: Sequence[tuple[int, int]],
    profile: SourceProfile,
    *,
    clock: SourceClock | None = None,
) -> list[Failure]:
    """Failures that the launcher lists around the given lines.

    Args:
        store: of the sources.
        source: in which they stand.
        places: number and byte offset of the start of lines that belong to a banner (its title, `Root Cause`, an entry).
        profile: of the source.
        clock: of the source, for the entries' times.

    Returns:
        One failure an entry, by place; each once.
    """
    found: dict[int, Failure] = {}
    behind = -1
    for number, offset in sorted(set(places)):
        if offset <= behind:
            continue
        for failure in _entries(_from_first(store, source, offset, number), source, profile, clock):
            found.setdefault(failure.span.offset, failure)
        behind = offset + REACH // 2
    return [found[at] for at in sorted(found)]


def _from_first(store: TextStore, source: SourceId, offset: int, number: int) -> Iterator[Line]:
    """The lines around one that starts at an offset and has a number, from the first on in which a list can begin."""
    start = max(0, offset - REACH)
    data = store.read(source, start, offset - start + REACH)
    here = offset - start
    begin = data.find(b"\n", 0, here) + 1 or here if start else 0
    for _ in range(data.count(b"\n", begin, here) - MOST_BACK):
        begin = data.find(b"\n", begin, here) + 1
    places = [at for word in _BEGINNINGS if (at := data.find(word, begin)) >= 0]
    places += [found.start() for sign in (_INDEX, _RULED) if (found := sign.search(data, begin)) is not None]
    if not places:
        return
    first = data.rfind(b"\n", begin, min(places)) + 1 or begin
    number += data.count(b"\n", here, first) if first > here else -data.count(b"\n", first, here)
    at = start + first
    for line in data[first:].removesuffix(b"\n").split(b"\n"):
        yield Line(number, at, line[:LONGEST_LINE].removesuffix(b"\r"))
        number, at = number + 1, at + len(line) + 1


def _entries(
    lines: Iterable[Line], source: SourceId, profile: SourceProfile, clock: SourceClock | None
) -> list[Failure]:
    """Entries of all speakers that print a banner in these lines."""
    done: list[Failure] = []
    current: dict[bytes, _Entry] = {}
    root: dict[bytes, bool] = {}
    kept = tuple(lines)
    telling = _telling(kept)
    for number, line in enumerate(kept):
        if not current and number not in telling:
            continue  # nothing is open and nothing begins here: who says it does not matter
        part = _part(line, profile)
        text = part.text.strip()
        entry = current.get(part.key)
        if _ROOT.match(text) or _OTHERS.match(text) or _RULE.match(text) or _ENTRY.match(text):
            if entry is not None:
                _finish(current.pop(part.key), done, clock)
            if _ROOT.match(text) or _OTHERS.match(text):
                root[part.key] = _ROOT.match(text) is not None
            if _ENTRY.match(text):
                current[part.key] = _Entry(part.who, root=root.get(part.key, False))
            continue
        if entry is not None:
            _take(entry, part, text, source)
    for entry in current.values():
        _finish(entry, done, clock)
    return done


def _telling(lines: Sequence[Line]) -> set[int]:
    """Indexes of the lines in which a list or an entry can begin."""
    asked = [
        number
        for number, line in enumerate(lines)
        if (text := line.text)
        and (text.rstrip(b" ")[-1:] in _ENDS or _ROOT_WORD in text or _ESCAPE in text or _NUL in text)
    ]
    return {number for number in asked if _TELLING.search(lines[number].text)}


def _part(line: Line, profile: SourceProfile) -> _Part:
    segment = line.text.rsplit(b"\r", 1)[-1]
    start = len(line.text) - len(segment)
    place = locate(segment, 0, profile)
    body = place.body if len(segment[: place.body].strip()) else 0
    return _Part(clean(segment[body:]), line, start + body, place.key, place.who)


def _take(entry: _Entry, part: _Part, text: str, source: SourceId) -> None:
    field = _FIELD.match(text)
    if field is None or (entry.tracing and field[1] not in {"time", "exitcode"}):
        if entry.tracing and text:
            entry.last = text
        return
    name, value = field[1], field[2].strip()
    indent = len(part.text) - len(part.text.lstrip())
    span = Span(
        source, part.line.offset + part.start + indent, len(text.encode()), part.line.number, part.start + indent + 1
    )
    if name == "time":
        entry.time = value
    elif name == "host":
        entry.host = None if value in {"", "localhost"} else value
    elif name == "rank":
        numbers = _RANK.match(value)
        if numbers is not None:
            entry.rank = int(numbers[1])
            entry.local_rank = None if numbers[2] is None else int(numbers[2])
            entry.span = entry.span or span
    elif name == "exitcode":
        numbers = _EXIT.match(value)
        if numbers is not None:
            entry.exit_code = int(numbers[1])
            entry.pid = None if numbers[2] is None else int(numbers[2])
            entry.span = span
    elif name == "error_file":
        entry.error_file = "" if value.startswith("<") else value
    else:
        entry.tracing = HEAD.decode() in value
        entry.message = "" if entry.tracing or _NO_TRACE.match(value.strip('"')) else value.strip('"')


def _finish(entry: _Entry, done: list[Failure], clock: SourceClock | None) -> None:
    if entry.span is None or (entry.rank is None and entry.pid is None):
        return
    who = structs.replace(
        entry.who,
        rank=None if entry.rank is None else GlobalRank(entry.rank),
        local_rank=None if entry.local_rank is None else LocalRank(entry.local_rank),
        host=entry.host if entry.host is not None else entry.who.host,
        pid=entry.pid,
        group_rank=None,
        group=None,
        device=None,
    )
    done.append(
        Failure(
            span=entry.span,
            who=who,
            when=_entry_time(entry, clock),
            exit_code=entry.exit_code,
            root=entry.root,
            message=entry.message or entry.last,
            error_file=entry.error_file,
        ),
    )


def _entry_time(entry: _Entry, clock: SourceClock | None) -> When:
    found = match_stamp(entry.time.encode("ascii", "replace"), 0)
    stamp = None if found is None else build_stamp(*found)
    if stamp is None or not stamp.dated or stamp.year is None:
        return When()
    assert entry.span is not None
    return (
        instant(stamp) if clock is None else clock.at(stamp, entry.span.offset - entry.span.column + 1, entry.span.line)
    )


def failure_of_event(event: Event) -> Failure | None:
    """What a single line of a launcher says about a process that ended badly; None where it says nothing of the kind.

    Knows DeepSpeed's launcher, torchrun's agent, torch's spawn, Lightning's subprocess launcher and `subprocess`.
    """
    text = event.text
    if _ENDINGS.search(text) is None and (" with " not in text or _SPAWN_ENDINGS.search(text) is None):
        return None
    who, code = event.who, None
    if found := _DEEPSPEED.search(text):
        code = int(found[1])
        local = _LOCAL_ARGUMENT.search(text)
        who = Who(
            host=who.host,
            node_rank=who.node_rank,
            local_rank=None if local is None else LocalRank(int(local[1])),
            label=who.label,
        )
    elif found := _AGENT.search(text):
        code = int(found[1])
        who = Who(
            host=who.host,
            node_rank=who.node_rank,
            local_rank=LocalRank(int(found[2])),
            pid=int(found[3]),
            label=who.label,
        )
    elif found := _LIGHTNING.search(text):
        code, who = int(found[2]), structs.replace(who, pid=int(found[1]))
    elif found := _SPAWN.search(text):
        code = _signal(found[2]) if found[2] is not None else (None if found[3] is None else int(found[3]))
    elif found := _CALLED.search(text):
        code = int(found[1]) if found[1] is not None else -int(found[3])
    else:
        return None
    return Failure(span=event.span, who=who, when=event.when, exit_code=code, message=text[-400:])


def _signal(name: str) -> int | None:
    if name.isdigit():
        return -int(name)
    number = getattr(signal, name, None)
    return -int(number) if isinstance(number, int) else None


def read_error_json(
    data: bytes, source: SourceId, profile: SourceProfile
) -> tuple[Failure, PythonException | None] | None:
    """Reads an error.json that a process left behind; None where it is none.

    Args:
        data: the whole file; a cut one gives what can be read.
        source: which one it is.
        profile: of the source: its path holds the local rank and the attempt.

    Returns:
        The failure (time from the file, when it was raised) and the exception with its frames.
    """
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return _cut_error_json(data, source, profile)
    message = whole.get("message") if isinstance(whole, dict) else None
    stamp = whole.get("timestamp") if isinstance(whole, dict) else None
    stack, code = "", None
    if isinstance(message, dict):
        extra = message.get("extraInfo")
        extra = extra if isinstance(extra, dict) else {}
        kept = extra.get("py_callstack")
        stack = kept if isinstance(kept, str) else ""
        if isinstance(kept, list):
            # As first written (2021): a list of entries, without the head and the last line.
            entries = "".join(k for k in kept if isinstance(k, str))
            stack = f"{HEAD.decode()}\n{entries}{message.get('message')}\n" if entries else ""
        stamp = extra.get("timestamp", stamp)
        code = message.get("errorCode")
        message = message.get("message")
    if not isinstance(message, str) or message == "<NONE>":
        return None
    raised = read_text(stack, source)
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    ended = _ENDED.match(message)
    who = profile.who
    if ended is not None:
        code = -int(ended[1]) if ended[1] is not None else int(ended[3])
        who = who if ended[2] is None else structs.replace(who, pid=int(ended[2]))
    told = _TOLD.search(data)
    failure = Failure(
        span=_span(data, source, max(data.find(b'"message"'), 0) if told is None else told.start(), 400),
        who=who,
        when=_epoch(stamp),
        exit_code=code,
        message=message[:4096],
    )
    return failure, raised


def _cut_error_json(
    data: bytes, source: SourceId, profile: SourceProfile
) -> tuple[Failure, PythonException | None] | None:
    found = re.search(rb'"message": ?"((?:[^"\\]|\\.){1,4096})', data)
    if found is None or (b"py_callstack" not in data and b"extraInfo" not in data):
        return None
    text = found[1].decode("utf-8", "backslashreplace")
    return Failure(
        span=_span(data, source, found.start(), len(found.group())),
        who=profile.who,
        when=When(),
        message=text,
    ), None


def _span(data: bytes, source: SourceId, offset: int, length: int) -> Span:
    """The place of an offset of a file that is at hand as a whole: an error.json may be written over many lines."""
    line = data.count(b"\n", 0, offset)
    column = offset - data.rfind(b"\n", 0, offset)
    return Span(source, offset, min(length, len(data) - offset), line + 1, column)


def _epoch(stamp: object) -> When:
    try:
        seconds = float(stamp) if isinstance(stamp, (str, int, float)) else 0.0
    except (ValueError, OverflowError):  # a number of hundreds of digits is an int that no float holds
        return When()
    return When(seconds, seconds + 1, "Z") if 1e8 < seconds < 1e11 else When()
