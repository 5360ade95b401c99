"""Reads the ends of files where a job stood still or was silent until it was stopped; bounded effort, draws no conclusion."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from firstfault.analysis.order import comparable, exact
from firstfault.analysis.quiet import Spoken, after_quiet, limited, silence, stand_together
from firstfault.analysis.standstill import Tail, behind, stood_still, stops
from firstfault.model.evidence import Event, When
from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind
from firstfault.readers.identity import locate
from firstfault.readers.lines import Line, last_part, lines_from, number_at, said_in_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank, SourceId
    from firstfault.pipelines.ground import Ground
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.lines import TextStore

REACH = 64 << 10
"""Bytes at the end of a file that are read."""
MOST_LINES = 400
MOST_FILES = 512
_DIGITS = lazy(r"\d+")
_SPEAKER = lazy(rb"(?:slurmstepd|slurmd|srun)(?:\[[^\]\n]{1,80}\])?: (?:error: )?|=>> ?")
"""What stands before the word of a scheduler in its own line."""


def heed_stop(
    scene: Scene,
    answer: Answer,
    ground: Ground,
) -> Answer:
    """The answer about a job that was ended from outside, with what its lines show of the time before."""
    heed = heed_standstill if answer.question == "stopped" else heed_quiet
    return heed(scene, answer, ground)


def heed_standstill(
    scene: Scene,
    answer: Answer,
    ground: Ground,
) -> Answer:
    """The answer about a job that was stopped, with who stood earlier than the others if it had stood still before."""
    store, profiles, clocks = ground
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


def heed_quiet(
    scene: Scene,
    answer: Answer,
    ground: Ground,
) -> Answer:
    """The answer about a job that its time limit ended, held against when it had printed its last line before."""
    store, profiles, clocks = ground
    stop = limited(scene, answer)
    if stop is None or stop.when.earliest is None:
        return answer
    until = {e.span.source: e.span.offset for e in sorted(stops(scene), key=lambda e: -e.span.offset)}
    logs = [s.id for s in scene.case.seen.sources if s.kind is SourceKind.LOG and s.id in profiles and s.id in clocks]
    if not logs or len(logs) > MOST_FILES:
        return answer
    times: list[list[float]] = []
    words: list[list[str]] = []
    whole = True
    for source in logs:
        end = until.get(source, store.size(source))
        whole = whole and end <= REACH
        words.append([])
        told = _times(stop, store, clocks[source], end, words[-1])
        if told is None:
            return answer  # its last line tells no time: it may be of just before the stop
        times.append(told)
    every = [t for told in times for t in told]
    pauses = [b - a for told in times for a, b in pairwise(told) if b > a]
    last = max(told[-1] for told in times)
    spoken = Spoken(
        first=min(every),
        last=last,
        longest=max(pauses, default=0.0),
        lines=len(every),
        whole=whole,
        together=stand_together(words),
    )
    still = silence(spoken, stop.when.earliest)
    return answer if still is None else after_quiet(answer, spoken, still)


def _times(stop: Event, store: TextStore, clock: SourceClock, end: int, words: list[str]) -> list[float] | None:
    """When the last lines of a file were printed, in their order; None where the very last one tells no time on the clock of the stop.

    Their words without numbers go into `words`.
    """
    times: list[float] = []
    stamped = False
    for line, fresh in _lines(store, clock.source.id, end):
        text = last_part(line)
        stamp = locate(text, len(text), clock.profile).stamp
        if line.offset + len(line.text) >= end and (stamp is not None or _SPEAKER.fullmatch(text)):
            continue  # the beginning of the line of the stop itself
        when = When() if stamp is None else clock.at(stamp, line.offset, line.number)
        stamped = exact(when) and comparable(when, stop.when)
        words.append(_DIGITS.sub("#", text.decode("utf-8", "backslashreplace")[:400]))
        if stamped and fresh and when.earliest is not None:
            times.append(when.earliest)
    return times if stamped and times else None


def _lines(store: TextStore, source: SourceId, end: int) -> Iterator[tuple[Line, bool]]:
    """The last lines of a file that are not blank, up to an offset, each with whether it is whole."""
    start = max(0, end - REACH)
    for i, line in enumerate(lines_from(store, source, start, number_at(store, source, start), end - start)):
        if line.text.strip():
            yield line, not (start and i == 0)


def _tail(scene: Scene, store: TextStore, clock: SourceClock, end: int) -> tuple[GlobalRank, Tail] | None:
    """The rank of a file and its last lines; None where they are of several ranks, or of none that is known."""
    source, profile = clock.source.id, clock.profile
    said: list[str] = []
    ranks: set[GlobalRank | None] = set()
    last: Event | None = None
    for line, fresh in _lines(store, source, end):
        text = last_part(line)
        if not fresh or not text.strip():
            continue
        place = locate(text, len(text), profile)
        ranks.add(scene.roster.rank_of(place.who, source, {}))
        body = text[place.body :].decode("utf-8", "backslashreplace")
        said.append(body)
        when = clock.event_time(place.stamp, line.offset, line.number) if place.stamp is not None else When()
        last = said_in_line("rank.last_words", source, line, place.who, when)
    known = ranks - {None}
    if last is None or len(known) != 1:
        return None
    rank = next(iter(known))
    return None if rank is None else (rank, Tail(said=tuple(said[-MOST_LINES:]), last=last))
