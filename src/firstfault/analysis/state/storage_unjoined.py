"""Which target is at fault where nothing joins the clocks of store and job: by what needs no clock, and at `possible` at most.

Lines of several daemons that agree on a name, or the only fault that there is, tell it all the same, where some zone of the
world puts them before the job stood still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.storage_faults import (
    JOINS,
    MEMBERS,
    MISSED,
    REBALANCE,
    Kind,
    name_of,
    of_others,
    relayed_from,
    troubles,
)
from firstfault.analysis.zones import ZONES
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.state.storage import Moment, StorageState
    from firstfault.analysis.state.storage_faults import Trouble

LATE = 900.0
"""Seconds from the fault of a target to the failure that it brings about, at most, where only one clock tells both."""
AFTER = 90.0
"""Seconds after the job stood still in which a daemon may still speak of what had stopped it."""
_SENDER = lazy(r"failed to receive [^\n]{1,400}? from t\[(\w+)\]")
"""Whose entry broke off. Of an entry that never came, the line names in brackets the target that waited: the speaker itself."""


def lone_trouble(state: StorageState, asked: str | None) -> Trouble | None:
    """What befell the one target that has a fault, where the clocks are not joined and it can be of the failure's time.

    Where the client or another daemon names the target, any zone may put the fault shortly before the job stood still; else
    only clocks that say the same. Where the job tells no time, it must be the last of what the daemon's logs tell. A target that does not
    answer is taken out of the map half a minute and more later: it began with the first line that missed it, or with
    the load under which it fell silent.

    Args:
        state: the store.
        asked: the daemon that the client's own error names.
    """
    listed = troubles(state)
    faults = [t for t in listed if t.kind is Kind.FAULT and t.signature not in {*MEMBERS, "aistore.stopping"}]
    if not faults or {t.node for t in faults} - {faults[0].node} or asked not in {None, faults[0].node}:
        return None
    stop = state.job.stop
    if stop is None:
        last = max((d.ends for d in state.daemons if d.ends is not None), default=None)
        return faults[0] if last is not None and last - faults[-1].last.at <= LATE else None
    shifts = ZONES if asked is not None or _told_by_others(state, faults) else {0}
    began = (_begun(state, listed, t) for t in faults)
    return next((t for t in began if any(0 <= stop - (t.first.at + s) <= LATE for s in shifts)), None)


def _told_by_others(state: StorageState, faults: Sequence[Trouble]) -> bool:
    """Whether two other daemons, by lines of the time of a fault, name the target that has it: nobody answers there."""
    node = faults[0].node
    named = (f"t[{node}]", f"p[{node}]", f"=>{node}]")
    near = [
        (name_of(d), m)
        for d in state.daemons
        for m in d.of(*MISSED, "aistore.stream_ended")
        if name_of(d) != node and any(n in m.event.text for n in named)
    ]
    return any(len({who for who, m in near if abs(m.at - f.first.at) <= JOINS}) > 1 for f in faults)


def _begun(state: StorageState, listed: Iterable[Trouble], fault: Trouble) -> Trouble:
    """Where a fault began: with what the target itself suffered shortly before, else with the first line that missed it."""
    before = [
        t for t in listed if t.node == fault.node and t.kind is Kind.LOAD and 0 <= fault.first.at - t.first.at <= LATE
    ]
    if before:
        return min(before, key=lambda t: t.first.at)
    if fault.signature != "aistore.member_removed" or fault.daemon is None:
        return fault
    missed = [m for m in of_others(state, fault.daemon, *MISSED) if 0 <= fault.first.at - m.at <= JOINS]
    return fault._replace(moments=(*missed, *fault.moments)) if missed else fault


def named_target(state: StorageState) -> tuple[Trouble, str] | None:
    """The one target to which lines of others point, where the clocks of store and job are not joined; with how they do.

    That lines of several daemons agree on a name needs no clock. All such lines must be of one short time by their own
    clocks, and some zone must put it before the job stood still.

    Returns:
        The target's own first trouble (else the first line that names it) and a sentence; None where several are named.
    """
    listed = troubles(state)
    told = [(t, m) for t in listed if t.kind in {Kind.BATCH, Kind.ECHO} for m in t.moments]
    lines = [(t, m) for t, m in told if t.kind is Kind.BATCH]
    named = [(t, m, n) for t, m in told if (n := _pointed_at(t, m)) is not None and n != t.node]
    found = {n for _, _, n in named}
    if found:
        if len(found) > 1 or (len({t.node for t, _, _ in named}) < 2 and not any(t.node in found for t in listed)):
            return None
        node, why = found.pop(), "Other targets name it"
        if not of_that_time(state, [m.at for _, m, _ in named]):
            return None
        own = [t for t in listed if t.node == node and t.kind is not Kind.ECHO]
        return min(
            own, key=lambda t: t.first.at, default=named[0][0]._replace(daemon=state.named(node), node=node)
        ), why
    moved = [(t, m) for t, m in lines if t.signature == "aistore.batch_aborted" and REBALANCE.search(m.event.text)]
    if not moved or not of_that_time(state, [m.at for _, m in moved]):
        return None
    begun = min(m.at for _, m in moved)
    ended = [t for t in listed if t.signature == "aistore.stopping" and 0 <= begun - t.last.at <= JOINS]
    if len({t.node for t in ended}) != 1 or any(t.node == ended[0].node for t, _ in moved):
        return None
    return ended[0], "The others gave batches up for the rebalance that followed"


def _pointed_at(trouble: Trouble, moment: Moment) -> str | None:
    """The target that a line about a failed batch names as the one where it began, or whose entries did not come."""
    began = relayed_from(moment)
    if began is None and trouble.daemon is not None and trouble.daemon.daemon.node:
        # A daemon whose node id is not known cannot be told from the one that its own line names.
        found = _SENDER.search(moment.event.text)
        return None if found is None else found[1]
    return began


def of_that_time(state: StorageState, times: Sequence[float]) -> bool:
    """Whether moments of the store are of one short time that some zone puts before the job stood still."""
    stop = state.job.stop
    if max(times) - min(times) > LATE:
        return False
    return stop is None or any(-AFTER <= stop - (min(times) + s) <= LATE for s in ZONES)
