"""Unfinished sends and receives, each with what its other side had done: issued, not issued, or not to be told.

Numbers of messages count alike on both sides only in groups of two; else the open ones of a pair are held against each
other in their order. Judges nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.recorder.lanes import Recorded, Spot, Team
from firstfault.model.evidence import GlobalRank
from firstfault.model.recorder import Stage
from firstfault.model.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.recorder import Call, GroupLog, RankDump

OTHER = {"send": "recv", "recv": "send"}


class Match(Word):
    """What the other side of a message had done."""

    OPEN = "open"
    """It issued its half, which is unfinished too."""
    NONE = "none"
    """It never issued its half."""
    UNKNOWN = "unknown"
    """Its half may have ended, or is not visible."""


class Half(Struct, frozen=True, kw_only=True):
    """One unfinished send or receive."""

    rank: GlobalRank
    peer: GlobalRank
    spot: Spot
    match: Match
    other: Spot | None = None
    """The other half, where it is open."""


def matches(team: Team, recorded: Recorded) -> Iterator[Half]:
    """For each rank and peer the first unfinished message whose other half is not there, else the first of all."""
    if not team.told:
        return
    opened: dict[tuple[GlobalRank, GlobalRank, str], list[Spot]] = {}
    for rank in team.members:
        log = recorded.messages(rank, team)
        if log is None:
            continue
        for at in (i for i, stage in enumerate(log.stage) if stage == Stage.UNFINISHED):
            spot = Spot(recorded.dumps[rank], log, at)
            peer = _peer(spot.call, team)
            if peer is not None and spot.call.op in OTHER:
                opened.setdefault((rank, peer, spot.call.op), []).append(spot)
    for (rank, peer, op), spots in sorted(opened.items()):
        others = opened.get((peer, rank, OTHER[op]), [])
        if len(spots) <= len(others):
            yield Half(rank=rank, peer=peer, spot=spots[0], match=Match.OPEN, other=others[0])
        else:
            lone = spots[len(others)]
            known = peer in recorded.dumps and not _may_have_ended(team, recorded, lone, rank, peer)
            yield Half(rank=rank, peer=peer, spot=lone, match=Match.NONE if known else Match.UNKNOWN)


def _peer(call: Call, team: Team) -> GlobalRank | None:
    """The other side of a message; None where the call names none, or one that is no member."""
    return None if call.peer is None or call.peer >= len(team.members) else team.members[call.peer]


def _may_have_ended(team: Team, recorded: Recorded, lone: Spot, rank: GlobalRank, peer: GlobalRank) -> bool:
    """Whether the other half of an open message may have been issued and have ended."""
    log = recorded.messages(peer, team)
    if log is None:
        return False
    dump = recorded.dumps[peer]
    wanted = OTHER[lone.call.op]
    if len(team.members) == 2:
        number, begin = lone.log.seq[lone.at], max(log.seq[0], lone.log.seq[0])
        if log.seq[-1] < number:
            return False
        since = [dump.calls[call].op for seq, call in zip(log.seq, log.call, strict=True) if seq >= number]
        # Two that both send, or both receive: numbers that are alike are no halves of each other.
        return (
            wanted in since
            or log.seq[0] > number
            or _ended(dump, log, wanted, begin) > _ended(lone.dump, lone.log, lone.call.op, begin)
        )
    for at in range(len(log.seq) - 1, -1, -1):
        call = dump.calls[log.call[at]]
        if log.stage[at] == Stage.COMPLETED and call.op == wanted and _peer(call, team) == rank:
            # The last one that ended: issued after the open one, it may well be its other half.
            return log.created[at] >= lone.created
    return False


def _ended(dump: RankDump, log: GroupLog, op: str, begin: int) -> int:
    """How many messages of one kind have ended, from a number on."""
    rows = zip(log.seq, log.stage, log.call, strict=True)
    return sum(seq >= begin and stage == Stage.COMPLETED and dump.calls[call].op == op for seq, stage, call in rows)
