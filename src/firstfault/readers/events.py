"""Confirmed matches to events: who, when, and each traceback as one event. Observes; it does not judge or order across sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from firstfault.model.evidence import EARLIER, Event, PythonException, Span, When, Who
from firstfault.model.words import Mark, Role
from firstfault.readers.aftermath import ended, lived_on, spoke_on, survived
from firstfault.readers.announced import of_another
from firstfault.readers.clock import past_midnight
from firstfault.readers.cpp_trace import WHAT, exception_at
from firstfault.readers.frames import HEAD, read_last
from firstfault.readers.identity import locate
from firstfault.readers.job_card import job_end
from firstfault.readers.pod_card import ending
from firstfault.readers.pytest_frames import SIGN, exception_in
from firstfault.readers.raised import of_remote, unproven
from firstfault.readers.traceback import REMOTE, read_traceback_before, read_tracebacks
from firstfault.readers.who import join_fields, join_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.evidence import SourceId
    from firstfault.model.patterns import Hit, SignatureFile
    from firstfault.model.place import Located, Stamp
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore
    from firstfault.readers.raised import Block, Raised

START = "python.traceback_start"
LINE = "python.exception_line"
EXCEPTION = "python.exception"
MOST_TEXT = 4096
MOST_LOOK_BACK = 64
"""Bare last lines of tracebacks for which the frames are looked for backwards."""
MOST_UNLABELLED = 6
"""Lines of a message that are believed to belong to it where no prefix says so."""
NEW_RUN = 3600.0
"""Seconds from a container's end to its next start from which on the two are runs of their own; kubelet waits minutes at most."""
_BLAMES = frozenset((Role.CAUSE, Role.EFFECT, Role.TEARDOWN))
_ROLES = {Role.CAUSE: 4, Role.EFFECT: 3, Role.TEARDOWN: 2, Role.NOISE: 1, Role.CONTEXT: 0}


def build_events(
    hits: Sequence[Hit],
    store: TextStore,
    source: SourceId,
    profile: SourceProfile,
    signatures: Mapping[str, SignatureFile],
    *,
    clock: SourceClock | None = None,
) -> list[Event]:
    """Events of one source, by offset.

    Args:
        hits: kept hits of that source, in any order.
        store: of all sources.
        source: which one.
        profile: of the source.
        signatures: bodies by id.
        clock: of the source; without it no event has a time.

    Returns:
        One event a hit; a traceback is one event, on its last line, and what only repeats it is absorbed. A further
        signature that matched its last line or message stays an event of its own and carries the same exception.
    """
    builder = _Builder(store, source, profile, signatures, clock)
    return builder.build(sorted(hits, key=lambda h: (h.raw_offset + h.match_start, h.signature)))


