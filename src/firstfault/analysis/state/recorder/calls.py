"""Did all ranks of a group issue the same calls, and at the same time? Compares entries of one number of one group.

The majority is the measure, never a certain rank. Sizes are compared where an operation demands equal ones, as numbers
of elements; clocks of machines are not compared, only how long each rank took since its entry before.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.median import median
from firstfault.analysis.state.recorder.lanes import Lane, Recorded, Spot, Team
from firstfault.model.recorder import Call, Stage
from firstfault.model.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.analysis.state.recorder.waits import Inside
    from firstfault.model.evidence import GlobalRank

IN_AND_OUT = frozenset({"all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"})
IN_AND_OUT_LONG = frozenset(
    {"all_gather_into_tensor", "reduce_scatter_tensor", "all_gather_single", "reduce_scatter_single"}
)
OUT_ONLY = frozenset({"all_gather", "allgather"})
IN_ONLY = frozenset({"reduce_scatter"})
"""Gathers and scatters of unequal parts are legal: the whole is equal, the parts are not."""
EXCHANGES = frozenset({"all_to_all", "alltoall", "all_to_all_single", "all_to_all_v_single", "alltoall_base"})
LATE = 0.8
"""Share of the time-out by which a rank must be later than the others to be the one that was waited for."""
WITHOUT_TIMEOUT = 60.0
"""Seconds of lateness that count where no time-out is told."""
MOST_NUMBERS = 4096
"""Numbers of one group that are compared."""


class Kind(Word):
    """In what calls of one number differ."""

    OP = "op"
    SIZE = "size"
    DTYPE = "dtype"
    TOTAL = "total"
    """The parts of an exchange do not add up; whose is wrong is not told."""


class Shift(Word):
    """How the sequence of a rank differs from the others', where it is seen."""

    SKIPPED = "skipped"
    """It left a collective out and issued the next one."""
    EXTRA = "extra"
    """It issued one more and then those of the others."""
    SWAPPED = "swapped"
    """It issued two in the other order."""


class Mismatch(Struct, frozen=True, kw_only=True):
    """Different calls at one number of one group."""

    team: Team
    seq: int
    kind: Kind
    sides: tuple[tuple[str, tuple[Spot, ...]], ...]
    """What was issued, and by whom; the largest side first."""
    shift: Shift | None = None
    """How the sequence of the smaller side goes on."""

    @property
    def odd(self) -> tuple[Spot, ...]:
        """The smaller side; empty where no side holds more than half and twice the rest."""
        counts = [len(spots) for _, spots in self.sides]
        rest = sum(counts) - counts[0]
        if self.kind is Kind.TOTAL or 2 * counts[0] <= sum(counts) or counts[0] < 2 * rest:
            return ()
        return tuple(s for _, spots in self.sides[1:] for s in spots)


class Late(Struct, frozen=True, kw_only=True):
    """A collective that one or few ranks entered when the others had already waited their time."""

    team: Team
    seq: int
    late: tuple[Spot, ...]
    by_s: float
    """Seconds by which the earliest of them was later than the others."""
    others: tuple[Spot, ...]
    own_clock: bool
    """Whether each rank's delay is by its own clock; else clocks of machines were compared."""


def find_mismatch(recorded: Recorded) -> Mismatch | None:
    """The earliest difference between calls that have not ended; None where all agree, or cannot be compared."""
    found = [m for team in recorded.teams if (m := _in_team(team)) is not None]
    return min(found, key=lambda m: (*_began(m), m.team.name, m.seq), default=None)


def _began(mismatch: Mismatch) -> tuple[bool, int]:
    """Sort key of when its calls were issued; one of which no time is recorded comes behind those that have one."""
    first = min((s.created for _, spots in mismatch.sides for s in spots if s.created), default=None)
    return (first is None, 0 if first is None else first)


