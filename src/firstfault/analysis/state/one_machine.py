"""Whether all ranks of a job run on one machine, by what its lines state; where they do not state it, the answer is no."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from firstfault.model.evidence import GlobalRank, LocalRank


class Heard(Struct, frozen=True, kw_only=True):
    """What the lines of one attempt state about its size and its places."""

    nodes: int | None
    """The stated number of machines."""
    world: int | None
    per_node: int | None
    """The stated number of ranks a machine."""
    started: int
    """Processes that one launcher says that it started; 0 where none says it, or several do."""
    spawned: bool
    """Whether the ranks are copies that one process made of itself."""
    hosts: Collection[str]
    """Short names of all machines that are named."""
    ranks: Collection[GlobalRank]
    """Ranks that speak, or are spoken of."""
    local_of: Mapping[GlobalRank, LocalRank]
    labels: Collection[Collection[LocalRank]]
    """Local ranks that speak in each source."""
    naming: Collection[Collection[LocalRank]]
    """Local ranks whose own lines name each machine."""


def on_one_machine(heard: Heard) -> bool:
    """Whether all ranks run on one machine, by the stated number of machines or by a world that one machine's ranks fill."""
    if heard.nodes == 1 or (heard.spawned and not _several(heard)):
        return True
    if _elsewhere(heard):
        return False
    if heard.world is None:
        # One launcher that started as many processes as there are ranks started them all.
        alone = 1 < heard.started == max((int(r) + 1 for r in heard.ranks), default=0)
        return len(heard.hosts) == 1 and (alone or _locals_are_globals(heard))
    most = max((max(ls) + 1 for ls in heard.labels), default=0)
    return heard.world in (most, 1, heard.started, heard.per_node)


def _several(heard: Heard) -> bool:
    return len(heard.hosts) > 1 or _elsewhere(heard)


def _elsewhere(heard: Heard) -> bool:
    """Whether a rank is stated whose number on its machine is another: then ranks run on a machine before it."""
    return any(int(r) != int(local) for r, local in heard.local_of.items())


def _locals_are_globals(heard: Heard) -> bool:
    """Whether every rank and local rank of the job is stated with the other, as the same number, and there are several.

    Of one pair alone (rank 0 is local rank 0 on the first machine of any job) nothing follows for the others.
    """
    pairs = {int(r): int(local) for r, local in heard.local_of.items()}
    ranks = {int(r) for r in heard.ranks}
    labels = {int(n) for ns in heard.labels for n in ns}
    named = {int(n) for ns in heard.naming for n in ns}
    alike = all(r == local for r, local in pairs.items())
    # Where each process is told by its local rank, and each names the machine, no process of another one speaks.
    return alike and (
        (len(pairs) > 1 and ranks == set(pairs) >= labels) or (not ranks and 1 < len(labels) == len(named))
    )
