"""Incidents and their re-runs in the order of their days. Must not say that one led to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.incidents.verification import read_verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.incidents.record import Record


class Moment(Struct, frozen=True, kw_only=True):
    """One day on which something is known of an incident."""

    date: str
    """As 2026-03-02; empty where the record has none."""
    what: str
    """`incident`, or `re-run` with its result."""
    id: str
    state: str
    """State of the record now."""
    title: str


def timeline(records: Iterable[Record], *, since: str = "", until: str = "") -> list[Moment]:
    """What is known by day, oldest first; what has no date comes last, and only where no days are asked for.

    Args:
        records: in any order.
        since: the first day, as 2026-03-02; any where empty.
        until: the last day; any where empty.
    """
    found = [moment for record in records for moment in _moments(record)]
    if since or until:
        found = [m for m in found if m.date and since <= m.date <= (until or m.date)]
    return sorted(found, key=lambda m: (not m.date, m.date, m.what != "incident", m.id, m.what))


def _moments(record: Record) -> Iterator[Moment]:
    def at(date: str, what: str) -> Moment:
        return Moment(date=date, what=what, id=record.id, state=str(record.state), title=record.title)

    yield at(record.one("date"), "incident")
    for item in record.all("verifications"):
        proof = read_verification(item)
        if proof.kind == "rerun":
            yield at(proof.date, f"re-run {proof.result}")