def _in_team(team: Team) -> Mismatch | None:
    lanes = [lane for lane in team.lanes.values() if lane.log is not None]
    if len(lanes) < 2:
        return None
    begin = min(lane.low or 0 for lane in lanes)
    if team.states:
        opened = [lane.open for lane in lanes if lane.open is not None]
        if not opened:
            return None
        begin = max(begin, min(opened))
    end = max(lane.high or 0 for lane in lanes)
    for seq in range(max(begin, end - MOST_NUMBERS), end + 1):
        found = _at(team, lanes, seq)
        if found is not None:
            return found
    return None


def _at(team: Team, lanes: list[Lane], seq: int) -> Mismatch | None:
    spots = [s for lane in lanes if (s := _comparable(lane, seq)) is not None]
    if len(spots) < 2 or (team.states and all(s.log.stage[s.at] == Stage.COMPLETED for s in spots)):
        return None
    first = spots[0].call
    if all(s.call is first for s in spots):
        return None
    for kind, key in ((Kind.OP, _op), (Kind.SIZE, _size), (Kind.DTYPE, _dtype)):
        sides: dict[str, list[Spot]] = {}
        for spot in spots:
            value = key(spot.call)
            if value is not None:
                sides.setdefault(value, []).append(spot)
        if len(sides) > 1:
            sides = _by_size(sides) if kind is Kind.OP else sides
            ordered = sorted(sides.items(), key=lambda kv: (-len(kv[1]), kv[0]))
            whole = tuple((name, tuple(of)) for name, of in ordered)
            return Mismatch(team=team, seq=seq, kind=kind, sides=whole, shift=_shift(team, seq, whole, kind))
    return _totals(team, seq, spots)


def _by_size(sides: dict[str, list[Spot]]) -> dict[str, list[Spot]]:
    """Sides of different calls, each parted where the sizes in it differ too: who issued another size is no part of a majority."""
    found: dict[str, list[Spot]] = {}
    for name, spots in sides.items():
        sizes = {_size(s.call) for s in spots}
        for spot in spots:
            size = _size(spot.call)
            found.setdefault(name if size is None or len(sizes) == 1 else size, []).append(spot)
    return found


def _comparable(lane: Lane, seq: int) -> Spot | None:
    """The entry of a number, where it is a single call; parts of coalesced calls may come in any number."""
    if lane.high is None or seq > lane.high:
        return None
    run = lane.run(seq)
    if len(run) != 1 or lane.log is None or lane.dump is None:
        return None
    spot = Spot(lane.dump, lane.log, run[0])
    return None if "coalesced" in spot.call.op else spot


def _op(call: Call) -> str:
    return call.op


def _size(call: Call) -> str | None:
    """The sizes that must be equal on all ranks, as numbers of elements; None where they need not be or are not told."""
    ins, outs = elements(call.input_sizes), elements(call.output_sizes)
    if ins is not None and (call.op in IN_AND_OUT or call.op in IN_AND_OUT_LONG):
        return f"{call.op} of {ins}" + (f" into {outs}" if outs != ins and outs is not None else "")
    if call.op in OUT_ONLY and outs is not None:
        return f"{call.op} into {outs}"
    if call.op in IN_ONLY and ins is not None:
        return f"{call.op} of {ins}"
    return None


def elements(sizes: tuple[tuple[int, ...], ...]) -> int | None:
    """Number of elements of all tensors of a call; None where no sizes are told."""
    return sum(prod(s) for s in sizes) if sizes else None


def _dtype(call: Call) -> str | None:
    types = dict.fromkeys((*call.input_dtypes, *call.output_dtypes))
    return f"{call.op} of {' '.join(types)}" if types else None


