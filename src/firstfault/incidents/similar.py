"""The nearest past incidents of a diagnosis: what is equal, what differs. A likeness finds, it never proves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.incidents.fingerprint import UNKNOWN, Traits, fingerprint, same
from firstfault.incidents.lint import is_verified
from firstfault.incidents.record import Record
from firstfault.incidents.search import Query
from firstfault.incidents.tokens import any_word, tokens
from firstfault.model.words import Category

if TYPE_CHECKING:
    from firstfault.incidents.places import Lookup

_POINTS = {"signature": 30, "place": 25, "message": 25, "op": 8, "category": 6, "form": 4, "phase": 3, "layer": 2}
"""What the equality of one part weighs against that of others; only the order of what is shown depends on it."""
_CANDIDATES = 200
_LEAST = 12
"""Points below which two incidents share nothing worth a look."""


class Likeness(Struct, frozen=True):
    """One past incident beside the present one."""

    record: Record
    same: bool
    """Whether the fingerprints are of one fault: kind and message are equal."""
    equal: tuple[str, ...]
    """Parts that are equal, as `name: value`."""
    differs: tuple[str, ...]
    """Parts that both know and that differ, as `name: past | now`."""
    points: int


def similar(index: Lookup, traits: Traits, *, limit: int = 5) -> list[Likeness]:
    """The nearest past incidents, nearest first; rejected ones are left out."""
    found = []
    for _, record in index.records_of(_candidates(index, traits)):
        if str(record.state) != "rejected":
            likeness = compared(record, traits)
            if likeness.same or likeness.points >= _LEAST:
                found.append(likeness)
    return sorted(found, key=lambda one: (not one.same, -one.points, one.record.id))[:limit]


def known_again(index: Lookup, traits: Traits, *, limit: int = 3) -> list[Likeness]:
    """Past incidents of the same fingerprint, verified ones first; none where the present one has no message or place to tell it by."""
    told = fingerprint(traits)
    if not tells_one(told):
        return []
    numbers = index.holding("fp_kind", ":".join(told.split(":")[:2]), _CANDIDATES)
    likes = [compared(r, traits) for _, r in index.records_of(numbers) if str(r.state) != "rejected"]
    alike = [one for one in likes if one.same]
    order = {"verified": 0, "fixed": 1, "supported": 2, "open": 3}

    def rank(one: Likeness) -> int:
        state = str(one.record.state)
        # One that does not show what it says helps no more than an open one.
        return order["open"] if state == "verified" and not is_verified(one.record) else order.get(state, 4)

    return sorted(alike, key=lambda one: (rank(one), one.record.id))[:limit]


def compared(record: Record, traits: Traits) -> Likeness:
    """One past incident held against the parts of the present one."""
    past = record.traits
    equal, differs, points = [], [], 0
    for name in ("signature", "message", "place", "op", "category", "form", "phase", "layer"):
        then, now = getattr(past, name), getattr(traits, name)
        if name == "signature" and now in record.all("signatures"):
            then = now
        if not then or not now or (name == "category" and now == Category.UNKNOWN):
            continue
        if then == now:
            points += _POINTS[name]
            equal.append(f"{name}: {then}")
        else:
            differs.append(f"{name}: {then} | {now}")
            points += _overlap(then, now) if name == "message" else 0
    told, now = record.one("fingerprint") or fingerprint(past), fingerprint(traits)
    return Likeness(record, tells_one(now) and same(told, now), tuple(equal), tuple(differs), points)


def tells_one(told: str) -> bool:
    """Whether a fingerprint has a message or a place: a kind alone is that of faults of many causes."""
    return told.split(":")[2:] != [UNKNOWN, UNKNOWN]


def _overlap(then: str, now: str) -> int:
    """Points for words that two messages share."""
    one, other = set(tokens(then)), set(tokens(now))
    return int(_POINTS["message"] * len(one & other) / max(len(one | other), 1))


def _candidates(index: Lookup, traits: Traits) -> list[int]:
    numbers: dict[int, None] = {}
    parts = fingerprint(traits).split(":")
    wanted = [("fp_message", f"{parts[0]}:{parts[2]}"), ("fp_kind", f"{parts[0]}:{parts[1]}")]
    wanted += [("signature", traits.signature.lower()), ("place", traits.place.lower())]
    for kind, value in wanted:
        numbers.update(dict.fromkeys(index.holding(kind, value, _CANDIDATES)))
    if len(numbers) < _CANDIDATES:
        near, _ = index.by_text(Query(), any_word(traits.message.replace("#", " ")), _CANDIDATES)
        numbers.update(dict.fromkeys(near))
    return list(numbers)[: 2 * _CANDIDATES]
