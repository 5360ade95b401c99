"""Finds the last line that some ranks said before a wait, in their own files or in a common one; bounded effort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import comparable
from firstfault.model.evidence import Event, Span, When
from firstfault.model.words import Mark
from firstfault.readers.identity import locate
from firstfault.readers.lines import lines_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank, SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

REACH = 1 << 20
"""Bytes before the wait (or the end) in which a rank's last line is looked for."""
MOST_SOURCES = 64
"""Sources in which a rank is looked for, those of its machine first."""
_SHUTTING_DOWN = (
    b"ProcessGroupNCCL",
    b"Traceback (most recent",
    b"SIGTERM",
    b"destroy_process_group",
    b"frame #",
    b"distributed service detected fatal errors",
    b"Barrier timed out",
)


def last_words(
    scene: Scene,
    ranks: Iterable[GlobalRank],
    store: TextStore,
    profiles: Mapping[SourceId, SourceProfile],
    clocks: Mapping[SourceId, SourceClock],
) -> dict[GlobalRank, Event]:
    """The last line of each rank before anybody timed out; ranks that said nothing are left out."""
    found: dict[GlobalRank, Event] = {}
    first_wait: dict[SourceId, int] = {}
    for wait in scene.marked(Mark.HANG):
        span = wait.span
        first_wait[span.source] = min(span.offset, first_wait.get(span.source, span.offset))
    for rank in ranks:
        own = {s for s, profile in profiles.items() if scene.roster.rank_of(profile.who, s, {}) == rank}
        home = scene.roster.host_of_rank(rank)
        there = set() if home is None else {s for s in profiles if scene.roster.source_host(s) == home}
        # A rank's own file knows best; a common one may hold no more of it than a warning. Of very many the rest is left.
        for source in sorted(profiles, key=lambda s: (s not in own, s not in there, s))[:MOST_SOURCES]:
            end = first_wait.get(source, store.size(source))
            event = _last_of(scene, rank, store, clocks[source], end, own=source in own)
            if event is not None:
                found[rank] = event
                break
    return found


def _last_of(
    scene: Scene,
    rank: GlobalRank,
    store: TextStore,
    clock: SourceClock,
    end: int,
    *,
    own: bool,
) -> Event | None:
    source, profile = clock.source.id, clock.profile
    last: Event | None = None
    for number, offset, raw in _lines(store, source, max(0, end - REACH), end):
        segment = raw.rsplit(b"\r", 1)[-1]
        if not segment.strip() or any(word in raw for word in _SHUTTING_DOWN):
            continue
        place = locate(segment, len(segment), profile)
        unsigned = own and place.who.rank is None and place.who.local_rank is None
        if not unsigned and scene.roster.rank_of(place.who, source, {}) != rank:
            continue
        when = clock.event_time(place.stamp, offset, number) if place.stamp is not None else When()
        if _too_late(scene, when):
            break
        begin = offset + len(raw) - len(segment)
        last = Event(
            signature="rank.last_words",
            span=Span(source, begin, len(segment), number, begin - offset + 1),
            text=segment.decode("utf-8", "backslashreplace"),
            who=place.who,
            when=when,
        )
    return last


def _too_late(scene: Scene, when: When) -> bool:
    """Whether a line was said only after somebody had timed out."""
    hang = scene.hang
    if hang is None or hang.detected is None or when.earliest is None:
        return False
    return comparable(when, hang.first.when) and when.earliest > hang.detected


def _lines(store: TextStore, source: SourceId, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Lines between two offsets: number, offset, bytes; the first, which may be cut, is left out."""
    before = sum(store.read(source, at, min(REACH, start - at)).count(b"\n") for at in range(0, start, REACH))
    for i, line in enumerate(lines_from(store, source, start, before + 1, end - start)):
        if start and i == 0:
            continue
        yield line.number, line.offset, line.text