def _totals(team: Team, seq: int, spots: list[Spot]) -> Mismatch | None:
    """An exchange in which what all ranks send is not what all receive; only where every member is seen."""
    call = spots[0].call
    if call.op not in EXCHANGES or len(spots) < len(team.members) or spots[0].dump.version < (2, 4):
        return None
    sent = [elements(s.call.input_sizes) for s in spots]
    taken = [elements(s.call.output_sizes) for s in spots]
    if None in sent or None in taken:
        return None
    total, other = sum(n for n in sent if n is not None), sum(n for n in taken if n is not None)
    if total == other:
        return None
    what = f"{call.op} that sends {total} elements and receives {other} over all ranks"
    return Mismatch(team=team, seq=seq, kind=Kind.TOTAL, sides=((what, tuple(spots)),))


def _shift(team: Team, seq: int, sides: tuple[tuple[str, tuple[Spot, ...]], ...], kind: Kind) -> Shift | None:
    """How the first rank of the smaller side goes on, against the first rank of the larger."""
    ranks = [s[1][0].dump.rank for s in sides[:2]]
    if kind is Kind.DTYPE or ranks[0] is None or ranks[1] is None or len(sides) != 2:
        return None
    usual, odd = team.lanes[ranks[0]], team.lanes[ranks[1]]
    u = [_whole(usual, seq + i) for i in range(3)]
    o = [_whole(odd, seq + i) for i in range(3)]
    if o[0] is not None and o[0] == u[1]:
        if o[1] is not None and o[1] == u[0]:
            return Shift.SWAPPED
        return Shift.SKIPPED if o[1] is None or o[1] == u[2] or u[2] is None else None
    if u[0] is not None and o[1] == u[0]:
        return Shift.EXTRA
    return None


def _whole(lane: Lane, seq: int) -> tuple[str, str | None] | None:
    spot = _comparable(lane, seq)
    return None if spot is None else (spot.call.op, _size(spot.call))


def find_late(inside: tuple[Inside, ...]) -> Late | None:
    """The earliest collective in which all are and that one or few ranks entered too late; None where there is none."""
    found = [late for place in inside if (late := _late(place)) is not None]
    return min(found, key=lambda f: (min(s.created for s in f.others), f.team.name), default=None)


def _late(place: Inside) -> Late | None:
    took = list(_took(place))
    own_clock = len(took) == len(place.spots)
    if not own_clock:
        took = [(s, s.created / 1e9) for s in place.spots if s.created]
    if len(took) < len(place.spots) or len(took) < 2:
        return None
    usual = median(seconds for _, seconds in took)
    if len(took) == 2:
        usual = min(seconds for _, seconds in took)
    timeouts = [s.call.timeout_ms for s, _ in took if s.call.timeout_ms]
    limit = LATE * min(timeouts) / 1000 if timeouts else WITHOUT_TIMEOUT
    late = [(s, seconds - usual) for s, seconds in took if seconds - usual >= limit]
    if not late or 2 * len(late) > len(took) or (len(late) > 1 and 4 * len(late) > len(took)):
        return None
    slow = {s.dump.rank for s, _ in late}
    return Late(
        team=place.team,
        seq=place.seq,
        late=tuple(s for s, _ in late),
        by_s=min(by for _, by in late),
        others=tuple(s for s, _ in took if s.dump.rank not in slow),
        own_clock=own_clock,
    )


def _took(place: Inside) -> Iterator[tuple[Spot, float]]:
    """How long each rank took from its entry before in this group: on its own clock, so that clocks need not agree."""
    for spot in place.spots:
        if spot.at == 0 or not spot.created or not spot.log.created[spot.at - 1]:
            return
        if spot.log.seq[spot.at - 1] != place.seq - 1:
            return
        yield spot, (spot.created - spot.log.created[spot.at - 1]) / 1e9


def not_begun(place: Inside) -> tuple[GlobalRank, ...]:
    """Members whose device has not begun a collective that the others' devices have; only where begins are recorded."""
    begun = [s for s in place.spots if s.log.started[s.at]]
    still = [s.dump.rank for s in place.spots if not s.log.started[s.at] and s.dump.rank is not None]
    if not begun or not still or (4 * len(still) > len(place.spots) and len(still) > 1) or len(begun) < len(still):
        return ()
    return tuple(sorted(still))
