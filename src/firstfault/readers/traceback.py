"""Puts Python tracebacks together from interleaved, prefixed, glued and cut text. Says what was raised, never why or whose fault.

Where the text of several processes is mixed without prefixes it says so (`complete=False`) rather than guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import Frame, PythonException, Span
from firstfault.model.lazy import lazy
from firstfault.readers.frames import (
    CHAINED,
    HEAD,
    ended_nothing,
    is_traceback_part,
    of_thread,
    promised,
    read_frame,
    read_last,
    strip_margin,
    swallowed,
    uncaught,
    user_frame,
    was_caught,
    worker_of,
)
from firstfault.readers.identity import SourceProfile
from firstfault.readers.lines import CHUNK, Line, TextStore, lines_back, lines_from
from firstfault.readers.raised import Block, Raised, as_cut, of_rank, one_line, quoted_lines, with_worker
from firstfault.readers.said import Said, said_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.model.evidence import SourceId

MOST_BYTES = 1024 * 1024
"""How far past its start a traceback is followed."""
MOST_OWN_FOREIGN = 300
"""Lines of the same speaker that do not belong to it, after which a traceback without a last line is given up."""
MOST_MESSAGE_LINES = 200
MOST_MESSAGE = 4096
MOST_FRAMES = 200
REMOTE = "RayTaskError("
MOST_TEXT_LINES = 5000
MOST_WAIT = 600
"""Lines of other speakers after which a finished exception waits no longer for more of its message."""

_ENDS_MESSAGE = lazy(
    r"^(?:\s*\d{1,3}%\||srun: |slurmstepd: |Exception ignored |terminate called |Fatal Python error|Extension modules: |frame #\d|"
    r"\[\w|`Trainer|GPU available|=====|-----|\*\*\*\*\*|Killed$|Epoch \d|WARNING|ERROR|INFO|E\d{4} |W\d{4} |wandb: |Aborted|Segmentation fault|"
    r"[A-Za-z_/.\w\-]+\.py:\d+: \w*Warning: )|\d+%\|",
)
_PLAIN = SourceProfile()
_REPRINT = lazy(r"^\s*traceback\s*: ")


MOST_OPEN = 128
"""Tracebacks of processes that nothing keeps apart, read at once; a text that only begins tracebacks must not cost its square."""


class _Open:
    """A traceback under way."""

    __slots__ = (
        "before", "by_words", "caught", "chain", "first", "foreign", "frames", "kind", "last", "lines", "message", "message_lines", "mixed", "near",
        "state", "waited", "worker",
    )  # fmt: skip

    def __init__(self, said: Said, before: Said | None) -> None:
        self.first = said
        self.before = before
        self.chain: list[Raised] = []
        self.frames: list[Frame] = []
        self.state = "frames"
        self.kind = ""
        self.message: list[str] = []
        self.message_lines: list[int] = []
        self.last: Said | None = None
        self.lines = {said.line.number}
        self.mixed = False
        self.near = True
        self.foreign = 0
        self.waited = 0
        self.worker: int | None = None
        self.caught = False
        self.by_words = False

    def headed(self, said: Said) -> bool:
        """Whether a line is a logger's own, and not one of a traceback of which a logger heads every line."""
        return said.headed and not (self.first.headed and said.shape == self.first.shape)

    @property
    def reprinted(self) -> bool:
        """Whether a launcher's banner prints it again."""
        return _REPRINT.match(self.first.text) is not None

    @property
    def alone(self) -> bool:
        """Whether a prefix keeps the speaker apart from all others."""
        return any(part[:1] in {b"r", b"l", b"p"} for part in self.first.key.split(b","))


def _level(before: Said, block: _Open) -> str | None:
    """The level of what was said before a traceback: of a logger's line, or of the record in which both stand."""
    return before.level if before.headed or before.line is block.first.line else None


