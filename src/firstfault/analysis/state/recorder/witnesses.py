"""Ranks that lines of a log place inside a collective, as lanes beside those of the dumps.

A dump that is missing, cut or of an earlier start does not make its rank absent: where the rank's own watchdog gave up
the collective in which the others stand, it was in it. Nothing is placed where numbers or operations do not agree.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.order import clock_of, exact
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.recorder.calls import IN_AND_OUT, elements
from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Spot, Team
from firstfault.analysis.state.recorder.starts import CLOCKS, SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Cell, Group
    from firstfault.model.evidence import GlobalRank

ALIKE = CLOCKS / SECOND
"""Seconds by which the waits of ranks that entered a collective together may begin apart."""


def with_witnesses(recorded: Recorded, scene: Scene) -> Recorded:
    """The dumps side by side with lanes of ranks whose own lines place them; unchanged where no line adds any.

    Args:
        recorded: aligned dumps.
        scene: the attempt that the dumps are of.
    """
    if scene.hang is None or not _open_question(recorded):
        return recorded
    stuck = [g for g in hang_state(scene).stuck if g.comparable and not g.p2p]
    teams = tuple(_joined(t, _group_of(t, recorded.teams, stuck)) for t in recorded.teams)
    told = frozenset(lane.rank for t in teams for lane in t.lanes.values() if lane.dump is None)
    return replace(recorded, teams=teams, witnessed=told) if told else recorded


def _open_question(recorded: Recorded) -> bool:
    """Whether some member left no dump, or stands lower than others by its dump."""
    return any(t.unseen or len({lane.high for lane in t.lanes.values()}) > 1 for t in recorded.teams)


def _group_of(team: Team, teams: Sequence[Team], stuck: Sequence[Group]) -> Group | None:
    """The group of the lines that is this one; where lines name no group, only the sole one can be."""
    named = [g for g in stuck if g.name == team.name or (g.default and team.default)]
    if len(named) == 1 and sum(t.name == team.name for t in teams) == 1:
        return named[0]
    return stuck[0] if len(teams) == len(stuck) == 1 and stuck[0].name.startswith("?") else None


def _joined(team: Team, group: Group | None) -> Team:
    if group is None:
        return team
    cells = {c.rank: c for c in group.pending if c.rank in team.members and c.work is not None and c.at is not None}
    inside = {r: spot for r, lane in team.lanes.items() if (spot := _stands(lane)) is not None}
    stands = {spot.log.seq[spot.at]: spot for spot in inside.values()}
    new = {r: c for r, c in cells.items() if _adds(team.lanes.get(r), c) and _same_call(c, stands)}
    both = [r for r in inside if r in cells]
    if not new or (both and not any(cells[r].at == inside[r].log.seq[inside[r].at] for r in both)):
        return team  # the numbers of lines and dumps count different things
    starts = _starts(cells.values())
    usual = median(starts.values()) if starts else None
    lanes = dict(team.lanes)
    for rank, cell in new.items():
        if _with_the_others(rank, starts, usual, dumped=rank in lanes):
            lanes[rank] = _lane(cell)
    return replace(team, lanes=dict(sorted(lanes.items())))


def _stands(lane: Lane) -> Spot | None:
    """The first unfinished entry of a rank in the group."""
    return None if lane.open is None else lane.spot(lane.open)


def _adds(lane: Lane | None, cell: Cell) -> bool:
    """Whether a line tells more of a rank than its dump: it left none, or one from before it issued the collective."""
    if lane is None:
        return True
    return lane.high is None or (cell.at is not None and lane.high < cell.at)


def _same_call(cell: Cell, stands: Mapping[int, Spot]) -> bool:
    """Whether the work that ran out of time is the call that dumps show at its number."""
    spot = None if cell.at is None else stands.get(cell.at)
    work = cell.work
    if spot is None or work is None or work.op is None:
        return False
    if _bare(work.op) != _bare(spot.call.op):
        return False
    ins = elements(spot.call.input_sizes)
    return spot.call.op not in IN_AND_OUT or None in {ins, work.numel_in} or ins == work.numel_in


def _bare(op: str) -> str:
    """`_ALLGATHER_BASE` of a line is `_all_gather_base` of a dump."""
    return op.replace("_", "").lower()


def _starts(cells: Iterable[Cell]) -> dict[GlobalRank, float]:
    """When the wait of each rank began, of those on the clock of most."""
    timed: dict[str, dict[GlobalRank, float]] = {}
    for cell in cells:
        work = cell.work
        if work is None or work.ran_ms is None or not exact(work.event.when) or work.event.when.earliest is None:
            continue
        clock = str(clock_of(work.event.when))
        timed.setdefault(clock, {})[cell.rank] = work.event.when.earliest - work.ran_ms / 1000
    return max(timed.values(), key=len, default={})


def _with_the_others(
    rank: GlobalRank, starts: Mapping[GlobalRank, float], usual: float | None, *, dumped: bool
) -> bool:
    """Whether a rank entered with the others: one that came much later is late, and its dump says so rightly."""
    began = starts.get(rank)
    if began is None or usual is None:
        return not dumped
    return abs(began - usual) <= ALIKE


def _lane(cell: Cell) -> Lane:
    assert cell.at is not None
    return Lane(rank=cell.rank, dump=None, log=None, high=cell.at, done=cell.at - 1, open=cell.at, states=True)
