"""Who holds up the others in a job that still makes steps: by where each rank's time goes, as the recorder saw it.

Ranks that sum up their gradients step at one pace, whoever is slow: what differs is where in the step each of them waits. A pure
fold over the fields of states; who names nobody says that the ranks are alike, or that it cannot be seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CALLS, OWN, LOADER = "calls", "own", "loader"
"""What tells it: the times in calls of torch.distributed, at work of its own, or in the data loader."""
FEW_STEPS = 20
"""Steps from which on times tell a slow rank."""
FEW_LOOKS = 12
"""Looks from which on shares of what they saw do."""
BUSY, IDLE = 0.25, 0.4
"""Share of its time that a slow rank spends in calls at most, and that the others wait there for it at least."""
APART, MORE = 0.15, 1.5
"""By how much a share of a slow rank must exceed that of every other one, and by which factor; of the usual one by two."""
SURE = 3.5
"""Standard errors by which shares must differ, since they are of some looks only."""
HELD_BY_LOADER = 0.3
"""Share of its time that a rank waits for its loader at least, where that is what the others wait for."""
NEAR = 1.25
"""Factor by which the paces of ranks that keep step differ at most."""
WAITS = ("call", "backward", "optimizer")
"""Places in which a rank may wait for others; DDP and its like do so in the backward pass."""


class Slow(NamedTuple):
    """Ranks that hold up the others."""

    ranks: tuple[Any, ...]
    by: str
    """`CALLS`, `OWN` or `LOADER`."""
    share: float
    """Of their time, that of them which is nearest to the others."""
    others: float
    """The same share of the others, that of them which is nearest."""


def sees_waits(fields: dict[str, Any]) -> bool:
    """Whether a rank's groups hold the thread that waits for others, so that where it stands tells whether it waits."""
    spent = fields.get("spent")
    return isinstance(spent, dict) and spent.get("waits_seen") is True


def call_share(fields: dict[str, Any]) -> float | None:
    """Share of its time that a rank spent in calls of torch.distributed; None where too little was seen."""
    places = _places(fields)
    return _by_clock(fields, "call", "in_all_s") if places is None else places.get("call", 0.0)


def loader_share(fields: dict[str, Any]) -> float | None:
    """Share of its time that a rank waited for its data loader; None where too little was seen, or where it has none."""
    timed = _by_clock(fields, "loader", "waited_s")
    places = _places(fields)
    return timed if places is None else max(timed or 0.0, places.get("data", 0.0))


def own_share(fields: dict[str, Any]) -> float | None:
    """Share of its time in which a rank can have waited for nobody; None where its waits cannot be seen, as on devices."""
    places = _places(fields)
    if places is None or not sees_waits(fields):
        return None
    return 1.0 - sum(places.get(name, 0.0) for name in WAITS)


def slow_ranks(states: Mapping[Any, dict[str, Any]]) -> Slow | None:
    """Who holds up the others; None where they are alike, or where it cannot be seen.

    Args:
        states: rank -> the fields of its last state, of all that are known.
    """
    calls = _shares(states, call_share)
    found = None if calls is None else _least(calls)
    if found is None and _keep_step(states):
        own = _shares(states, own_share)
        found = None if own is None else _most(own, OWN)
        if found is None:
            waits = _shares(states, _loader_or_none)
            found = None if waits is None else _most(waits, LOADER)
            if found is not None and found.share < HELD_BY_LOADER:
                return None
    return found if found is not None and _differ(found, min(map(_seen, states.values()))) else None


def _seen(fields: dict[str, Any]) -> float:
    """How many independent looks or steps a share is of: looks within one step find the same."""
    looks, steps = _number(fields.get("spent"), "looks"), _number(fields, "steps") or 0.0
    return steps if looks is None else min(looks, steps)


def _differ(found: Slow, seen: float) -> bool:
    """Whether two shares differ by more than chance lets them."""
    spread = sum(share * (1.0 - share) for share in (found.share, found.others))
    return seen > 0 and abs(found.share - found.others) >= SURE * math.sqrt(spread / seen)


def _shares(
    states: Mapping[Any, dict[str, Any]], share: Callable[[dict[str, Any]], float | None]
) -> dict[Any, float] | None:
    """A share of all ranks; None where one is not known, or where there is nobody to compare with."""
    found = {rank: s for rank, fields in states.items() if (s := share(fields)) is not None}
    return found if len(found) == len(states) > 1 else None


def _loader_or_none(fields: dict[str, Any]) -> float | None:
    """Share of the time that it waited for its loader, 0 where it has none; None where too little was seen."""
    share = loader_share(fields)
    steps = _number(fields, "steps")
    return 0.0 if share is None and "loader" not in fields and steps is not None and steps >= FEW_STEPS else share


def _least(shares: dict[Any, float]) -> Slow | None:
    """Those who hardly ever wait in calls, where all others do most of the time."""
    low = sorted((r for r, s in shares.items() if s <= BUSY), key=lambda r: (shares[r], r))
    rest = [s for r, s in shares.items() if r not in set(low)]
    if not low or len(low) > _most_apart(shares) or min(rest) < IDLE or _middle(rest) < 2 * shares[low[-1]]:
        return None
    return Slow(tuple(sorted(low)), CALLS, shares[low[-1]], min(rest))


def _most(shares: dict[Any, float], by: str) -> Slow | None:
    """Those whose share is far above that of all others, at the widest gap."""
    order = sorted(shares, key=lambda r: (-shares[r], r))
    usual = _middle(list(shares.values()))
    best: Slow | None = None
    for n in range(1, _most_apart(shares) + 1):
        mine, others = shares[order[n - 1]], shares[order[n]]
        apart = mine - others >= APART and mine >= MORE * others and mine >= 2 * min(usual, others)
        if apart and (best is None or mine - others > best.share - best.others):
            best = Slow(tuple(sorted(order[:n])), by, mine, others)
    return best


def _most_apart(shares: dict[Any, float]) -> int:
    """As many may be slow; where more are, it is the rest that is fast."""
    return max(1, len(shares) // 4)


def _keep_step(states: Mapping[Any, dict[str, Any]]) -> bool:
    """Whether all ranks go at one pace, as they do where each step waits for all."""
    paces = [p for fields in states.values() if (p := _number(fields, "pace_s")) is not None and p > 0]
    return len(paces) == len(states) > 0 and max(paces) <= NEAR * min(paces)


def _places(fields: dict[str, Any]) -> dict[str, float] | None:
    """Shares of the time in each place, by looks; None where there were few."""
    spent, steps = fields.get("spent"), _number(fields, "steps")
    looks = _number(spent, "looks")
    if not isinstance(spent, dict) or looks is None or looks < FEW_LOOKS or steps is None or steps < FEW_STEPS:
        return None
    times = {name: t for name in spent if name != "looks" and (t := _number(spent, name)) is not None and t > 0}
    total = sum(times.values())
    return {name: t / total for name, t in times.items()} if total > 0 else None


def _by_clock(fields: dict[str, Any], what: str, name: str) -> float | None:
    """The share of a sum since the start, by the number of steps and the usual time of one."""
    steps, pace, spent = _number(fields, "steps"), _number(fields, "pace_s"), _number(fields.get(what), name)
    if steps is None or pace is None or spent is None or steps < FEW_STEPS or pace <= 0:
        return None
    return min(spent / (steps * pace), 1.0)


def _middle(values: list[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _number(value: Any, name: str) -> float | None:
    found = value.get(name) if isinstance(value, dict) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None
