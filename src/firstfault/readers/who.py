"""Joins what a line's prefixes, its fields and its file say about the speaker. Never turns one kind of rank into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from firstfault.model.evidence import GlobalRank, GroupRank, LocalRank, NodeRank, Who

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST = 10_000_000
_SPOKEN = {
    "rank": "rank", "global_rank": "rank", "local_rank": "local_rank", "node_rank": "node_rank",
    "group_rank": "group_rank", "pg_rank": "group_rank", "pid": "pid", "device": "device", "worker": "worker",
    "host": "host", "pg_guid": "group", "group": "group",
}  # fmt: skip
"""Fields that tell who is spoken of, with the facts that they complete."""


def _number(fields: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = fields.get(name)
        if text is None:
            continue
        text = text.strip()
        if text.isascii() and text.isdigit() and int(text) < _LARGEST:
            return int(text)
    return None


def join_fields(who: Who, fields: Mapping[str, str], *, about: bool) -> Who:
    """Completes a speaker by the fields of the line.

    Args:
        who: what the prefixes say.
        fields: named facts of the line, by the field names of the signature dialect.
        about: whether the line reports on somebody's death: then its fields win, and where they name a rank, the rank and
            device of the speaker are not those of the one who is spoken of.
    """
    told = [fact for name, fact in _SPOKEN.items() if name in fields]
    if not told or (not about and all(getattr(who, fact) is not None for fact in told)):
        return who
    rank, local = _number(fields, "rank", "global_rank"), _number(fields, "local_rank")
    node, group_rank = _number(fields, "node_rank"), _number(fields, "group_rank", "pg_rank")
    pid, device = _number(fields, "pid"), _number(fields, "device")
    worker = _number(fields, "worker")
    host = fields.get("host") or None
    group = fields.get("pg_guid") or fields.get("group") or None
    if about:
        named = rank is not None or local is not None
        who = structs.replace(
            who,
            rank=None if named else who.rank,
            local_rank=None if named else who.local_rank,
            group_rank=None if named else who.group_rank,
            group=None if named else who.group,
            device=None if named else who.device,
            pid=None if named or pid is not None else who.pid,
            host=None if host is not None else who.host,
        )
    return Who(
        rank=who.rank if who.rank is not None or rank is None else GlobalRank(rank),
        local_rank=who.local_rank if who.local_rank is not None or local is None else LocalRank(local),
        node_rank=who.node_rank if who.node_rank is not None or node is None else NodeRank(node),
        group_rank=who.group_rank if who.group_rank is not None or group_rank is None else GroupRank(group_rank),
        group=who.group if who.group is not None else group,
        host=who.host if who.host is not None else host,
        pid=who.pid if who.pid is not None else pid,
        device=who.device if who.device is not None else device,
        worker=who.worker if who.worker is not None else worker,
        label=who.label,
    )


def join_line(who: Who, line: Who) -> Who:
    """Completes a speaker, named in a later part of a line, by the label at the start of that line."""
    ranked = who.rank is not None or who.local_rank is not None
    return Who(
        rank=who.rank if ranked else line.rank,
        local_rank=who.local_rank if ranked else line.local_rank,
        node_rank=who.node_rank if who.node_rank is not None else line.node_rank,
        group_rank=who.group_rank,
        group=who.group,
        host=who.host if who.host is not None else line.host,
        pid=who.pid if who.pid is not None or ranked else line.pid,
        device=who.device,
        worker=who.worker,
        label=who.label if who.label is not None else line.label,
    )
