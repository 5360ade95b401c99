"""Who waits for whom at the hang: over all process groups and all pairs of senders and receivers, to the origin.

A rank that waits is a victim as long as what it waits for waits for nobody. The lowest rank is no truth, and neither is
the first entry: each number of each group is looked at from the side of those that have not issued it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.recorder.halts import Halts, find_halts
from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Spot, Team, first_open
from firstfault.analysis.state.recorder.messages import Half, Match, matches
from firstfault.model.evidence import GlobalRank
from firstfault.model.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.model.recorder import RankDump

MOST_NUMBERS = 16
"""Numbers of one group at which ranks wait that are looked at; the lowest ones."""


class Why(Word):
    """Why somebody is waited for."""

    ABSENT = "absent"
    """It left a dump and never issued the collective."""
    FROZEN = "frozen"
    """It issued the collective, but its completions stopped earlier than those of its peers."""
    UNPAIRED = "unpaired"
    """It never issued the other half of a send or receive."""
    BUSY = "busy"
    """It issued the work, and has older work that does not end."""
    UNSEEN = "unseen"
    """It left no dump."""


SURE = frozenset({Why.ABSENT, Why.FROZEN, Why.UNPAIRED})
"""Reasons by which somebody can be the origin; who is busy waits for others."""
Oldest = dict[GlobalRank, int | None]
"""Rank -> number of its oldest unfinished entry over all groups; None where it has none."""


class Wait(Struct, frozen=True, kw_only=True):
    """Ranks that wait at one place for others."""

    team: Team
    seq: int
    why: Why
    waiting: tuple[Spot, ...]
    """Their unfinished entries, by rank; a lane without a visible entry is left out."""
    waiters: tuple[GlobalRank, ...]
    blockers: tuple[GlobalRank, ...]


class Inside(Struct, frozen=True, kw_only=True):
    """A collective in which every member is, as far as is known, and which does not end."""

    team: Team
    seq: int
    spots: tuple[Spot, ...]
    front: bool
    """Whether it is the oldest unfinished work of each of its members."""


class Waits(Struct, frozen=True, kw_only=True):
    """The graph of waiting, and where it ends."""

    waits: tuple[Wait, ...]
    inside: tuple[Inside, ...]
    frozen: Halts
    """Rank whose completions stopped -> its first entry not completed, and a peer that has completed later ones."""
    origins: tuple[GlobalRank, ...]
    """Ranks with a dump that are waited for and wait for nobody, sorted."""
    unseen: tuple[GlobalRank, ...]
    """Ranks without a dump that are waited for where no rank with a dump explains it, sorted."""
    circle: tuple[GlobalRank, ...]
    """Ranks that wait for each other in a circle, where the graph has no end."""
    waiters: frozenset[GlobalRank]
    oldest: dict[GlobalRank, int | None]
    """Rank -> number of its oldest unfinished entry; None where it has none."""


def find_waits(recorded: Recorded) -> Waits:
    """The graph of waiting of aligned dumps."""
    frozen = dict(sorted(find_halts(recorded).items()))
    oldest = {rank: _oldest(dump) for rank, dump in recorded.dumps.items() if rank not in frozen}
    waits: list[Wait] = []
    inside: list[Inside] = []
    for team in recorded.teams:
        for seq in _numbers(team):
            found = _at(team, seq, frozen)
            if found is not None:
                waits.append(found)
            elif (full := _inside(team, seq, oldest)) is not None:
                inside.append(full)
                waits.extend(_busy(full, oldest))
        waits.extend(_messages(team, recorded, frozen, oldest))
    waiters = frozenset(r for w in waits for r in w.waiters) - set(frozen)
    sure = {r for w in waits if w.why in SURE for r in w.blockers}
    origins = tuple(sorted(r for r in sure if r not in waiters and r in recorded.dumps))
    unseen = tuple(sorted({r for w in waits for r in w.blockers if r not in recorded.dumps and r not in waiters}))
    if not origins and not unseen:
        origins = tuple(frozen)  # nobody waits for them any more: the others are through
    return Waits(
        waits=tuple(waits),
        inside=tuple(inside),
        frozen=frozen,
        origins=origins,
        unseen=unseen,
        circle=() if origins or unseen or any(i.front for i in inside) else _circle(waits),
        waiters=waiters,
        oldest=oldest,
    )


def _busy(place: Inside, oldest: Oldest) -> Iterator[Wait]:
    """Members that are in a collective with nothing older to do wait for those that still have older work unfinished."""
    if place.front or not place.team.states:
        return
    ready = tuple(s for s in place.spots if oldest.get(_rank(s)) == s.log.record[s.at])
    others = tuple(_rank(s) for s in place.spots if s not in ready and oldest.get(_rank(s)) is not None)
    if ready and others:
        waiters = tuple(map(_rank, ready))
        yield Wait(team=place.team, seq=place.seq, why=Why.BUSY, waiting=ready, waiters=waiters, blockers=others)


def _rank(spot: Spot) -> GlobalRank:
    assert spot.dump.rank is not None
    return spot.dump.rank


def _numbers(team: Team) -> list[int]:
    """Numbers at which somebody waits, or that somebody has not issued: the lowest ones."""
    lanes = [lane for lane in team.lanes.values() if lane.high is not None]
    found = {lane.open for lane in lanes if lane.open is not None}
    highs = {lane.high for lane in lanes if lane.high is not None}
    if len(highs) > 1:
        found.add(min(highs) + 1)
    return sorted(found)[:MOST_NUMBERS]


def _at(team: Team, seq: int, frozen: Halts) -> Wait | None:
    """Who waits in one collective of a group and for whom; None where nobody waits for anybody."""
    known = [lane for lane in team.lanes.values() if lane.high is not None]
    absent = tuple(lane.rank for lane in known if lane.high is not None and lane.high < seq)
    waiting = [
        lane
        for lane in known
        if lane.rank not in frozen
        and (lane.waits_in(seq) or (not lane.states and absent and lane.high is not None and lane.high >= seq))
    ]
    if not waiting:
        return None
    why, blockers = Why.ABSENT, absent
    stopped = tuple(r for r in team.lanes if r in frozen and r not in absent and _stands_before(team.lanes[r], seq))
    if stopped:
        why, blockers = Why.FROZEN if not absent else Why.ABSENT, (*absent, *stopped)
    if not blockers:
        here = len(waiting) if team.states else sum(1 for lane in known if lane.high is not None and lane.high >= seq)
        if not team.unseen or here < len(team.lanes):
            return None
        why, blockers = Why.UNSEEN, team.unseen
    spots = tuple(s for s in (lane.spot(seq) for lane in waiting) if s is not None)
    return Wait(
        team=team,
        seq=seq,
        why=why,
        waiting=spots,
        waiters=tuple(lane.rank for lane in waiting),
        blockers=tuple(sorted(set(blockers))),
    )


def _stands_before(lane: Lane, seq: int) -> bool:
    return lane.open is not None and lane.open <= seq


def _inside(team: Team, seq: int, oldest: Oldest) -> Inside | None:
    """A collective in which all members are, none of them finished; None where it is not so."""
    lanes = [lane for lane in team.lanes.values() if lane.dump is not None]
    if team.unseen or any(lane.high is None or lane.high < seq for lane in lanes):
        return None
    if any(lane.open != seq for lane in team.lanes.values() if lane.dump is None):
        return None  # a rank that a line places is known at that one number alone
    spots = [lane.spot(seq) for lane in lanes]
    open_ones = [lane for lane in lanes if lane.waits_in(seq)]
    if any(s is None for s in spots) or not open_ones:
        return None
    if team.states and len(open_ones) < len(lanes):
        return None
    full = tuple(s for s in spots if s is not None)
    front = all(
        oldest.get(_rank(s)) in {None, s.log.record[s.at]} or not lane.states
        for s, lane in zip(full, lanes, strict=True)
    )
    return Inside(team=team, seq=seq, spots=full, front=front)


def _oldest(dump: RankDump) -> int | None:
    """Number of the oldest unfinished entry of a process over all its groups; None where there is none."""
    begun = [(log, at) for log in dump.logs if (at := first_open(log)) is not None]
    return min((log.record[at] for log, at in begun), default=None)


def _messages(team: Team, recorded: Recorded, frozen: Halts, oldest: Oldest) -> Iterator[Wait]:
    """Who waits for the other side of a send or receive."""
    for half in matches(team, recorded):
        if half.rank in frozen:
            continue
        why = None
        if half.peer not in recorded.dumps:
            why = Why.UNSEEN
        elif half.peer in frozen:
            why = Why.FROZEN
        elif half.match is Match.NONE:
            why = Why.UNPAIRED
        elif half.match is Match.OPEN and _behind(half, oldest):
            why = Why.BUSY
        if why is not None:
            seq = half.spot.log.seq[half.spot.at]
            yield Wait(team=team, seq=seq, why=why, waiting=(half.spot,), waiters=(half.rank,), blockers=(half.peer,))


def _behind(half: Half, oldest: Oldest) -> bool:
    """Whether this side has nothing older to do and the other side has."""
    mine, theirs = oldest.get(half.rank), oldest.get(half.peer)
    if half.other is None or theirs is None:
        return False
    return mine == half.spot.log.record[half.spot.at] and theirs < half.other.log.record[half.other.at]


def _circle(waits: Sequence[Wait]) -> tuple[GlobalRank, ...]:
    """Ranks that are left when those that nobody waits for are taken away again and again."""
    left = {r for w in waits for r in w.waiters}
    while True:
        wanted = {b for w in waits if left & set(w.waiters) for b in w.blockers}
        keep = left & wanted
        if keep == left:
            return tuple(sorted(left))
        left = keep
