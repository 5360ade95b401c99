"""Goes through text line by line and takes stack dumps out of it, one speaker's apart from another's.

Says whose a dump is where a prefix, a heading, the file's place or the process's command line states it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from firstfault.model.evidence import GlobalRank, LocalRank, Span, Who
from firstfault.model.lazy import lazy
from firstfault.model.stacks import StackDump
from firstfault.readers.identity import locate
from firstfault.readers.stacks.drafts import Draft, Line
from firstfault.readers.stacks.forms import (
    ALONE,
    CAUSE,
    EU_PROCESS,
    EU_STACK,
    FAULTHANDLER,
    GDB,
    GDB_PROCESS,
    PROCESS,
    PY_SPY,
    Head,
    frame_of,
    head_of,
    inside,
)
from firstfault.readers.stacks.pyspy_json import read_json

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.readers.identity import SourceProfile

T = TypeVar("T")

MOST_DUMPS = 20_000
MOST_TEXT = 4096
"""Characters of a line that are shown."""
MOST_READ = 8192
"""Characters of a line that are looked at; templates of C++ print names of thousands."""
_RANK = lazy(
    r"(?i)\W*(?:(?:firstfault|stacks?|stacktraces?|traces?|tracebacks?|dump(?:s|ed)?|output|py-?spy|pystack|gdb|of|for|on|the|process|pid|\d{1,9}"
    r"|(?:host(?:name)?|node)[ :=]{1,3}[\w.\-]{1,100})\W+){0,12}(?:global[ _]?)?rank[ :=#-]{0,3}(\d{1,6})\b"
)
"""A heading says little before the rank that it is about; a sentence that mentions one is about something else."""
_HEADED_HOST = lazy(
    r"\b(?:host(?:name)?|node)(?: ?[:=] ?)([A-Za-z0-9][\w.\-]{0,100})|^# ?([A-Za-z0-9][\w.\-]{0,100}): "
    r"|https?://([A-Za-z0-9][\w.\-]{0,200}):\d{1,5}/handler/"
)
_SAID_HOST = lazy(r"\b(?:host(?:name)?|node) ([A-Za-z0-9][\w.\-]{0,100})")
"""The same in a line that is a heading for other reasons."""
_LOCAL_ARGUMENT = lazy(r"--local[-_]rank[= ](\d{1,4})\b")
_TITLE = lazy(r"^\S{1,60}_TP(\d{1,4})$")
"""Title of a process of an inference engine: `sglang::scheduler_TP2`. With a second axis (`_DP0_TP2`) it tells no rank."""
_OTHER_AXIS = lazy(r"_[DPE]P\d|_PCP\d|_DCP\d")
_PLACED = lazy(r"(?:^|[^a-z])local[_\-]?(\d{1,4})(?!\d)")
_REFUSED = lazy(r"Error: \d{3}$|Failed to fetch: status=\d{3}")
"""What the debug server of torch.distributed writes for a rank that gave no stack in time."""
_MARKED_UP = lazy(r"\s*<(?:pre|h2|p)>|</(?:pre|h2|p)>\s*$")


class _Reader:
    """Takes lines in order; one speaker's dumps do not disturb another's."""

    def __init__(self, source: SourceId, place: Who) -> None:
        self.source = source
        self.place = place
        self.drafts: dict[bytes, Draft] = {}
        self.heading = Who()
        self.attached: int | None = None
        """The process that gdb said it looks at."""
        self.done: list[StackDump] = []

    def take(self, key: bytes, who: Who, text: str, line: Line) -> None:
        """Takes the text of one line, without its prefix but with its indentation."""
        if text.lstrip()[:1] == "<":
            text = _MARKED_UP.sub("", text)
        bare = text.strip()
        if not bare:
            return
        draft = self.drafts.get(key)
        if not text[:1].isspace() and self._starts(key, who, bare, line):
            return
        if draft is not None and draft.threads:
            read = frame_of(draft.tool, text)
            if read is not None:
                draft.threads[-1].add(read, line)
                return
            if inside(draft.tool, text) and GDB_PROCESS.match(bare) is None:
                return
        if not text[:1].isspace():
            self._said(key, who, bare, line)

    def _starts(self, key: bytes, who: Who, bare: str, line: Line) -> bool:
        """Whether a line begins a dump or a thread."""
        head = head_of(bare)
        draft = self.drafts.get(key)
        if head is not None:
            if draft is None or not draft.takes(head):
                opened = self._who(who)
                if head.tool == GDB and self.attached is not None:
                    opened = replace(opened, pid=self.attached)
                draft = self._open(key, Draft(head.tool, opened))
            draft.add(head, line)
            return True
        found = PROCESS.match(bare)
        if found is not None:
            self._open(key, Draft(PY_SPY, _of_command(self._who(who), int(found[1]), found[2])))
            return True
        found = CAUSE.match(bare)
        if found is not None:
            self._open(key, Draft(FAULTHANDLER, self._who(who), found[1]))
            return True
        found = EU_PROCESS.match(bare)
        if found is not None:
            self._open(key, Draft(EU_STACK, replace(self._who(who), pid=int(found[1]))))
            return True
        if (draft is None or draft.tool != GDB) and ALONE.match(bare) is not None:
            draft = self._open(key, Draft(GDB, replace(self._who(who), pid=self.attached)))
            draft.add(Head(GDB, "", main=True), line)
            return bare.startswith("Traceback") or self._first_frame(draft, bare, line)
        return bare.startswith("Python v")

    @staticmethod
    def _first_frame(draft: Draft, bare: str, line: Line) -> bool:
        read = frame_of(GDB, bare)
        if read is not None:
            draft.threads[-1].add(read, line)
        return True

    def _said(self, key: bytes, who: Who, bare: str, line: Line) -> None:
        """Another line ends a dump; as a heading it may say whose the next one is."""
        attached = GDB_PROCESS.match(bare)
        draft = self.drafts.get(key)
        if attached is not None:
            pid = int(attached[1] or attached[2])
            if attached[2] is not None and draft is not None and draft.who.pid is None:
                draft.who = replace(draft.who, pid=pid)
            self.attached = None if attached[2] is not None else pid
        self._close(key)
        if _REFUSED.match(bare) is not None and self.heading.rank is not None:
            self.done.append(StackDump(tool="", who=self._who(who), threads=(), refused=bare, span=line.span))
            return
        if len(bare) >= 300:
            return
        rank, host = _RANK.match(bare), _HEADED_HOST.search(bare)
        named = None if host is None else host[1] or host[2] or host[3]
        if named is None and (rank is not None or bare.startswith("firstfault stacks")):
            said = _SAID_HOST.search(bare)
            named = None if said is None else said[1]
        if rank is not None or named is not None:
            self.heading = Who(rank=None if rank is None else GlobalRank(int(rank[1])), host=named)

    def _who(self, who: Who) -> Who:
        """The speaker of the line, completed by the heading and the file's place."""
        return replace(
            who,
            rank=_first(who.rank, self.heading.rank, self.place.rank),
            local_rank=_first(who.local_rank, self.place.local_rank),
            host=_first(who.host, self.heading.host, self.place.host),
        )

    def _open(self, key: bytes, draft: Draft) -> Draft:
        self._close(key)
        self.drafts[key] = draft
        return draft

    def _close(self, key: bytes) -> None:
        draft = self.drafts.pop(key, None)
        if draft is None or len(self.done) >= MOST_DUMPS:
            return
        dump = draft.ended()
        if dump is not None:
            self.done.append(dump)

    def close(self) -> list[StackDump]:
        """All dumps, with those of one process numbered in order."""
        for key in list(self.drafts):
            self._close(key)
        seen: dict[tuple[object, ...], int] = {}
        numbered = []
        for dump in sorted(self.done, key=lambda d: d.begin.offset):
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
        decoded = read_json(data, source, profile.who)
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
        shown = text[: 4 * MOST_TEXT].decode("utf-8", "backslashreplace")[:MOST_TEXT]
        said = text[body : body + MOST_READ].decode("utf-8", "backslashreplace")
        if said or not text:
            reader.take(found.key, found.who, said, Line(Span(source, offset + at, len(text), number, 1), shown))
        at += len(raw) + 1
        number += 1
    return reader.close()


def _of_command(who: Who, pid: int, command: str) -> Who:
    """Adds the process's number, and the local rank that its command line states."""
    local = _LOCAL_ARGUMENT.search(command)
    if local is None and _OTHER_AXIS.search(command) is None:
        local = _TITLE.match(command.strip())
    stated = None if local is None else LocalRank(int(local[1]))
    return replace(who, pid=pid, local_rank=_first(who.local_rank, stated))


def local_of_name(path: str) -> LocalRank | None:
    """The local rank that the name of a file of stacks states as `local5`; None where it does not."""
    found = _PLACED.search(path.rsplit("/", 1)[-1].lower())
    return None if found is None else LocalRank(int(found[1]))


def _first(*values: T | None) -> T | None:
    return next((v for v in values if v is not None), None)
