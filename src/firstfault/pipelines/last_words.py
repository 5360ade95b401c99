"""Finds the last line that some ranks said before a wait, in their own files or in a common one; bounded effort."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from firstfault.analysis.order import comparable, exact
from firstfault.analysis.state.files import lone_speakers
from firstfault.model.evidence import Event, When
from firstfault.model.words import Mark
from firstfault.readers.identity import locate
from firstfault.readers.lines import last_part, lines_from, number_at, said_in_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank, SourceId
    from firstfault.pipelines.ground import Ground
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.lines import Line, TextStore

REACH = 1 << 20
"""Bytes before the wait (or the end) in which a rank's last line is looked for."""
RECENT = 16
"""Last lines of a rank that are kept: of these one may tell what the last does not."""
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
    ground: Ground,
) -> dict[GlobalRank, Event]:
    """The last line of each rank before anybody timed out; ranks that said nothing are left out."""
    return {rank: lines[-1] for rank, lines in recent_words(scene, ranks, ground).items()}


def recent_words(
    scene: Scene,
    ranks: Iterable[GlobalRank],
    ground: Ground,
    named: Mapping[SourceId, GlobalRank] | None = None,
) -> dict[GlobalRank, tuple[Event, ...]]:
    """The last lines of each rank before anybody timed out, oldest first; ranks that said nothing are left out.

    Files in `named` are those of ranks by their names alone.
    """
    store, profiles, clocks = ground
    found: dict[GlobalRank, tuple[Event, ...]] = {}
    first_wait: dict[SourceId, int] = {}
    # What a rank says of peers that are gone comes after its own work too.
    for wait in scene.marked(Mark.HANG, Mark.STATE, Mark.ABORT, Mark.PEER_LOST):
        if id(wait) in scene.got_over:
            continue
        span = wait.span
        first_wait[span.source] = min(span.offset, first_wait.get(span.source, span.offset))
    alone = lone_speakers(scene.roster.ranks_in, scene.roster.whole)
    owners = {s: scene.roster.rank_of(profile.who, s, {}) for s, profile in profiles.items()}
    owners = {s: alone.get(s) if owner is None else owner for s, owner in owners.items()} | dict(named or {})
    wanted = tuple(ranks)
    said: dict[SourceId, dict[GlobalRank, deque[Event]]] = {}
    for rank in wanted:
        home = scene.roster.host_of_rank(rank)
        there = set() if home is None else {s for s in profiles if scene.roster.source_host(s) == home}
        # A rank's own file knows best; a common one may hold no more of it than a warning. Of very many the rest is left.
        for source in sorted(profiles, key=lambda s: (owners[s] != rank, s not in there, s))[:MOST_SOURCES]:
            if rank in found and owners[source] != rank:
                break  # of its own files, as for stdout and stderr, the one that goes on longest tells
            if source not in said:
                end = first_wait.get(source, store.size(source))
                said[source] = _last_of(scene, frozenset(wanted), store, clocks[source], end, owners[source])
            lines = said[source].get(rank)
            if lines and (rank not in found or _newer(lines[-1], found[rank][-1])):
                found[rank] = tuple(lines)
    return found


def _newer(a: Event, b: Event) -> bool:
    """Whether a line is known to be of a later time than another; one with a time is preferred to one without."""
    if a.when.earliest is None or b.when.earliest is None:
        return a.when.earliest is not None
    return comparable(a.when, b.when) and a.when.earliest > b.when.earliest


def _last_of(  # noqa: PLR0917
    scene: Scene,
    ranks: frozenset[GlobalRank],
    store: TextStore,
    clock: SourceClock,
    end: int,
    owner: GlobalRank | None,
) -> dict[GlobalRank, deque[Event]]:
    """The last lines of each of some ranks in one source, in one pass; unsigned lines are those of its owner."""
    source, profile = clock.source.id, clock.profile
    last: dict[GlobalRank, deque[Event]] = {}
    for line in _lines(store, source, max(0, end - REACH), end):
        segment = last_part(line)
        if not segment.strip() or any(word in line.text for word in _SHUTTING_DOWN):
            continue
        place = locate(segment, len(segment), profile)
        unsigned = owner is not None and place.who.rank is None and place.who.local_rank is None
        rank = owner if unsigned else scene.roster.rank_of(place.who, source, {})
        if rank is None or rank not in ranks:
            continue
        when = clock.event_time(place.stamp, line.offset, line.number) if place.stamp is not None else When()
        if _too_late(scene, when):
            break
        said = said_in_line("rank.last_words", source, line, place.who, when)
        last.setdefault(rank, deque(maxlen=RECENT)).append(said)
    return last


def _too_late(scene: Scene, when: When) -> bool:
    """Whether a line was said only after somebody had timed out."""
    hang = scene.hang
    if hang is None or hang.detected is None or when.earliest is None:
        return False
    mark = hang.first.when
    # A stamp of seconds says only that it was some time in that second.
    until = mark.latest if exact(mark) and mark.latest is not None else hang.detected
    return comparable(when, mark) and when.earliest > max(until, hang.detected)


def _lines(store: TextStore, source: SourceId, start: int, end: int) -> Iterator[Line]:
    """Lines between two offsets; the first, which may be cut, is left out."""
    lines = lines_from(store, source, start, number_at(store, source, start), end - start)
    return islice(lines, 1 if start else 0, None)
