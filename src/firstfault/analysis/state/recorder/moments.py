"""Whether the dumps of a job are of one moment, and of one job: what has to hold before they are laid side by side.

A collective in which all take part ends on nobody before everybody has issued it. A rank that, by its dump, had not come
to one that a peer has completed wrote its dump earlier: it was not late, the job went on. Names nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.recorder.halts import ROOTED
from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Spot, Team
from firstfault.model.recorder import DEFAULT_DESC, DEFAULT_NAME, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import GlobalRank
    from firstfault.model.recorder import RankDump

LOOKED_AT = 64
"""Last completed works of a rank that are looked at for one in which all take part."""


def older(recorded: Recorded) -> dict[GlobalRank, Spot]:
    """Ranks whose dump was written before a peer went on, each with the peer's completed work that it had not issued."""
    found: dict[GlobalRank, Spot] = {}
    for team in recorded.teams:
        last = _furthest(team)
        if last is None:
            continue
        seq = last.log.seq[last.at]
        for rank, lane in team.lanes.items():
            # A dump of what is unfinished alone does not hold what its rank had issued and completed.
            if lane.dump is None or lane.dump.active_only or lane.high is None or lane.high >= seq:
                continue
            found.setdefault(rank, last)
    return found


def _furthest(team: Team) -> Spot | None:
    """The last work of a group in which all take part that some member has completed."""
    spots = [s for lane in team.lanes.values() if (s := _last_of_all(lane)) is not None]
    return max(spots, key=lambda s: s.log.seq[s.at], default=None)


def _last_of_all(lane: Lane) -> Spot | None:
    log, dump = lane.log, lane.dump
    if log is None or dump is None or not lane.states:
        return None
    end = log.stage.rfind(Stage.COMPLETED)
    for at in range(end, max(-1, end - LOOKED_AT), -1):
        spot = Spot(dump, log, at)
        if log.stage[at] == Stage.COMPLETED and spot.call.op not in ROOTED:
            return spot
    return None


def worlds(dumps: Iterable[RankDump]) -> dict[tuple[GlobalRank, ...], tuple[RankDump, ...]]:
    """Dumps by the members that they state of the group of all ranks; empty where they state one list, or none.

    All processes of one job state the same one: of several lists only one is this job's.
    """
    found: dict[tuple[GlobalRank, ...], list[RankDump]] = {}
    for dump in dumps:
        whole = next((g.ranks for g in dump.groups if g.ranks and _of_all(g.name, g.desc)), ())
        if whole:
            found.setdefault(whole, []).append(dump)
    return {whole: tuple(own) for whole, own in found.items()} if len(found) > 1 else {}


def named_by_local_rank(recorded: Recorded) -> int | None:
    """How many files there are of each number, where files are named by the local ranks of several machines; else None.

    All numbers from 0 on come equally often, more than once, and together as often as the group of all ranks has members.
    """
    gone = {id(d) for d in recorded.earlier}
    given = [d for d in (*recorded.dumps.values(), *recorded.left_out) if id(d) not in gone]
    numbers = [int(d.rank) for d in given if d.rank is not None and not d.stated]
    counts = {numbers.count(n) for n in set(numbers)}
    if len(numbers) < len(given) or len(counts) != 1 or not recorded.told:
        return None
    each = counts.pop()
    local = set(numbers) == set(range(len(set(numbers))))
    return each if each > 1 and local and each * len(set(numbers)) == len(recorded.expected) else None


def _of_all(name: str, desc: str) -> bool:
    return DEFAULT_DESC in {name, desc} or name == DEFAULT_NAME
