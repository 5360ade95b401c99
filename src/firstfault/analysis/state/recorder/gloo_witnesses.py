"""Ranks that gave up a gloo collective, by their own tracebacks: beside dumps that cannot tell a failed work from a finished one.

Gloo's recorder keeps no states: a work that ran out of time is retired like one that came through. The rank's own time-out says
which it was, and the call in its traceback where a rank without a dump stood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Team
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank

TIMED_OUT = "gloo.operation_timeout"
"""Signature of a wait of gloo's that ran out."""
_CALL = lazy(r"torch/distributed/distributed_c10d\.py$")
_PLUMBING = frozenset({"wrapper", "inner", "_wait", "wait"})


class _Stood(NamedTuple):
    """What a rank's last recorded work in a group was."""

    seq: int
    op: str


def with_gloo_timeouts(recorded: Recorded, scene: Scene) -> Recorded:
    """The dumps with ranks that say themselves that they gave up waiting: inside what they issued last.

    Args:
        recorded: aligned dumps.
        scene: the attempt that the dumps are of.
    """
    gave_up = _timeouts(scene)
    if not gave_up or not any(t.unseen for t in recorded.teams):
        return recorded
    home = {r: team.name for r in gave_up if (team := _last_team(r, recorded)) is not None}
    teams, told = [], set()
    for team in recorded.teams:
        joined = _joined(team, gave_up, home)
        told |= {lane.rank for lane in joined.lanes.values() if lane.dump is None} - {*team.lanes}
        teams.append(joined)
    return replace(recorded, teams=tuple(teams), witnessed=recorded.witnessed | told)


def _timeouts(scene: Scene) -> dict[GlobalRank, str]:
    """Rank -> the collective that its traceback shows it in; empty where it shows none, left out where it shows several."""
    found: dict[GlobalRank, set[str]] = {}
    for event in () if scene.hang is None else scene.hang.events:
        rank = scene.roster.rank(event)
        if event.signature == TIMED_OUT and rank is not None:
            frames = () if event.exception is None else event.exception.frames
            inner = (f.function for f in frames if _CALL.search(f.file) and f.function not in _PLUMBING)
            found.setdefault(rank, set()).add(next(inner, ""))
    return {rank: next(iter(ops)) for rank, ops in found.items() if len(ops) == 1}


def _last_team(rank: GlobalRank, recorded: Recorded) -> Team | None:
    """The gloo group in which a rank issued its last collective; of a rank without a dump the only one it is a member of."""
    mine = [t for t in recorded.teams if rank in t.members and _of_gloo(t)]
    if rank not in recorded.dumps:
        return mine[0] if len(mine) == 1 else None
    last = [(spot.created, i) for i, t in enumerate(mine) if rank in t.lanes and (spot := t.lanes[rank].last())]
    return mine[max(last)[1]] if last else None


def _of_gloo(team: Team) -> bool:
    return any((spot := lane.last()) is not None and spot.call.backend == "gloo" for lane in team.lanes.values())


def _joined(team: Team, gave_up: Mapping[GlobalRank, str], home: Mapping[GlobalRank, str]) -> Team:
    here = {r: op for r, op in gave_up.items() if home.get(r) == team.name and r in team.members}
    stood = {r: at for r, op in here.items() if r in team.lanes and (at := _stood(team.lanes[r], op)) is not None}
    places = set(stood.values())
    if len(places) != 1:
        return team  # nobody says where, or they stood at different ones
    at = places.pop()
    lanes = dict(team.lanes)
    for rank, op in here.items():
        if rank in stood:
            lanes[rank] = replace(lanes[rank], open=at.seq, gave_up=True)
        elif rank not in lanes and op and _bare(op) == _bare(at.op):
            lanes[rank] = Lane(rank=rank, dump=None, log=None, high=at.seq, done=at.seq - 1, open=at.seq, states=True)
    return replace(team, lanes=dict(sorted(lanes.items())))


def _stood(lane: Lane, op: str) -> _Stood | None:
    """The last work of a rank that gave up waiting, where it is the call of its traceback, or its traceback tells none."""
    last = lane.last()
    if last is None or (op and _bare(op) != _bare(last.call.op)):
        return None
    return _Stood(last.log.seq[last.at], last.call.op)


def _bare(op: str) -> str:
    return op.replace("_", "").lower()
