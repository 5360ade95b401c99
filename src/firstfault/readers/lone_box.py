"""Gives the one process of a job without a launcher its place: rank 0 of 1, as torch itself numbers a process of no group.

Looks at the records of one run together, since a helper beside ranks, or one of several programs, has no rank and is none.
It says nothing of what happened to the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from firstfault.model.evidence import GlobalRank, LocalRank
from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.blackbox import BoxRecord

_LAUNCH = "FIRSTFAULT_RECORD_LAUNCH"
"""Variable in a header: the process of `firstfault record`, whose child is the program that was asked for."""


class Alone(NamedTuple):
    """The process that is the whole job."""

    host: str | None
    pid: int


def alone(records: Sequence[BoxRecord]) -> Alone | None:
    """The one process that is the job; None where ranks are known, where nobody trained, or where several may be meant.

    Args:
        records: all records of one run.
    """
    heads: dict[Alone, BoxRecord] = {}
    trained: set[Alone] = set()
    for record in records:
        if record.who.rank is not None or _more_than_one(record.fields.get("world")):
            return None
        if record.who.pid is None or record.who.worker is not None:
            continue
        who = Alone(record.who.host, record.who.pid)
        if record.kind == layout.HEADER and record.fields.get("launcher") is not True:
            heads[who] = record
        if record.step is not None or record.phase is not None:
            trained.add(who)
    for candidates in (
        list(heads),
        [who for who in heads if who in trained],
        [who for who, head in heads.items() if _asked_for(head)],
    ):
        if len(candidates) == 1:
            return candidates[0]
    return None


def numbered(records: Sequence[BoxRecord]) -> list[BoxRecord]:
    """The records, where one process is the whole job with its rank and those of its loader's workers."""
    who = alone(records)
    if who is None:
        return list(records)
    return [_as_first(r) if Alone(r.who.host, _owner(r) or 0) == who else r for r in records]


def _owner(record: BoxRecord) -> int | None:
    return record.who.pid if record.who.worker is None else record.owner


def _as_first(record: BoxRecord) -> BoxRecord:
    who = replace(record.who, rank=GlobalRank(0), local_rank=LocalRank(0))
    fields: dict[str, Any] = {**record.fields, "rank": 0, "local_rank": 0, "world": 1}
    return replace(record, who=who, fields=fields)


def _more_than_one(world: object) -> bool:
    return isinstance(world, int) and world > 1


def _asked_for(head: BoxRecord) -> bool:
    """Whether it was started by `firstfault record` itself, not by another program of the job."""
    variables = head.fields.get("variables")
    launch = variables.get(_LAUNCH) if isinstance(variables, dict) else None
    return launch is not None and str(head.fields.get("parent")) == launch
