"""Reads the ends of the logs of an attempt of which nothing names a cause, for plain words of failure; bounded effort.

Reads by position and only for such answers, so it costs no ordinary run anything; draws no conclusion.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.plain_words import (
    PLAIN,
    Line,
    Told,
    against_count,
    counted_end,
    heed_plain,
    last_said,
    named_by_exit,
    read_line,
    told_by,
    wanted,
)
from firstfault.analysis.suspects import nature_of, went_on
from firstfault.model.evidence import When
from firstfault.model.words import Mark, Role, SourceKind
from firstfault.readers.identity import locate
from firstfault.readers.lines import last_part, lines_from, said_in_line
from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.case import Observations
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank, SourceId
    from firstfault.pipelines.ground import Ground
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.lines import TextStore

REACH = 64 << 10
"""Bytes at the end of a file that are read."""
CHUNK = 1 << 20
MOST_LINES = 60
MOST_FILES = 512
_OURS = layout.STACKS_OF.encode()
"""What the recorder writes above stacks, in a file of the rank that never said it."""
_KINDS = frozenset({SourceKind.LOG, SourceKind.UNKNOWN})


def heed_plain_words(
    scene: Scene,
    answer: Answer,
    seen: Observations,
    ground: Ground,
) -> Answer:
    """The answer, with what the ends of the logs say in plain words where nothing else says it.

    Args:
        scene: the attempt.
        answer: what was found out so far.
        seen: what was seen of all attempts: a file whose end is of another one is left out.
        ground: the sources.
    """
    store, profiles, clocks = ground
    counted = counted_end(scene, answer)
    if not (counted or wanted(scene, answer)):
        return answer
    ends: dict[SourceId, int] = {}
    for sample in seen.progress:
        ends[sample.source] = max(sample.offset, ends.get(sample.source, 0))
    kinds = scene.case.kind_of
    told: list[Told] = []
    sources = sorted(s for s in profiles if s in clocks and kinds.get(s) in _KINDS)
    for source in sources[:MOST_FILES]:
        track = scene.case.tracks.get(source)
        done = -1 if track is None else track.last.offset
        if ends.get(source, -1) > done:
            continue
        lines = _tail(scene, store, clocks[source], max(done, _end(scene, source)))
        told.append(told_by(lines, failed=answer.failed is True))
        if named_by_exit(answer):
            own = _tail(scene, store, clocks[source], max(done, _end(scene, source)), answer.first_failed.ranks[0])
            answer = last_said(answer, told_by(own, failed=True))
    if counted:
        return against_count(scene, answer, told)
    return answer if answer.culprits.anybody else heed_plain(scene, answer, told)


def _end(scene: Scene, source: SourceId) -> int:
    """Offset of the last line of a source that says that the run ended as planned; -1 where none does."""
    marks = scene.marked(Mark.END, Mark.PLANNED_STOP, Mark.STUDY_END)
    return max((e.span.offset for e in marks if e.span.source == source), default=-1)


def _tail(scene: Scene, store: TextStore, clock: SourceClock, after: int, rank: GlobalRank | None = None) -> list[Line]:
    """The last lines of a source that stand behind an offset and that no signature holds harmless.

    Where a rank is given, only those with its label.
    """
    source, profile = clock.source.id, clock.profile
    size = store.size(source)
    start = max(0, after, size - REACH)
    number = _number(scene, store, source, start)
    settled = _settled(scene, source)
    known = {e.span.line for e in scene.effects if e.span.source == source}
    found: deque[Line] = deque(maxlen=MOST_LINES)
    for i, line in enumerate(lines_from(store, source, start, number, size - start)):
        text = last_part(line)
        if (start and i == 0) or not text.strip() or line.number in settled or text.startswith(_OURS):
            continue
        place = locate(text, len(text), profile)
        if rank is not None and place.who.rank != rank:
            continue
        when = clock.event_time(place.stamp, line.offset, line.number) if place.stamp is not None else When()
        event = said_in_line(PLAIN, source, line, place.who, when)
        if went_on(scene.case, event):
            continue
        read = read_line(event, text[place.body :].decode("utf-8", "backslashreplace")[:4096])
        # Of a line that a signature knows it is known what it tells; its other words add no reason.
        found.append(replace(read, family=None) if line.number in known else read)
    return list(found)


def _number(scene: Scene, store: TextStore, source: SourceId, start: int) -> int:
    """Number of the line in which an offset lies, counted from the nearest line before it that is known."""
    track = scene.case.tracks.get(source)
    known = [(p.offset, p.line) for p in (() if track is None else track.samples)]
    known += [(e.span.offset, e.span.line) for e in scene.events if e.span.source == source]
    at, number = max((k for k in known if k[0] <= start), default=(0, 1))
    return number + sum(store.read(source, a, min(CHUNK, start - a)).count(b"\n") for a in range(at, start, CHUNK))


def _settled(scene: Scene, source: SourceId) -> set[int]:
    """Numbers of the lines of which a signature knows that they ended nothing."""
    lines = {e.span.line for s in scene.acquitted for e in s.events if e.span.source == source}
    for event in scene.events:
        if event.span.source == source and nature_of(scene.case, event).role in {Role.NOISE, Role.CONTEXT}:
            lines.add(event.span.line)
    return lines
