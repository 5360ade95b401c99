"""How the clock of the storage daemons lies to that of the job: stated by lines, else by where the counters stop, else unknown.

A pure fold over counters and the job's own times. An offset is a multiple of a quarter of an hour, since zones are; what is
less is resolution and skew. Two candidates that fit alike leave it unknown: a wrong hour would place every fault wrongly.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.median import median
from firstfault.analysis.order import exact
from firstfault.analysis.zones import EAST, WEST, ZONES
from firstfault.model.evidence import Event
from firstfault.model.storage import DaemonRole, StatsLine
from firstfault.model.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import When
    from firstfault.model.storage import LogPiece

QUARTER = 900
DAY = 86400
BATCHES = ("getbatch.n", "getbatch.obj.n", "getbatch.file.n")
"""Counters that move where a job reads by get-batch, which plain reads do not count."""
READS = ("get.n",)
BUSY = 0.1
"""Share of the highest rate from which on a daemon is at work."""
FALLING = 0.6
"""Share of the level before below which an interval is no longer one of full work."""
HALF = 0.5
"""Share of the level before to which the end of a job lets a rate fall at least."""
FULL = 0.85
"""Share of the level before below which the next interval shows that work ended in it."""
LEVEL = 5
"""Intervals of which the median is the level."""
DUE = 1.5
"""Intervals after which the next line of counters would have been printed, had anything moved."""
EDGE = 30.0
"""Seconds by which the end of work may lie outside the interval that shows it."""
QUIET = 1200.0
"""Seconds of rest that make the end of work, and not a pause."""
SLACK = 120.0
"""Seconds between the moment at which a job stands still and the last read of its loaders, either way."""


NEAR = 10.0
"""Seconds between a batch that was aborted and the error of the worker that read it, where nothing was tried again."""


class JobTimes(Struct, frozen=True, kw_only=True):
    """When the job ran, on its own clock."""

    utc: bool
    """Whether its stamps state their zone: then times are seconds of UTC."""
    zone: str | None = None
    """The zone that they state."""
    start: float | None = None
    stop: float | None = None
    """When it stood still: the start of the stuck collective, else the first failure, else the last sign of life."""
    stop_event: Event | None = None
    """The line by which that is known."""
    end: float | None = None
    """The last time of its logs."""


class ClockJoin(Struct, frozen=True, kw_only=True):
    """The offset between the two clocks, with its proof."""

    offset: float | None
    """Seconds to add to a moment on the store's clock to have it on the job's; None where unknown."""
    how: Literal["stated", "counters", "lines", "unknown"]
    utc: bool = False
    """Whether the store's clock is known to be that of UTC."""
    counter: str = ""
    stops: tuple[tuple[str, StatsLine], ...] = ()
    """Daemon and the last line of counters that still moved."""
    daemons: int = 0
    """Daemons whose counters moved at all."""
    alone: bool = False
    """Whether nothing read once the counters had stopped: a job that reads until it stands still cannot have outlived that."""
    why: str = ""
    """Why it is unknown, or what speaks against it."""
    fits: tuple[float, ...] = ()
    """Offsets at which counters stop about as well, where that leaves it unknown."""


def job_times(scene: Scene) -> JobTimes:
    """When an attempt ran and stood still, on the clock on which most of its lines are."""
    whens = [e.when for e in scene.events] + [p.when for p in scene.case.seen.progress]
    whens = [w for w in whens if w.known and w.dated and w.yeared]
    stated = sum(1 for w in whens if w.zone is not None)
    utc = stated * 2 > len(whens)
    on = [w for w in whens if (w.zone is not None) == utc and exact(w)]
    if not on:
        return JobTimes(utc=utc)
    zones = Counter(w.zone for w in on)
    stop, event = _stop(scene, utc=utc)
    ends = [w.latest for w in on if w.latest is not None]
    return JobTimes(
        utc=utc,
        zone=max(zones, key=lambda z: (zones[z], str(z))),
        start=min(w.earliest for w in on if w.earliest is not None),
        stop=stop if stop is not None else max(ends),
        stop_event=event,
        end=max(ends),
    )


