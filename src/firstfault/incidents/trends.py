"""What returns: the same fault, host, device, shard or signature over several incidents, with dates. Must not name a cause."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.incidents.lint import is_verified
from firstfault.incidents.verification import read_verification
from firstfault.incidents.words import FACTS, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.incidents.record import Record

KINDS = ("fingerprint", *FACTS)


class Trend(Struct, frozen=True, kw_only=True):
    """One value that stands in several incidents, or in one that came again."""

    kind: str
    value: str
    incidents: tuple[str, ...]
    """Ids, in the order of their dates."""
    dates: tuple[str, ...]
    """Days on which it was seen, re-runs that recurred among them; an incident without a date has none."""
    recurred: int
    """Re-runs that recurred, over all these incidents."""
    after_fix: tuple[str, ...]
    """Incidents that came later than one of the same fingerprint whose fix counts as verified: that fix did not hold."""


def trends(records: Iterable[Record], *, kinds: Iterable[str] = KINDS, least: int = 2) -> list[Trend]:
    """What was seen at least so many times, most often first; rejected incidents do not count."""
    held: dict[tuple[str, str], list[Record]] = defaultdict(list)
    wanted = set(kinds)
    for record in _once(records):
        if record.state is not State.REJECTED:
            for kind, value in set(_values(record)):
                if kind in wanted:
                    held[kind, value].append(record)
    found = [_trend(kind, value, those) for (kind, value), those in held.items()]
    often = [t for t in found if len(t.incidents) + t.recurred >= least]
    return sorted(often, key=lambda t: (-len(t.incidents) - t.recurred, KINDS.index(t.kind), t.value))


def _once(records: Iterable[Record]) -> Iterator[Record]:
    """Of several records of the same lines and day the first: an incident that was written down twice came once."""
    seen: set[tuple[str, str]] = set()
    for record in sorted(records, key=lambda r: (r.state is State.REJECTED, r.one("date"), r.id)):
        same = record.one("evidence_digest"), record.one("date")
        if not same[0] or same not in seen:
            yield record
        seen.add(same)


def _values(record: Record) -> Iterator[tuple[str, str]]:
    told = record.one("fingerprint")
    # Without its place a fingerprint is that of more faults, but no host and no device is named by it: it still returns.
    if told.count(":") == 3 and not told.endswith(":-:-"):
        yield "fingerprint", told.rpartition(":")[0]
    for kind, key in FACTS.items():
        yield from ((kind, value) for value in record.all(key))


def _trend(kind: str, value: str, records: list[Record]) -> Trend:
    ordered = sorted(records, key=lambda r: (r.one("date"), r.id))
    runs = [
        p for r in ordered for item in r.all("verifications") if (p := read_verification(item)).result == "recurred"
    ]
    dates = sorted({r.one("date") for r in ordered} | {p.date for p in runs})
    verified = [r.one("date") for r in ordered if is_verified(r) and r.one("date")]
    later = [r.id for r in ordered if verified and r.one("date") > min(verified)] if kind == "fingerprint" else []
    return Trend(
        kind=kind,
        value=value,
        incidents=tuple(r.id for r in ordered),
        dates=tuple(d for d in dates if d),
        recurred=len(runs),
        after_fix=tuple(later),
    )
