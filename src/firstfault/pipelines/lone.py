"""Finds what ranks did that are not in the collective in which others wait: their last words, or a bar that ran on; bounded effort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.last_words import MISSED
from firstfault.analysis.lone import (
    Bar,
    alone_at_exit,
    asked,
    asks,
    at_work,
    busy,
    hung_at_exit,
    left,
    lone_worker,
    may_have_left,
    named_worker,
    share_of,
    starved,
    undecided_hang,
    without_data,
)
from firstfault.model.evidence import Event, SourceId, Span, When
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Mark, Phase
from firstfault.pipelines.last_words import last_words
from firstfault.readers.lines import lines_from, number_at
from firstfault.readers.progress import Anchor, find_progress
from firstfault.readers.steplines import EVALUATION, PREPARATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank
    from firstfault.pipelines.ground import Ground
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

REACH = 256 << 10
"""Bytes before the first line about the wait in which a bar is looked for."""
ABOVE = 40
"""Lines above the one that tells of a wait among which the question is looked for: a traceback may stand between."""
MOST_SOURCES = 64
LINES = 40
"""Lines before the first line about the wait in which a bar without a time of its own is taken for work that went on."""
_PART = lazy(rb"[\r\n]")
_ELAPSED = lazy(rb"(?:\|| )\s{0,12}[\d,.kM]+/[\d,.kM]+ \[(?:(\d{1,4}):)?(\d{1,2}):(\d\d)<[^\]\n]{0,40}\]")
_TRAINS = lazy(r"(?i)train|epoch|step|iter|loss|^\s*\d+/\d+|^bar$")
"""Words of a bar of training; the time that it shows began long before any wait."""
_PHASES = {EVALUATION: Phase.EVALUATION, PREPARATION: Phase.DATA}


def heed_lone(
    scene: Scene,
    answer: Answer,
    ground: Ground,
) -> Answer:
    """The answer about a hang of which nobody knows the reason, with what the ranks outside were doing."""
    store, profiles, _ = ground
    report = named_worker(scene, answer)
    if report is not None and report.named_event is not None:
        unfinished = _unfinished(store, scene, report.named[0], profiles)
        if unfinished is not None:
            return at_work(report, answer, unfinished)
    if answer.question in {"hang", MISSED} and answer.category is Category.UNKNOWN and len(answer.culprits.ranks) == 1:
        (rank,) = answer.culprits.ranks
        if (line := _question(scene, store)) is not None:
            return asked(answer, rank, line)
        if (line := _no_share(scene, store, profiles, rank)) is not None:
            return without_data(answer, rank, line)
    behind = hung_at_exit(scene, answer)
    if behind is not None and (ranks := may_have_left(behind)):
        return alone_at_exit(behind, answer, last_words(scene, ranks, ground))
    seen = undecided_hang(scene, answer)
    if seen is None or scene.hang is None:
        return answer
    ranks = may_have_left(seen)
    if ranks and not answer.culprits.anybody:
        answer = left(seen, answer, last_words(scene, ranks, ground))
    if answer.culprits.ranks in {(), lone_worker(seen)} and lone_worker(seen):
        bar = _bar(store, scene.hang.first, profiles)
        answer = answer if bar is None else busy(seen, answer, bar)
    return answer


def _question(scene: Scene, store: TextStore) -> Event | None:
    """The last line before a wait was told in its file, where a program waits behind it for somebody to type."""
    wait = None if scene.hang is None else scene.hang.first
    if wait is None:
        return None
    start = max(0, wait.span.offset - REACH)
    end = wait.span.offset - (wait.span.column - 1)
    # A traceback, or the store's complaint, may begin some lines above the one that tells of the wait.
    for event, raw in reversed(list(_lines(store, wait.span.source, start, end))[-ABOVE:]):
        if not raw.lstrip().startswith(b"[rank"):
            return event if asks(event.text) else None
    return None


def _no_share(
    scene: Scene, store: TextStore, profiles: Mapping[SourceId, SourceProfile], rank: GlobalRank
) -> Event | None:
    """The line that says that a rank has no data, where lines of its kind give some to all others they speak of."""
    shares: dict[int, bool] = {}
    found: Event | None = None
    waits: dict[SourceId, int] = {}
    for waiting in scene.marked(Mark.HANG, Mark.STATE, Mark.ABORT):
        waits.setdefault(waiting.span.source, waiting.span.offset)  # they come by position: the first is the earliest
    for source in sorted(profiles)[:MOST_SOURCES]:
        end = waits[source] if source in waits else store.size(source)
        for event, _ in _lines(store, source, max(0, end - REACH), end):
            told = share_of(event.text)
            if told is None:
                continue
            shares[told[0]] = told[1] and shares.get(told[0], True)
            if told == (int(rank), True):
                found = event
    return found if starved(shares, rank) else None


def _lines(store: TextStore, source: SourceId, start: int, end: int) -> Iterator[tuple[Event, bytes]]:
    """Lines with something in them between two offsets, of which the first may be cut, with their bytes."""
    for line in lines_from(store, source, start, number_at(store, source, start), end - start):
        if line.text.strip():
            yield (
                Event(
                    signature="work.line",
                    span=Span(source, line.offset, len(line.text), line.number, 1),
                    text=line.text.decode("utf-8", "backslashreplace")[:4096],
                    when=When(),
                ),
                line.text,
            )


def _beside_training(label: str, before: bytes) -> bool:
    """Whether a bar of an unknown kind is another than that of training, which stands before it."""
    if _TRAINS.search(label) is not None:
        return False
    return any(_TRAINS.search(s.what) is not None for s in find_progress(before, SourceId(0)))


def _unfinished(
    store: TextStore, scene: Scene, rank: GlobalRank, profiles: Mapping[SourceId, SourceProfile]
) -> Bar | None:
    """The bar of preparation that was drawn last before a wait was told in the same file, if it was not at its end.

    It is nobody's by name, or that of the rank; of a job that is known to have several machines a file may be another's.
    """
    wait = None if scene.hang is None else scene.hang.first
    if wait is None or wait.span.source not in profiles:
        return None
    start = max(0, wait.span.offset - REACH)
    data = store.read(wait.span.source, start, wait.span.offset - start)
    base = Anchor(start, wait.span.line - data.count(b"\n"))
    signs = find_progress(data, wait.span.source, base=base, profile=profiles[wait.span.source])
    if not signs:
        return None
    last, at = signs[-1], signs[-1].sample
    machines = scene.roster.machines
    ours = at.rank == rank or (
        at.rank is None
        and (len(machines) <= 1 or scene.roster.source_host(wait.span.source) == scene.roster.host_of_rank(rank))
    )
    if last.kind != PREPARATION or at.step == at.total or not ours or wait.span.line - at.line > LINES:
        return None
    begin = at.offset - start
    part = _PART.split(data[begin:], maxsplit=1)[0]
    return Bar(
        event=Event(
            signature="work.bar",
            span=Span(at.source, at.offset, len(part), at.line, begin - (data.rfind(b"\n", 0, begin) + 1) + 1),
            text=part.decode("utf-8", "backslashreplace")[:4096],
            when=When(),
        ),
        seconds=0.0,
        phase=Phase.DATA,
        what=last.what,
    )


def _bar(store: TextStore, wait: Event, profiles: Mapping[SourceId, SourceProfile]) -> Bar | None:
    """The last bar of work before a wait was told, in the file in which it was."""
    source = wait.span.source
    if source not in profiles:
        return None
    end = wait.span.offset
    start = max(0, end - REACH)
    data = store.read(source, start, end - start)
    lines = wait.span.line - data.count(b"\n")
    signs = find_progress(data, source, base=Anchor(start, lines))
    for sign in reversed(signs):
        at = sign.sample.offset - start
        begin = max(data.rfind(b"\n", 0, at) + 1, 0)
        stop = data.find(b"\n", at)
        line = data[begin : len(data) if stop < 0 else stop]
        took = list(_ELAPSED.finditer(line))
        if not took:
            continue
        if sign.kind not in _PHASES and not _beside_training(sign.what, data[:begin]):
            return None
        last = took[-1]
        seconds = 3600 * int(last[1] or 0) + 60 * int(last[2]) + int(last[3])
        first = line.split(b"\r", 1)[0]
        return Bar(
            event=Event(
                signature="work.bar",
                span=Span(source, start + begin, max(1, len(first)), sign.sample.line, 1),
                text=first.decode("utf-8", "backslashreplace")[:4096],
                when=When(),
            ),
            seconds=float(seconds),
            phase=_PHASES.get(sign.kind, Phase.UNKNOWN),
            what=sign.what,
        )
    return None
