"""Which target lines about failed batches point at: where an abort began, or who did not deliver; never who only waited.

The target that assembles a batch waits for the entries of the others. That it waited in vain says that somebody did not
deliver, not that it is at fault. It weighs lines; load, faults and the job are weighed elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.state.storage_faults import Kind, Trouble, name_of, relayed_from, troubles
from firstfault.analysis.state.storage_unjoined import of_that_time
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.state.storage import Moment, StorageState

NOT_DELIVERED = "aistore.not_delivered"
"""What the lines of receivers make of a sender that has no line of its own about it."""
SAME = 1.0
"""Seconds within which lines of several daemons are of one moment: none of them is the first."""
_OWN = ("aistore.out_of_bounds", "aistore.batch_aborted", "aistore.rejected")
"""What a target says of what it did itself, the surest first. Waiting is not among it, nor one client's failed batch."""
_SENDERS = lazy(
    r"failed to receive [^\n]{1,400}? from t\[(\w+)\]"
    r"|shared-dm\[(?:\(z\))?(\w+)<=\w+\]"
    r"|retry timeout shared-dm\[(?:\(z\))?\w+=>(\w+)\]"
    r"|shared-dm: failed reconnecting to (?:t\[)?(\w+)"
)


class Blame(NamedTuple):
    """The target that lines of daemons point at."""

    node: str
    """Its node id."""
    by: frozenset[str]
    """The daemons whose lines do so."""
    lines: tuple[Moment, ...]
    """Lines of others that do so, in order of time; none where it is known by its own."""


def abort_origin(trouble: Trouble) -> str | None:
    """The target at which an abort that is relayed here began; None where the line names none."""
    return next((name for m in trouble.moments if (name := relayed_from(m)) is not None), None)


def senders(trouble: Trouble) -> list[tuple[str, Moment]]:
    """Node ids of the senders that lines of a daemon complain of, with the lines: those from which a stream broke off."""
    own = {trouble.node} if trouble.daemon is None else {trouble.node, trouble.daemon.daemon.node}
    return [
        (name, moment)
        for moment in trouble.moments
        for found in _SENDERS.finditer(moment.event.text)
        for name in found.groups()
        if name is not None and name not in own
    ]


def blamed(active: Sequence[Trouble]) -> Blame | None:
    """The one target that lines about batches point at: as relayed aborts name it, else by its own lines, else its receivers'.

    Args:
        active: what was there when the job stood still.

    Returns:
        None where they point at nobody, or at several alike.
    """
    batches = [t for t in active if t.kind is Kind.BATCH]
    relayed = [(name, t) for t in batches if (name := abort_origin(t)) is not None]
    if relayed:
        return _relayed(relayed)
    for signature in _OWN:
        own = [t for t in batches if t.signature == signature and _of_itself(t)]
        if own:
            first = min(t.first.at for t in own)
            nodes = {t.node for t in own if t.first.at - first <= SAME}
            return Blame(node := nodes.pop(), frozenset({node}), ()) if len(nodes) == 1 else None
    return _most(pair for t in active if t.kind in {Kind.BATCH, Kind.ECHO} for pair in _votes(t))


def _of_itself(trouble: Trouble) -> bool:
    """Whether a line tells of what its own daemon did: who prints that a job is aborted may only have been told so."""
    return trouble.signature != "aistore.batch_aborted" or "out-of-bounds" in trouble.first.event.text


def _relayed(relayed: Sequence[tuple[str, Trouble]]) -> Blame | None:
    """The target that most relays name; of two that as many name, the one that was named first."""
    by: dict[str, set[str]] = {}
    for name, trouble in relayed:
        by.setdefault(name, set()).add(trouble.node)
    top = max(len(v) for v in by.values())
    began = sorted((min(t.first.at for n, t in relayed if n == name), name) for name, v in by.items() if len(v) == top)
    if len(began) > 1 and began[1][0] == began[0][0]:
        return None
    node = began[0][1]
    lines = sorted((t.first for n, t in relayed if n == node), key=_order)
    return Blame(node, frozenset(by[node]), tuple(lines))


def _votes(trouble: Trouble) -> list[tuple[str, str, Moment]]:
    return [(name, trouble.node, moment) for name, moment in senders(trouble)]


def _most(votes: Iterable[tuple[str, str, Moment]]) -> Blame | None:
    """The sender of which more daemons complain than of all others together."""
    by: dict[str, set[str]] = {}
    lines: dict[str, list[Moment]] = {}
    for name, witness, moment in votes:
        by.setdefault(name, set()).add(witness)
        lines.setdefault(name, []).append(moment)
    if not by:
        return None
    node = max(by, key=lambda n: (len(by[n]), n))
    if len(by[node]) * 2 <= sum(len(v) for v in by.values()):
        return None
    return Blame(node, frozenset(by[node]), tuple(sorted(lines[node], key=_order)))


def _order(moment: Moment) -> tuple[float, int, int]:
    return (moment.at, moment.event.span.source, moment.event.span.offset)


def undelivered(state: StorageState, blame: Blame) -> Trouble:
    """What its receivers say of a sender, as its own trouble: that what it sent did not arrive."""
    daemon = state.named(blame.node)
    node = blame.node if daemon is None else name_of(daemon)
    return Trouble(daemon, node, NOT_DELIVERED, Kind.ECHO, blame.lines)


def named_sender(state: StorageState) -> tuple[Trouble, str] | None:
    """The one sender of which several targets complain, where the clocks of store and job are not joined; with how they do.

    Returns:
        What they say of it and a sentence; None where an abort tells more, or no two agree.
    """
    listed = [t for t in troubles(state) if t.kind in {Kind.BATCH, Kind.ECHO}]
    if any(t.signature in {"aistore.out_of_bounds", "aistore.batch_aborted"} for t in listed):
        return None
    blame = _most(pair for t in listed for pair in _votes(t))
    if blame is None or len(blame.by) < 2 or not of_that_time(state, [m.at for m in blame.lines]):
        return None
    return undelivered(state, blame), "Several targets got nothing more from it"
