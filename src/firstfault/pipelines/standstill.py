"""Reads the ends of ranks' own files where a job stood still until it was stopped; bounded effort, draws no conclusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.standstill import Tail, behind, stood_still, stops
from firstfault.model.evidence import Event, Span, When
from firstfault.readers.identity import locate
from firstfault.readers.lines import lines_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank, SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.store import Store

REACH = 64 << 10
"""Bytes at the end of a file that are read."""
CHUNK = 1 << 20
MOST_LINES = 400
MOST_FILES = 512


def heed_standstill(
    scene: Scene,
    answer: Answer,
    store: Store,
    profiles: Mapping[SourceId, SourceProfile],
    clocks: Mapping[SourceId, SourceClock],
) -> Answer:
    """The answer about a job that was stopped, with who stood earlier than the others if it had stood still before."""
    still = stood_still(scene, answer)
    if still is None:
        return answer
    until = {e.span.source: e.span.offset for e in sorted(stops(scene), key=lambda e: -e.span.offset)}
    tails: dict[GlobalRank, Tail] = {}
    for source in sorted(s for s in scene.case.tracks if s in profiles and s in clocks)[:MOST_FILES]:
        found = _tail(scene, store, clocks[source], until.get(source, store.size(source)))
        if found is None or found[0] in tails:
            return answer  # a file of several ranks, or two of one: nobody's end is known
        tails[found[0]] = found[1]
    return behind(scene, answer, tails, still)


def _tail(scene: Scene, store: Store, clock: SourceClock, end: int) -> tuple[GlobalRank, Tail] | None:
    """The rank of a file and its last lines; None where they are of several ranks, or of none that is known."""
    source, profile = clock.source.id, clock.profile
    start = max(0, end - REACH)
    before = sum(store.read(source, at, min(CHUNK, start - at)).count(b"\n") for at in range(0, start, CHUNK))
    said: list[str] = []
    ranks: set[GlobalRank | None] = set()
    last: Event | None = None
    for i, line in enumerate(lines_from(store, source, start, before + 1, end - start)):
        text = line.text.rsplit(b"\r", 1)[-1]
        if (start and i == 0) or not text.strip():
            continue
        place = locate(text, len(text), profile)
        ranks.add(scene.roster.rank_of(place.who, source, {}))
        body = text[place.body :].decode("utf-8", "backslashreplace")
        said.append(body)
        begin = line.offset + len(line.text) - len(text)
        last = Event(
            signature="rank.last_words",
            span=Span(source, begin, len(text), line.number, begin - line.offset + 1),
            text=text.decode("utf-8", "backslashreplace")[:4096],
            who=place.who,
            when=clock.event_time(place.stamp, line.offset, line.number) if place.stamp is not None else When(),
        )
    known = ranks - {None}
    if last is None or len(known) != 1:
        return None
    rank = next(iter(known))
    return None if rank is None else (rank, Tail(said=tuple(said[-MOST_LINES:]), last=last))