class _Reader:
    """Reads lines in order and keeps one or more tracebacks a speaker."""

    def __init__(self, profile: SourceProfile, source: SourceId) -> None:
        self.profile = profile
        self.source = source
        self.open: dict[bytes, list[_Open]] = {}
        self.done: list[Block] = []
        self.before: dict[bytes, Said] = {}
        """The last words of each speaker so far, as far as somebody asked for them."""
        self.unread: list[Line] = []
        """Lines before the first head that nobody asked about yet."""
        self.fed = 0

    @property
    def busy(self) -> bool:
        return any(self.open.values())

    def remember(self, line: Line) -> None:
        """Takes in a line that stands before the first head."""
        self.unread.append(line)

    def _last_before(self, key: bytes) -> Said | None:
        """The last words of a speaker before a head."""
        while key not in self.before and self.unread:
            for said in reversed(list(said_in(self.unread.pop(), self.profile))):
                if said.text.strip():
                    self.before.setdefault(said.key, said)
        return self.before.get(key)

    def feed(self, line: Line) -> None:
        """Takes the next line."""
        for said in said_in(line, self.profile):
            self._one(said)
            if said.text.strip():
                self.before[said.key] = said
        self.fed += 1
        if self.fed % 64 == 0:
            self._age()

    def close(self) -> None:
        """Ends what is still open: the text ends here."""
        for blocks in self.open.values():
            for block in blocks:
                self._emit(block)
        self.open.clear()

    def _one(self, said: Said) -> None:
        if HEAD.decode() in said.text:
            self._head(said)
            return
        if REMOTE in said.text and not self.open.get(said.key) and self._remote(said):
            return
        for block in list(self.open.get(said.key, ())):
            if self._offer(block, said):
                return

    def _head(self, said: Said) -> None:
        blocks = self.open.setdefault(said.key, [])
        original = "Original Traceback" in said.text
        for block in reversed(blocks):
            last = block.message[-1] if block.message else ""
            quoted = block.state in {"message", "gap"} and (original or last == '"""' or last.startswith("-- Process "))
            if block.state == "await" or quoted:
                if quoted:
                    self._turn(block, said)
                block.state, block.near = "frames", True
                block.lines.add(said.line.number)
                return
        for block in list(blocks):
            if block.state == "frames" and not block.alone:
                block.mixed = True
            else:
                self._emit(block)
                blocks.remove(block)
        while len(blocks) >= MOST_OPEN:
            self._emit(blocks.pop(0))
        fresh = _Open(said, self._last_before(said.key))
        fresh.mixed = bool(blocks)
        blocks.append(fresh)
        if "\\n" in said.text:
            self._inline(fresh, said)

    def _remote(self, said: Said) -> bool:
        """`RayTaskError(ValueError): ray::f() …`: the frames of the other process follow without a head."""
        last = read_last(said.text, near=True)
        if last is None or "ray::" not in last[1]:
            return False
        block = _Open(said, None)
        block.kind, block.message, block.message_lines = last[0], [last[1]], [said.line.number]
        block.last, block.state, block.waited = said, "message", self.fed
        self.open.setdefault(said.key, []).append(block)
        return True

    def _inline(self, block: _Open, said: Said) -> None:
        r"""A whole traceback quoted in one line, with `\n` spelt out."""
        at = said.column - 1
        texts = said.text.split("\\n")
        head = next(n for n, text in enumerate(texts) if HEAD.decode() in text)
        for number, (text, raw) in enumerate(zip(texts, quoted_lines(said.line.text[at:], len(texts)), strict=True)):
            plain = text.replace('\\"', '"').replace("\\\\", "\\")
            part = said._replace(offset=said.line.offset + at, column=at + 1, text=plain, raw=raw)
            if number > head and not self._offer(block, part):
                break
            at += len(raw) + 2
        self._emit(block)
        self.open[said.key].remove(block)

    def _offer(self, block: _Open, said: Said) -> bool:
        """Gives a line to a traceback; False where it is not of it."""
        text, rule = strip_margin(said.text)
        if block.reprinted:
            text = text.removeprefix("  ")
        if rule:
            return self._rule(block, said)
        if block.state == "frames":
            return self._in_frames(block, said, text)
        if block.state == "message":
            return self._in_message(block, said, text)
        if block.state == "gap" and text.startswith(CHAINED):
            self._turn(block, said)
            block.state = "await"
            return True
        if block.state == "await" and text.strip():
            return self._unawaited(block, said, text)
        if block.state == "gap" and text.startswith("-- Process ") and block.kind.endswith("ProcessRaisedException"):
            block.state = "message"
            return self._in_message(block, said, text)
        if block.state == "gap" and text.strip():
            self._emit(block)
            self.open[said.key].remove(block)
        return False

    def _unawaited(self, block: _Open, said: Said, text: str) -> bool:
        """A line where a further traceback was announced: its last line where the frames were left out, else the chain ends."""
        if not block.headed(said) and not text[:1].isspace() and read_last(text, near=False) is not None:
            block.state, block.mixed = "frames", True
            return self._in_frames(block, said, text)
        block.foreign += 1
        if said.headed or block.foreign > 20:
            self._emit(block)
            self.open[said.key].remove(block)
        return False

    def _rule(self, block: _Open, said: Said) -> bool:
        """A rule between the members of an exception group ends one of them."""
        if block.state in {"message", "gap"}:
            self._emit(block)
            self.open[said.key].remove(block)
        block.lines.add(said.line.number)
        return True

    def _in_frames(self, block: _Open, said: Said, text: str) -> bool:
        frame = read_frame(text)
        if frame is not None:
            for other in self.open[said.key]:
                if other.state == "frames" and (other is block or other.mixed) and len(other.frames) < MOST_FRAMES:
                    other.frames.append(frame)
                    other.lines.add(said.line.number)
            block.near, block.foreign = True, 0
            return True
        headed = block.headed(said)
        if is_traceback_part(text) and not headed:
            block.lines.add(said.line.number)
            return not block.mixed
        last = (
            None
            if headed or (text[:1].isspace())
            else read_last(text, near=block.near and (block.alone or bool(block.frames)))
        )
        if last is None:
            block.near = block.alone
            block.foreign += 1
            if block.foreign > MOST_OWN_FOREIGN or (headed and block.alone):
                self._emit(block)
                self.open[said.key].remove(block)
            return False
        block.kind, message = last
        block.message, block.message_lines = [message], [said.line.number]
        skipped = len(said.text) - len(text)
        block.last = said._replace(offset=said.offset + skipped, column=said.column + skipped, raw=said.raw[skipped:])
        block.lines.add(said.line.number)
        block.state, block.waited = "message", self.fed
        return True

    def _in_message(self, block: _Open, said: Said, text: str) -> bool:
        stripped = text.strip()
        if text.startswith(CHAINED):
            self._turn(block, said)
            block.state = "await"
            return True
        if not stripped:
            if not block.alone:
                block.state = "gap"
            return True
        other = block.last is not None and block.alone and said.shape != block.last.shape
        if block.headed(said) or other or not self._continues(block, text):
            self._emit(block)
            self.open[said.key].remove(block)
            return False
        frame = read_frame(text)
        if frame is not None and (block.alone or "ray::" in "".join(block.message)):
            self._turn(block, said)
            block.state, block.frames = "frames", [frame]
            return True
        block.message.append(text.rstrip())
        block.message_lines.append(said.line.number)
        block.lines.add(said.line.number)
        return True

    def _continues(self, block: _Open, text: str) -> bool:
        """Whether a line can be more of the message of an exception."""
        lines = len(block.message)
        if lines > MOST_MESSAGE_LINES or sum(map(len, block.message)) > MOST_MESSAGE:
            return False
        if block.alone:
            return True
        others = any(b is not block and b.state == "frames" for b in self.open.get(block.first.key, ()))
        another = read_last(text, near=False)
        if another is not None and (others or another[0][0].isupper() or "." in another[0]):
            return False
        return lines <= 40 and _ENDS_MESSAGE.search(text) is None

    def _turn(self, block: _Open, said: Said) -> None:
        """Moves the exception that is complete into the chain of the next one."""
        block.lines.add(said.line.number)
        raised = self._raised(block)
        if raised is not None:
            block.chain.append(raised)
        worker, number = worker_of(block.message[0] if block.message else "")
        if worker:
            block.worker = number
        block.frames, block.kind, block.message, block.message_lines, block.last = [], "", [], [], None

    def _raised(self, block: _Open) -> Raised | None:
        last = block.last
        if last is None:
            return None
        caught = block.before is not None and was_caught(block.before.text, _level(block.before, block), block.frames)
        # What a warning announced was raised on as another exception, which came to the top of the program.
        caught = caught or (block.caught and not uncaught(block.frames))
        if not caught and block.first.headed:
            caught = was_caught("error", block.first.level, block.frames)
        block.caught = caught
        firm = ended_nothing(block.kind, block.frames) or (block.before is not None and swallowed(block.before.text))
        block.by_words = caught and not firm
        who = of_rank(block.first.text, last.who)
        who = who if block.worker is None else with_worker(who, block.worker)
        exception = PythonException(
            kind=block.kind,
            message="\n".join(block.message)[:MOST_MESSAGE],
            frames=tuple(block.frames),
            user_frame=user_frame(block.frames),
            chained_from=tuple(one_line(r.exception) for r in block.chain),
            in_worker=block.worker is not None,
            ignored=caught or ended_nothing(block.kind, block.frames),
            complete=not block.mixed,
            in_thread=block.before is not None and of_thread(block.before.text),
        )
        span = Span(self.source, last.offset, len(last.raw.rstrip()), last.line.number, last.column)
        return Raised(exception, span, who, frozenset(block.message_lines), last.stamp)

    def _emit(self, block: _Open) -> None:
        raised = self._raised(block)
        first = block.first
        if raised is None and block.chain:
            raised = as_cut(block.chain.pop())
        if raised is None:
            exception = PythonException(
                kind="", message="", frames=tuple(block.frames), user_frame=user_frame(block.frames), complete=False
            )
            span = Span(self.source, first.offset, len(first.raw.rstrip()), first.line.number, first.column)
            raised = Raised(exception, span, first.who, frozenset((first.line.number,)), first.stamp)
        self.done.append(
            Block(
                raised=raised,
                earlier=tuple(block.chain),
                first_line=first.line.number,
                first_offset=first.line.offset,
                lines=frozenset(block.lines),
                key=first.key,
                reprinted=block.reprinted,
                by_words=block.by_words,
                promised=block.by_words and block.before is not None and promised(block.before.text),
            ),
        )

    def _age(self) -> None:
        """Lets finished exceptions go whose speaker has long been silent."""
        for key, blocks in list(self.open.items()):
            for block in list(blocks):
                if block.state != "frames" and self.fed - block.waited > MOST_WAIT:
                    self._emit(block)
                    blocks.remove(block)
            if not blocks:
                del self.open[key]