def _on(when: When, *, utc: bool) -> bool:
    return when.known and when.dated and when.yeared and (when.zone is not None) == utc


def _stop(scene: Scene, *, utc: bool) -> tuple[float | None, Event | None]:
    hang = scene.hang
    if hang is not None and hang.began is not None and _on(hang.first.when, utc=utc):
        return hang.began, hang.first
    failed = [s.first for s in scene.suspects] + list(scene.deaths)
    timed = [e for e in failed if _on(e.when, utc=utc) and exact(e.when)]
    if timed:
        event = min(timed, key=lambda e: (e.when.earliest or 0.0, e.span))
        return event.when.earliest, event
    if hang is not None and hang.detected is not None and _on(hang.first.when, utc=utc):
        return hang.detected, hang.first
    last = [p.when.latest for p in scene.case.seen.progress if _on(p.when, utc=utc) and exact(p.when)]
    ended = [e for e in (*scene.effects, *scene.teardown) if _on(e.when, utc=utc) and exact(e.when)]
    if ended:
        event = min(ended, key=lambda e: (e.when.earliest or 0.0, e.span))
        return event.when.earliest, event
    return max((w for w in last if w is not None), default=None), None


def store_zone(pieces: Iterable[LogPiece]) -> int | None:
    """Seconds east of UTC that the daemons' clocks show, where lines state it for some and none states another."""
    zones = {p.zone for p in pieces if p.zone is not None}
    return zones.pop() if len(zones) == 1 else None


def on_store_clock(piece: LogPiece, at: float, common: int | None) -> float:
    """A moment of a daemon's wall clock on the clock of the store: that of UTC where the zone is known."""
    zone = piece.zone if piece.zone is not None else common
    return at if zone is None else at - zone


def join_clocks(pieces: Sequence[LogPiece], job: JobTimes) -> ClockJoin:
    """The offset from the store's clock to the job's.

    Args:
        pieces: what was read of the daemons, with counters of as long a time as zones can differ by.
        job: when the job ran.
    """
    common = store_zone(pieces)
    known = common is not None or (bool(pieces) and all(p.zone is not None for p in pieces))
    if known and job.utc:
        return ClockJoin(offset=0.0, how="stated", utc=True)
    if job.stop is None:
        return ClockJoin(offset=None, how="unknown", utc=known, why="no line of the job has a full time stamp")
    named = () if known else _named(pieces)
    series = _series(pieces, common)
    keys = _moving(series)
    if keys is None:
        why = "no counter of the daemons moved in the time that was read"
        return ClockJoin(offset=None, how="unknown", utc=known, why=why)
    # Logs of one cluster are fetched together: that one daemon speaks later shows that the others had nothing to tell.
    last = max(_last_words(pieces, common).values(), default=None)
    ended = _ended(pieces, common)
    stops = {name: found for name, lines in series.items() if (found := _stops(lines, keys, last, ended.get(name)))}
    return _vote(stops, job, keys[0], known=known, named=named, active=len(_active(series, keys)))


def settled(join: ClockJoin, job: JobTimes, breaks: Iterable[float]) -> ClockJoin:
    """The offset that alone, of those at which counters stop alike, puts a broken batch where the job stood still.

    Args:
        join: one that leaves several offsets.
        job: when the job stood still.
        breaks: moments on the store's clock at which a get-batch job was aborted or a daemon died.
    """
    if job.stop is None or not join.fits:
        return join
    moments = list(breaks)
    stop = job.stop
    left = [o for o in join.fits if any(-SLACK <= stop - (m + o) <= SLACK for m in moments)]
    if len(left) != 1:
        return join
    return replace(join, offset=left[0], how="counters", why="", fits=())


