"""Where on the store's side a failure began: the daemon whose own trouble, or whose peers' lines, explain it.

A pure choice among troubles that were there when the job stood still. Whether the job depends on the store, and how sure the
answer is, is asked elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.state.storage_blame import SAME, abort_origin, blamed, undelivered
from firstfault.analysis.state.storage_faults import Kind, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.state.storage import StorageState
    from firstfault.analysis.state.storage_blame import Blame

FRESH = 300.0
"""Seconds within which a fault must still have been told of to explain content that does not decode, or a batch that failed at a
target of which the fault is not: reads went well since."""
MOST = 3
"""Targets that carry one load, from which on it can be that of the whole store."""


class Origin(NamedTuple):
    """Where on the store's side it began."""

    trouble: Trouble
    """The earliest trouble of the origin: the root."""
    batch: Trouble | None
    """The failed batch in which it came to light."""
    named: bool
    """Whether lines of other daemons, or the daemon's own failed batch, name it."""
    alone: bool
    """Whether no other daemon had a trouble of that kind."""
    by: frozenset[str] = frozenset()
    """The daemons whose lines about batches name it."""
    failed: bool = False
    """Whether it did not merely carry load: something failed there, or several others got nothing more from it."""
    alike: int = 0
    """Targets that carried the same load, itself among them, where those are most of the store's."""


def origin(state: StorageState, active: Sequence[Trouble], asked: str | None = None) -> Origin | None:
    """The daemon at which it began; None where the store shows nothing, or nothing that one daemon has alone.

    Args:
        state: the store.
        active: what was there when the job stood still.
        asked: the daemon that the client's own error names.
    """
    found = _began_at(state, active, asked)
    if found is None:
        return None
    faulty = any(t.kind is Kind.FAULT and t.node == found.trouble.node for t in active)
    return found._replace(
        failed=faulty or len(found.by - {found.trouble.node}) > 1,
        alike=0 if faulty else _carried_alike(state, found.trouble, active),
    )


def _carried_alike(state: StorageState, root: Trouble, active: Sequence[Trouble]) -> int:
    """How many targets carried the load of the origin, where most of them did: then it is the store's and not its own."""
    if root.kind is not Kind.LOAD:
        return 0
    alike = {t.node for t in active if t.signature == root.signature}
    return len(alike) if len(alike) >= MOST and 2 * len(alike) > state.target_count else 0


def _began_at(state: StorageState, active: Sequence[Trouble], asked: str | None) -> Origin | None:
    batches = [t for t in active if t.kind is Kind.BATCH]
    faults = [t for t in active if t.kind is Kind.FAULT]
    loads = [t for t in active if t.kind is Kind.LOAD]
    blame = blamed(active)
    node = None if blame is None else blame.node
    if node is None and any(t.node == asked for t in (*faults, *loads)):
        node = asked
    if blame is not None and batches:
        # Reads went well with a fault elsewhere that is so old: it is not what the named target's batch failed of.
        moment = min(b.first.at for b in batches)
        faults = [f for f in faults if f.node == node or moment - f.last.at <= FRESH]
    if faults:
        fault = _first_fault(faults, node)
        if fault is None:
            return None
        root = _earliest_of(fault.node, [*faults, *loads])
        return Origin(
            root, _batch_of(batches, node), named=fault.node == node, alone=len({f.node for f in faults}) == 1
        )
    if node is not None:
        return _of_node(state, active, node, blame)
    # Load at the one that waited is no reason for its waiting where another is at its limit too.
    waited = {t.node for t in batches}
    at_limit = {t.node for t in loads}
    others = at_limit - waited or at_limit
    if len(others) != 1:
        return None
    root = _earliest_of(next(iter(others)), loads)
    return Origin(root, batches[0] if batches else None, named=False, alone=len(at_limit) == 1)


def _of_node(state: StorageState, active: Sequence[Trouble], node: str, blame: Blame | None) -> Origin | None:
    """The origin at a target that is named: its load, else its failed batch, else what others say of it."""
    batches = [t for t in active if t.kind is Kind.BATCH]
    loads = [t for t in active if t.kind is Kind.LOAD]
    batch = _batch_of(batches, node)
    by = frozenset({node}) if blame is None else blame.by
    if any(t.node == node for t in loads):
        return Origin(_earliest_of(node, loads), batch, named=True, alone={t.node for t in loads} == {node}, by=by)
    if blame is None:
        return None
    if batch is not None and (batch.node == node or abort_origin(batch) == node):
        slow = {t.node for t in loads}
        if len(slow) == 1 and batch.signature != "aistore.rejected":
            # An entry that comes too late was sent too late: the one target at its limit fits better than where it arrived.
            return Origin(_earliest_of(slow.pop(), loads), batch, named=False, alone=True, by=by)
        if batch.node != node:
            # A relay tells of another's abort: it is that one's trouble, whether any of its logs are here or not.
            batch = batch._replace(daemon=state.named(node), node=node)
        return Origin(batch, batch, named=True, alone=not slow, by=by)
    if not blame.lines:
        return None
    return Origin(undelivered(state, blame), batch, named=True, alone=True, by=by)


def _first_fault(faults: Sequence[Trouble], node: str | None) -> Trouble | None:
    """The fault that came first; one at the target that is named comes before those elsewhere. None of those of one moment."""
    own = [t for t in faults if t.node == node] or list(faults)
    first = min(own, key=lambda t: (t.first.at, t.node))
    return None if any(t.node != first.node and t.first.at - first.first.at <= SAME for t in own) else first


def _earliest_of(node: str, listed: Sequence[Trouble]) -> Trouble:
    return min((t for t in listed if t.node == node), key=lambda t: (t.first.at, t.signature))


def _batch_of(batches: Sequence[Trouble], blamed: str | None) -> Trouble | None:
    """The failed batch to show: the blamed target's own line, else the first that names it."""
    own = [t for t in batches if t.node == blamed]
    return min(own or batches, key=lambda t: (t.first.at, t.signature), default=None)
