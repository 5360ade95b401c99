"""Ranks whose completions stopped while peers completed later works that cannot end without them.

Such a rank's device stopped, or the process that watches it: all it had issued looks unfinished. It names no reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Spot, Team, first_open
from firstfault.model.evidence import GlobalRank
from firstfault.model.recorder import GroupLog, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOTED = frozenset({"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "scatter", "gather"})
"""Collectives that may end on one rank before others have taken part."""
LOOKED_AT = 64
"""Works of a rank that are looked at."""

Halts = dict[GlobalRank, tuple[Spot, GlobalRank]]
"""Rank -> its first entry not completed, and a peer that has completed later ones."""


def find_halts(recorded: Recorded) -> Halts:
    """All ranks whose completions stopped, each with the proof."""
    found: Halts = {}
    for team in recorded.teams:
        for rank, proof in (*_by_collectives(team), *_by_messages(team, recorded)):
            found.setdefault(rank, proof)
    return found


def _by_collectives(team: Team) -> Iterator[tuple[GlobalRank, tuple[Spot, GlobalRank]]]:
    """In a group the works of a rank end in their order.

    A peer that completed a later collective in which all take part proves that this rank's device had run it.
    """
    lanes = [lane for lane in team.lanes.values() if lane.states and lane.done is not None]
    ahead = max(lanes, key=lambda lane: (lane.done or 0, -lane.rank), default=None)
    for lane in lanes:
        if ahead is None or ahead.done is None or lane.open is None or lane.high is None:
            continue
        # A peer that is ahead of what this rank issued tells of dumps taken at different times, not of a halt.
        if lane.open < ahead.done <= lane.high and _all_take_part(lane, lane.open + 1, ahead.done):
            spot = lane.spot(lane.open)
            if spot is not None:
                yield lane.rank, (spot, ahead.rank)


def _all_take_part(lane: Lane, start: int, end: int) -> bool:
    """Whether an unfinished collective in which all take part is among some numbers of a lane."""
    spots = (lane.spot(seq) for seq in range(start, min(end, start + LOOKED_AT) + 1))
    return any(s is not None and s.call.op not in ROOTED and s.log.stage[s.at] == Stage.UNFINISHED for s in spots)


def _by_messages(team: Team, recorded: Recorded) -> Iterator[tuple[GlobalRank, tuple[Spot, GlobalRank]]]:
    """Between two ranks alone both sides count alike: a peer that is past two of this rank's open works has had them."""
    if len(team.members) != 2 or not team.told:
        return
    for rank, peer in (team.members, team.members[::-1]):
        mine, theirs = recorded.messages(rank, team), recorded.messages(peer, team)
        if mine is None or theirs is None:
            continue
        begin = first_open(mine)
        done = last_done(theirs)
        if begin is not None and done is not None and mine.seq[begin] < done <= mine.seq[-1]:
            yield rank, (Spot(recorded.dumps[rank], mine, begin), peer)


def last_done(log: GroupLog) -> int | None:
    """Number of the last completed entry; None where none is visible."""
    at = log.stage.rfind(Stage.COMPLETED)
    return None if at < 0 else log.seq[at]