class _Builder:
    def __init__(
        self,
        store: TextStore,
        source: SourceId,
        profile: SourceProfile,
        signatures: Mapping[str, SignatureFile],
        clock: SourceClock | None,
    ) -> None:
        self.store = store
        self.source = source
        self.profile = profile
        self.signatures = signatures
        self.clock = clock
        self.located: dict[int, Located] = {}

    def build(self, hits: Sequence[Hit]) -> list[Event]:
        blocks = self._blocks(hits)
        inside: dict[int, list[Block]] = {}
        for block in blocks:
            for number in block.lines:
                inside.setdefault(number, []).append(block)
        used: set[int] = set()
        events = []
        by_line: dict[int, list[Hit]] = {}
        for hit in hits:
            by_line.setdefault(hit.line, []).append(hit)
        for block in blocks:
            events += self._block_events(block, by_line, used)
        for hit in hits:
            if id(hit) not in used and not self._absorbed(hit, inside.get(hit.line, ())):
                events.append(self._event(hit, inside.get(hit.line, ())))
        events.sort(key=lambda e: (e.span, e.signature))
        if self.clock is None:
            return events
        times = past_midnight([e.when for e in events])
        return [e if w is e.when else structs.replace(e, when=w) for e, w in zip(events, times, strict=True)]

    def _place(self, hit: Hit) -> Located:
        found = hit.place
        if found is None:
            found = self.located.get(id(hit))
        if found is None:
            found = self.located[id(hit)] = locate(hit.raw, hit.match_start, self.profile)
        return found

    def _line_start(self, hit: Hit) -> int:
        return hit.raw_offset + hit.match_start - (hit.column - 1)

    def _blocks(self, hits: Sequence[Hit]) -> list[Block]:
        heads = [
            (h.line, self._line_start(h))
            for h in hits
            if h.signature == START or HEAD in h.raw or REMOTE.encode() in h.raw
        ]
        blocks = read_tracebacks(self.store, self.source, heads, self.profile)
        known = {n for b in blocks for n in b.lines}
        looked = 0
        for hit in hits:
            if hit.line in known or looked >= MOST_LOOK_BACK or not self._is_last(hit):
                continue
            looked += 1
            key = self._place(hit).key
            block = read_traceback_before(
                self.store, self.source, self._line_start(hit), hit.line, key=key, profile=self.profile
            )
            if block is not None:
                blocks.append(block)
                known |= block.lines
        return sorted(map(self._heeded, blocks), key=lambda b: (b.raised.span, b.first_line))

    def _heeded(self, block: Block) -> Block:
        """A block with what stands behind it: that its speaker goes on, or that these were its last words.

        Words before it that somebody caught it count only where they are about it, and its speaker goes on.
        """
        block = of_remote(block)
        if block.by_words and of_another(self.store, self.source, block, self.profile):
            block = unproven(structs.replace(block, by_words=False, promised=False))
        if block.promised:
            # Even an exit behind it shows that its program lived on.
            silent = ended(self.store, self.source, block, self.profile)[1]
            return unproven(block) if silent else block
        if block.by_words and not spoke_on(self.store, self.source, block, self.profile):
            block = unproven(block)
        exception = block.raised.exception
        if exception.ignored or block.reprinted:
            return block
        if not survived(self.store, self.source, block, self.profile):
            hooked, last = ended(self.store, self.source, block, self.profile)
            lived = not hooked and not last and lived_on(self.store, self.source, block, self.profile)
            if not hooked and not last and not lived:
                return block
            said = structs.replace(exception, hooked=hooked, last_word=last, lived_on=lived)
            return structs.replace(block, raised=structs.replace(block.raised, exception=said))
        raised = structs.replace(block.raised, exception=structs.replace(exception, ignored=True))
        earlier = tuple(structs.replace(r, exception=structs.replace(r.exception, ignored=True)) for r in block.earlier)
        return structs.replace(block, raised=raised, earlier=earlier)

    def _is_last(self, hit: Hit) -> bool:
        """Whether a hit stands in a line that can be the last of a traceback."""
        if hit.signature == LINE:
            return True
        body = hit.raw[self._place(hit).body :][:400].decode("utf-8", "replace")
        return read_last(body, near=False) is not None

    def _absorbed(self, hit: Hit, blocks: Iterable[Block]) -> bool:
        """Whether a hit says nothing beyond the traceback in which it stands."""
        for block in blocks:
            if self._place(hit).key != block.key:
                continue
            if hit.signature in {START, LINE}:
                return True
            spoken = block.raised.lines.union(*(r.lines for r in block.earlier))
            spec = self.signatures.get(hit.signature)
            if hit.line not in spoken and spec is not None and spec.role in _BLAMES:
                return True
            if block.reprinted:
                return True
        return False

    def _block_events(self, block: Block, by_line: Mapping[int, list[Hit]], used: set[int]) -> list[Event]:
        events = []
        for raised in (*block.earlier, block.raised):
            hit = self._best(raised, block, by_line)
            if hit is not None:
                used.add(id(hit))
            if hit is None and raised is not block.raised:
                continue
            events.append(self._raised_event(raised, block, hit, by_line))
        return events

    def _best(self, raised: Raised, block: Block, by_line: Mapping[int, list[Hit]]) -> Hit | None:
        """The signature that knows an exception best: one of its last line before one of its message."""
        found: list[tuple[tuple[bool, int, int, str], Hit]] = []
        own = sorted(raised.lines)
        if not any(part[:1] in {b"r", b"l", b"p"} for part in block.key.split(b",")):
            own = [n for i, n in enumerate(own) if n == raised.span.line + i and i <= MOST_UNLABELLED]
        for number in own:
            for hit in by_line.get(number, ()):
                spec = self.signatures.get(hit.signature)
                if spec is None or spec.generic or hit.signature == START or self._place(hit).key != block.key:
                    continue
                last = number == raised.span.line
                if not last and spec.role not in _BLAMES:
                    continue
                found.append(((last, _ROLES[spec.role], spec.depth, hit.signature), hit))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def _raised_event(self, raised: Raised, block: Block, hit: Hit | None, by_line: Mapping[int, list[Hit]]) -> Event:
        exception = raised.exception
        span = raised.span
        raw = self.store.read(self.source, span.offset, min(span.length, 4 * MOST_TEXT))
        text = _text(raw, 0)
        if hit is not None and hit.line != span.line:
            # A line of the message says what it was (`Last error:` and what follows it): that line is the evidence.
            start = hit.raw_offset + hit.match_start
            span = Span(self.source, start, max(hit.match_end - hit.match_start, 1), hit.line, hit.column)
            text = _text(hit.raw, hit.match_start)
        line = next((h for h in by_line.get(raised.span.line, ()) if h.signature == LINE), None)
        kept = hit if hit is not None else line
        signature = hit.signature if hit is not None else (EXCEPTION if exception.kind else START)
        fields = {} if hit is None else dict(hit.fields)
        if block.reprinted:
            fields["reprinted"] = "banner"
        who = join_fields(raised.who, fields, about=False)
        if hit is not None and hit.line == raised.span.line:
            who = self._complete(who, hit)
        return Event(
            signature=signature,
            span=span,
            text=text,
            who=who,
            when=self._when(raised.stamp, raised.span),
            attempt=self._attempt(),
            count=1 if kept is None else kept.count,
            ordinal=0 if kept is None else kept.ordinal,
            fields=fields,
            exception=exception,
        )

    def _event(self, hit: Hit, blocks: Iterable[Block]) -> Event:
        place = self._place(hit)
        spec = self.signatures.get(hit.signature)
        named = {"rank", "pid"} <= hit.fields.keys() and spec is not None and Mark.IDENTITY in spec.marks
        about = named or (spec is not None and Mark.DEATH in spec.marks)
        who = join_fields(self._complete(place.who, hit), hit.fields, about=about)
        start = hit.raw_offset + hit.match_start
        span = Span(self.source, start, max(hit.match_end - hit.match_start, 1), hit.line, hit.column)
        stamp, fields = place.stamp, hit.fields
        if hit.signature.startswith("kubernetes.") and stamp is None:
            block = ending(self.store, self.source, self._line_start(hit), hit.raw)
            if block is not None:
                stamp = block.finished
                if block.last and (block.restarted_after or 0.0) > NEW_RUN:
                    fields = {**fields, EARLIER: "last state"}
        elif hit.signature.startswith("slurm.job_state") and stamp is None:
            stamp = job_end(self.store, self.source, self._line_start(hit), hit.raw)
        spoken = None if hit.signature == WHAT else self._spoken(hit, blocks)
        if spoken is not None and spoken.who.rank is not None and who.rank not in {None, spoken.who.rank}:
            who = spoken.who  # the traceback is that of another rank, by its head
        exception = self._thrown(hit) if spoken is None else None
        return Event(
            signature=hit.signature,
            span=span,
            text=_text(hit.raw, hit.match_start),
            who=who,
            when=self._when(stamp, span),
            attempt=self._attempt(),
            count=hit.count,
            ordinal=hit.ordinal,
            fields=fields,
            exception=exception if spoken is None else spoken.exception,
        )

    def _thrown(self, hit: Hit) -> PythonException | None:
        """The exception that a line tells without a traceback of the interpreter: the runtime of C++, or pytest."""
        if hit.signature == WHAT:
            return exception_at(self.store, self.source, self._line_start(hit), hit.line, self.profile)
        return exception_in(self.store, self.source, self._line_start(hit), hit.line) if SIGN in hit.raw else None

    def _spoken(self, hit: Hit, blocks: Iterable[Block]) -> Raised | None:
        """The exception whose last line or message a further signature matched too: it shares what is known of it."""
        for block in blocks:
            for raised in (block.raised, *block.earlier):
                if hit.line in raised.lines and raised.exception.kind and self._place(hit).key == block.key:
                    return raised
        return None

    def _complete(self, who: Who, hit: Hit) -> Who:
        """Adds the label at the start of the physical line, where the hit's text begins behind it."""
        start = self._line_start(hit)
        gap = hit.raw_offset - start
        if gap <= 0:
            return who
        head = self.store.read(self.source, start, min(gap, 300)).split(b"\r", 1)[0]
        return join_line(who, locate(head, 0, self.profile).who) if head else who

    def _attempt(self) -> int:
        return 1 if self.profile.attempt is None else self.profile.attempt + 1

    def _when(self, stamp: Stamp | None, span: Span) -> When:
        if self.clock is None:
            return When()
        return self.clock.event_time(stamp, span.offset - (span.column - 1), span.line)


def _text(raw: bytes, at: int) -> str:
    text = raw.decode("utf-8", "backslashreplace")
    if len(text) > MOST_TEXT:
        begin = max(0, min(at - MOST_TEXT // 2, len(text) - MOST_TEXT))
        text = text[begin : begin + MOST_TEXT]
    return text.rstrip("\r\n")