def by_breaks(join: ClockJoin, job: JobTimes, breaks: Iterable[float]) -> ClockJoin:
    """The one zone at which batches broke within seconds of the job's error, where counters leave it unknown; else the join.

    One line lies so near to some quarter of an hour by chance once in forty times: it is no more than likely.

    Args:
        join: one without an offset.
        job: when the job stood still.
        breaks: moments on the store's clock at which a get-batch job was aborted or a daemon died.
    """
    if join.offset is not None or job.stop is None:
        return join
    fits = {o for at in breaks for o in fitting(job, at, known=join.utc)}
    if len(fits) != 1 or (join.fits and not fits & set(join.fits)):
        return join
    return replace(join, offset=fits.pop(), how="lines", why="", fits=())


def fitting(job: JobTimes, at: float, *, known: bool) -> list[float]:
    """The offsets, of zones that exist, at which a moment of the store lies within seconds of the job's error.

    Args:
        job: when the job stood still.
        at: a moment on the store's clock.
        known: whether that is the clock of UTC.
    """
    assert job.stop is not None
    apart = job.stop - at
    offset = round(apart / QUARTER) * QUARTER
    east = -offset if job.utc and not known else offset
    exists = east in ZONES if known != job.utc else WEST - EAST <= east <= EAST - WEST
    return [float(offset)] if abs(apart - offset) <= NEAR and exists else []


def contradicted(join: ClockJoin, job: JobTimes, breaks: Iterable[float]) -> ClockJoin:
    """A join by counters alone, or none where batches broke within seconds of the job's error in one other zone only.

    Args:
        join: one that rests on counters.
        job: when the job stood still.
        breaks: moments on the store's clock at which a get-batch job was aborted or a daemon died.
    """
    if join.offset is None or join.how != "counters" or job.stop is None:
        return join
    fits = {o for at in breaks for o in fitting(job, at, known=join.utc)}
    if len(fits) != 1 or join.offset in fits:
        # Where batches broke at several such moments, they are of jobs that come and go.
        return join
    alike = tuple(sorted({join.offset, *fits}))
    why = "counters stop in one zone as the job did, and batches broke seconds from its error in another"
    return ClockJoin(
        offset=None, how="unknown", utc=join.utc, counter=join.counter, daemons=join.daemons, why=why, fits=alike
    )


def of_this_job(join: ClockJoin, job: JobTimes, breaks: Iterable[tuple[float, bool]]) -> ClockJoin:
    """A join by counters or lines, or none where what broke at that moment is of other jobs alone: it is the end of one of those.

    Args:
        join: how the clocks lie to each other.
        job: when the job stood still.
        breaks: moments on the store's clock at which batches broke or daemons died, and whether that was a batch of another job.
    """
    if join.offset is None or join.how == "stated" or job.stop is None:
        return join
    stop = job.stop - join.offset
    near = [others for at, others in breaks if abs(at - stop) <= SLACK]
    if not near or not all(near):
        return join
    why = "the batches that broke when the reads stopped are of another job"
    return ClockJoin(offset=None, how="unknown", utc=join.utc, counter=join.counter, daemons=join.daemons, why=why)


def refuted(clock: ClockJoin, shown: ClockJoin, east: float) -> ClockJoin:
    """The join that the logs show in place of one by a zone given by hand, where they show another; else that one.

    Counters that stop for good take its place. One line alone, or counters of a store that others use, only speak against it.

    Args:
        clock: the join by the zone that was given.
        shown: what the logs show for a job whose zone nobody states: its offset is the zone of the job.
        east: seconds east of UTC of the zone that was given.
    """
    if shown.offset is None or shown.offset == east:
        return clock
    given, fits = zone_name(int(east)), zone_name(int(shown.offset))
    sign = "batches broke" if shown.how == "lines" else "the reads stopped"
    why = f"the zone given for the job, {given}, does not fit: {sign} when the job did only if its zone is {fits}"
    if shown.how != "counters" or not shown.alone:
        return replace(clock, why=why)
    return replace(shown, offset=shown.offset - east, why=why)


