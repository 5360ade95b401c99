"""Who waits for whom at the hang: over all process groups and all pairs of senders and receivers, to the origin.

A rank that waits is a victim as long as what it waits for waits for nobody. The lowest rank is no truth, and neither is
the first entry: each number of each group is looked at from the side of those that have not issued it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Spot, Team, first_open
from firstfault.model.evidence import GlobalRank
from firstfault.model.recorder import Stage
from firstfault.model.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.model.recorder import GroupLog, RankDump

MOST_NUMBERS = 16
"""Numbers of one group at which ranks wait that are looked at; the lowest ones."""
ROOTED = frozenset({"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "scatter", "gather"})
"""Collectives that may end on one rank before others have taken part."""


class Why(Word):
    """Why somebody is waited for."""

    ABSENT = "absent"
    """It left a dump and never issued the collective."""
    FROZEN = "frozen"
    """It issued the collective, but its completions stopped earlier than those of its peers."""
    UNPAIRED = "unpaired"
    """It never issued the other half of a send or receive."""
    UNSEEN = "unseen"
    """It left no dump."""


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
    frozen: dict[GlobalRank, tuple[Spot, GlobalRank]]
    """Rank whose completions stopped -> its first entry not completed, and a peer that has completed later ones."""
    origins: tuple[GlobalRank, ...]
    """Ranks with a dump that are waited for and wait for nobody, sorted."""
    unseen: tuple[GlobalRank, ...]
    """Ranks without a dump that are waited for where no rank with a dump explains it, sorted."""
    circle: tuple[GlobalRank, ...]
    """Ranks that wait for each other in a circle, where the graph has no end."""
    waiters: frozenset[GlobalRank]


def find_waits(recorded: Recorded) -> Waits:
    """The graph of waiting of aligned dumps."""
    frozen = dict(sorted(_frozen(recorded.teams)))
    waits: list[Wait] = []
    inside: list[Inside] = []
    oldest = {rank: _oldest(dump) for rank, dump in recorded.dumps.items()}
    for team in recorded.teams:
        for seq in _numbers(team):
            found = _at(team, seq, frozen)
            if found is not None:
                waits.append(found)
            elif (full := _inside(team, seq, oldest)) is not None:
                inside.append(full)
        waits.extend(_pairs(team, recorded, frozen))
    waiters = frozenset(r for w in waits for r in w.waiters) - set(frozen)
    sure = {r for w in waits if w.why is not Why.UNSEEN for r in w.blockers}
    origins = tuple(sorted(r for r in sure if r not in waiters and r in recorded.dumps))
    unseen = tuple(sorted({r for w in waits for r in w.blockers if r not in recorded.dumps}))
    return Waits(
        waits=tuple(waits),
        inside=tuple(inside),
        frozen=frozen,
        origins=origins,
        unseen=unseen,
        circle=() if origins or unseen else _circle(waits),
        waiters=waiters,
    )


def _numbers(team: Team) -> list[int]:
    """Numbers at which somebody waits, or that somebody has not issued: the lowest ones."""
    lanes = [lane for lane in team.lanes.values() if lane.high is not None]
    found = {lane.open for lane in lanes if lane.open is not None}
    highs = {lane.high for lane in lanes if lane.high is not None}
    if len(highs) > 1:
        found.add(min(highs) + 1)
    return sorted(found)[:MOST_NUMBERS]


def _at(team: Team, seq: int, frozen: dict[GlobalRank, tuple[Spot, GlobalRank]]) -> Wait | None:
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


def _inside(team: Team, seq: int, oldest: dict[GlobalRank, int | None]) -> Inside | None:
    """A collective in which all members with a dump are, none of them finished; None where it is not so."""
    lanes = list(team.lanes.values())
    if team.unseen or any(lane.high is None or lane.high < seq for lane in lanes):
        return None
    spots = [lane.spot(seq) for lane in lanes]
    open_ones = [lane for lane in lanes if lane.waits_in(seq)]
    if any(s is None for s in spots) or not open_ones:
        return None
    if team.states and len(open_ones) < len(lanes):
        return None
    full = tuple(s for s in spots if s is not None)
    front = all(
        oldest[s.dump.rank] in {None, s.log.record[s.at]} or not lane.states
        for s, lane in zip(full, lanes, strict=True)
        if s.dump.rank is not None
    )
    return Inside(team=team, seq=seq, spots=full, front=front)


def _oldest(dump: RankDump) -> int | None:
    """Number of the oldest unfinished entry of a process over all its groups; None where there is none."""
    begun = [(log, at) for log in dump.logs if (at := first_open(log)) is not None]
    return min((log.record[at] for log, at in begun), default=None)


def _frozen(teams: Iterable[Team]) -> Iterator[tuple[GlobalRank, tuple[Spot, GlobalRank]]]:
    """Ranks whose completions stopped while a peer completed later collectives that cannot end without them.

    In a group the works of a rank end in their order. A peer that completed a later collective in which all take part
    proves that this rank's device had run it, or that its process no longer sees what its device does.
    """
    found: dict[GlobalRank, tuple[Spot, GlobalRank]] = {}
    for team in teams:
        lanes = [lane for lane in team.lanes.values() if lane.states and lane.done is not None]
        ahead = max(lanes, key=lambda lane: (lane.done or 0, -lane.rank), default=None)
        for lane in lanes:
            if ahead is None or lane.open is None or lane.rank in found or ahead.done is None or lane.high is None:
                continue
            # A peer that is ahead of what this rank issued tells of dumps taken at different times, not of a halt.
            if lane.open < ahead.done <= lane.high and _proves(lane, lane.open + 1, ahead.done):
                spot = lane.spot(lane.open)
                if spot is not None:
                    found[lane.rank] = (spot, ahead.rank)
    yield from found.items()


def _proves(lane: Lane, start: int, end: int) -> bool:
    """Whether a collective in which all take part is among some numbers of a lane."""
    if lane.log is None:
        return False
    spots = (lane.spot(seq) for seq in range(start, min(end, start + 64) + 1))
    return any(s is not None and s.call.op not in ROOTED and s.log.stage[s.at] == Stage.UNFINISHED for s in spots)


def _pairs(team: Team, recorded: Recorded, frozen: dict[GlobalRank, tuple[Spot, GlobalRank]]) -> Iterator[Wait]:
    """Unfinished sends without a receive on the other side, and the other way round."""
    if not team.told:
        return
    open_now: dict[tuple[GlobalRank, GlobalRank, str], list[Spot]] = {}
    for rank in team.members:
        dump = recorded.dumps.get(rank)
        log = None if dump is None else next((g for g in dump.logs if g.group == team.name and g.p2p), None)
        if dump is None or log is None:
            continue
        for at in _open_p2p(log):
            call = dump.calls[log.call[at]]
            if call.peer is not None and call.peer < len(team.members) and call.op in {"send", "recv"}:
                key = (rank, team.members[call.peer], call.op)
                open_now.setdefault(key, []).append(Spot(dump, log, at))
    for (rank, peer, op), spots in sorted(open_now.items()):
        other = open_now.get((peer, rank, "recv" if op == "send" else "send"), [])
        if rank in frozen:
            continue
        why = None
        if peer not in recorded.dumps:
            why = Why.UNSEEN
        elif peer in frozen:
            why = Why.FROZEN
        elif len(spots) > len(other):
            why = Why.UNPAIRED
        if why is not None:
            spot = spots[min(len(other), len(spots) - 1)]
            yield Wait(
                team=team, seq=spot.log.seq[spot.at], why=why, waiting=(spot,), waiters=(rank,), blockers=(peer,)
            )


def _open_p2p(log: GroupLog) -> Iterator[int]:
    """Indexes of unfinished sends and receives; parts of a batch are as finished as the entry that closes it."""
    at = log.stage.find(Stage.UNFINISHED)
    while at >= 0:
        closed = at
        while closed + 1 < len(log.seq) and log.seq[closed + 1] == log.seq[at]:
            closed += 1
        if log.stage[closed] != Stage.COMPLETED:
            yield from range(at, closed + 1)
        at = log.stage.find(Stage.UNFINISHED, closed + 1)


def _circle(waits: Sequence[Wait]) -> tuple[GlobalRank, ...]:
    """Ranks that are left when those that nobody waits for are taken away again and again."""
    left = {r for w in waits for r in w.waiters}
    while True:
        wanted = {b for w in waits if left & set(w.waiters) for b in w.blockers}
        keep = left & wanted
        if keep == left:
            return tuple(sorted(left))
        left = keep