def read_tracebacks(
    store: TextStore, source: SourceId, heads: Sequence[tuple[int, int]], profile: SourceProfile
) -> list[Block]:
    """Puts together every traceback that begins at one of the given lines.

    Args:
        store: of the sources.
        source: in which they stand.
        heads: number and byte offset of the lines that hold `Traceback (most recent call last)`, in any order.
        profile: of the source.

    Returns:
        Blocks by their first line; tracebacks that begin between the given ones and were read on the way are among them.
    """
    done: list[Block] = []
    behind = -1
    for number, offset in sorted(set(heads)):
        if number <= behind:
            continue
        reader = _Reader(profile, source)
        for line in lines_back(store, source, offset, number, 12, max_bytes=8192):
            reader.remember(line)
        wanted = {n for n, _ in heads if n >= number}
        for line in lines_from(store, source, offset, number, MOST_BYTES):
            if line.number not in wanted and not reader.busy:
                break
            reader.feed(line)
            behind = line.number
        reader.close()
        done += reader.done
    return sorted(done, key=lambda b: (b.first_line, b.raised.span))


def read_traceback_before(
    store: TextStore, source: SourceId, offset: int, number: int, *, key: bytes, profile: SourceProfile
) -> Block | None:
    """Finds the traceback of which the line at an offset is the last, by reading back from it; None where there is none near."""
    if HEAD not in store.read(source, max(0, offset - CHUNK), min(offset, CHUNK)):
        return None
    heads = [line for line in lines_back(store, source, offset, number, 400) if HEAD in line.text]
    for head in reversed(heads[-8:]):
        for block in _up_to(store, source, head, number, profile):
            if block.key == key and any(number in r.lines for r in (block.raised, *block.earlier)):
                return block
    return None


def _up_to(store: TextStore, source: SourceId, head: Line, number: int, profile: SourceProfile) -> Iterable[Block]:
    reader = _Reader(profile, source)
    for line in lines_back(store, source, head.offset, head.number, 12, max_bytes=8192):
        reader.remember(line)
    for line in lines_from(store, source, head.offset, head.number, MOST_BYTES):
        reader.feed(line)
        if line.number > number + 40 or not reader.busy:
            break
    reader.close()
    return reader.done


def read_text(text: str, source: SourceId) -> PythonException | None:
    """The exception of a whole traceback that is kept as text, as in an error.json; None where the text is none."""
    reader = _Reader(_PLAIN, source)
    for number, line in enumerate(text.split("\n")[:MOST_TEXT_LINES], start=1):
        reader.feed(Line(number, 0, line.encode("utf-8", "backslashreplace")))
    reader.close()
    return reader.done[-1].raised.exception if reader.done else None