def _named(pieces: Sequence[LogPiece]) -> tuple[int, ...]:
    """The zones that an ambiguous abbreviation leaves, common to all."""
    sets = [set(p.zones) for p in pieces if p.zones]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


if TYPE_CHECKING:
    _Series = dict[str, list[tuple[float, StatsLine]]]


def _series(pieces: Sequence[LogPiece], common: int | None) -> _Series:
    by_daemon: dict[str, dict[tuple[float, str], tuple[float, StatsLine]]] = {}
    for piece in pieces:
        if piece.daemon.role is DaemonRole.PROXY:
            continue
        own = by_daemon.setdefault(piece.daemon.node or piece.daemon.name, {})
        for line in piece.stats:
            at = on_store_clock(piece, line.at, common)
            own.setdefault((at, repr(sorted(line.counters.items()))), (at, line))
    return {name: [own[k] for k in sorted(own)] for name, own in sorted(by_daemon.items())}


def _last_words(pieces: Sequence[LogPiece], common: int | None) -> dict[str, float]:
    """The last moment of each daemon's logs."""
    found: dict[str, float] = {}
    for piece in pieces:
        if piece.ends is not None:
            name = piece.daemon.node or piece.daemon.name
            found[name] = max(found.get(name, piece.ends - DAY), on_store_clock(piece, piece.ends, common))
    return found


def _ended(pieces: Sequence[LogPiece], common: int | None) -> dict[str, float]:
    """When daemons ended that said so, and of which no later log is there."""
    last: dict[str, tuple[float, bool]] = {}
    for piece in pieces:
        if piece.ends is not None:
            name = piece.daemon.node or piece.daemon.name
            at = on_store_clock(piece, piece.ends, common)
            last[name] = max(last.get(name, (at, piece.stopped)), (at, piece.stopped))
    return {name: at for name, (at, stopped) in last.items() if stopped}


def _moving(series: _Series) -> tuple[str, ...] | None:
    for keys in (BATCHES, READS):
        if _active(series, keys):
            return keys
    return None


def _active(series: _Series, keys: tuple[str, ...]) -> list[str]:
    return [name for name, lines in series.items() if any(r > 0 for _, _, r, _ in _rates(lines, keys))]


def _rates(
    lines: Sequence[tuple[float, StatsLine]], keys: tuple[str, ...]
) -> list[tuple[float, float, float, StatsLine]]:
    """Start, end, moves in a second, and the later line, for each two lines that follow one another."""
    found = []
    for (a, before), (b, after) in pairwise(lines):
        if b <= a:
            continue
        moved = max(after.counters.get(k, 0) - before.counters.get(k, 0) for k in keys)
        if moved < 0:
            # Counters begin at zero again after a restart or a reset.
            moved = max(after.counters.get(k, 0) for k in keys)
        found.append((a, b, moved / (b - a), after))
    return found


class _Stop(NamedTuple):
    """The end of a time of work."""

    low: float
    high: float
    line: StatsLine
    last: bool
    """Whether nothing that counts was read after it."""


def _stops(
    lines: Sequence[tuple[float, StatsLine]],
    keys: tuple[str, ...],
    last_word: float | None,
    ended: float | None = None,
) -> list[_Stop]:
    """The ends of work: where the rate falls to less than half and stays there; others may use the store all the time.

    Args:
        lines: counters of one daemon.
        keys: the counters that count.
        last_word: the last line of any daemon.
        ended: when this daemon ended, where it said so.
    """
    rates = _rates(lines, keys)
    moving = [r for _, _, r, _ in rates if r > 0]
    if not moving:
        return []
    most = max(moving)
    usual = median([b - a for a, b, _, _ in rates])
    found: list[_Stop] = []
    for i, (start, end, rate, line) in enumerate(rates):
        before = median([r for a, b, r, _ in rates[max(0, i - LEVEL + 1) : i + 1] if b - a <= QUIET] or [0.0])
        if rate < BUSY * most or rate < FALLING * before or end - start > QUIET:
            continue
        later = [(a, b, r) for a, b, r, _ in rates[i + 1 : i + 2 + LEVEL] if b - a <= QUIET and a < end + QUIET]
        if later:
            # The interval in which the work ended holds a part of it; the level after it is what counts.
            after = median([r for _, _, r in later[1:]] or [later[0][2]])
            if after <= HALF * before and later[0][2] < before * FULL:
                rest = max((r for _, _, r, _ in rates[i + 2 :]), default=0.0)
                found.append(_Stop(end - EDGE, later[0][1] + EDGE, line, rest < BUSY * before))
        elif ended is not None and end <= ended <= end + DUE * usual:
            # A daemon that ends while it works serves nothing from then on.
            found.append(_Stop(ended - EDGE, ended + EDGE, line, last=True))
        elif last_word is not None and last_word >= end + min(QUIET, DUE * usual + 60.0):
            # A daemon that is idle prints no counters, but it prints the hour: it was there, and nothing moved. What moved
            # before the next line was due is printed no more either.
            found.append(_Stop(end - EDGE, end + min(usual, QUIET) + EDGE, line, i == len(rates) - 1))
    last = rates[-1]
    level = median([r for _, _, r, _ in rates[-LEVEL - 1 : -1]] or [0.0])
    if BUSY * level <= last[2] < FALLING * level and last[1] - last[0] <= QUIET:
        # Nothing comes after the last line, but the work already ended in its interval.
        found.append(_Stop(last[0] - EDGE, last[1] + EDGE, last[3], last=True))
    return found


def _vote(
    stops: dict[str, list[_Stop]],
    job: JobTimes,
    counter: str,
    *,
    known: bool,
    named: tuple[int, ...],
    active: int,
) -> ClockJoin:
    """The offset at which the work of most daemons ended when the job stood still."""
    assert job.stop is not None
    reach = (WEST, EAST) if known or job.utc else (WEST - EAST, EAST - WEST)
    votes: dict[int, dict[str, _Stop]] = {}
    for name, found in stops.items():
        for stop in found:
            first = job.stop - stop.high - SLACK
            last = job.stop - stop.low + SLACK
            steps = range(int(-(-first // QUARTER)), int(last // QUARTER) + 1)
            for step in steps:
                offset = step * QUARTER
                east = -offset if job.utc and not known else offset
                # Where one side is in UTC, the other is in a zone that exists; what only some other shift would join is not joined.
                inside = reach[0] <= east <= reach[1] and (known == job.utc or east in ZONES)
                if inside and (not named or not job.utc or -offset in named):
                    votes.setdefault(offset, {}).setdefault(name, stop)
    unknown = ClockJoin(offset=None, how="unknown", utc=known, counter=counter, daemons=active)
    if not votes:
        return replace(unknown, why="the counters of no daemon stop when the job did, in any zone")
    order = sorted(votes, key=lambda o: (-len(votes[o]), abs(o), o))
    best = order[0]
    second = len(votes[order[1]]) if len(order) > 1 else 0
    if len(votes[best]) * 2 < active or second * 2 > len(votes[best]):
        if second * 2 <= len(votes[best]):
            return replace(unknown, why="most daemons do not stop when the job did")
        alike = tuple(float(o) for o in order if len(votes[o]) * 2 > len(votes[best]))
        return replace(unknown, why="several zones fit alike", fits=alike)
    proof = tuple((name, stop.line) for name, stop in sorted(votes[best].items()))
    return ClockJoin(
        offset=float(best),
        how="counters",
        utc=known,
        counter=counter,
        stops=proof,
        daemons=active,
        alone=all(stop.last for stop in votes[best].values()),
    )
