"""Which global rank has a local rank on a machine, as lines state it, or as its neighbours on that machine show it.

Holds what it is told; it reads no line, and decides nothing about machines.
"""

from __future__ import annotations

from firstfault.analysis.hostlist import short_host
from firstfault.model.evidence import GlobalRank, LocalRank


def labelled(label: str) -> str:
    """What stands for the machine of a pod or a container that is known by the label of its lines alone; no host has such a name."""
    return f"\0{label}"


class LocalRanks:
    """Global ranks by machine and local rank."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, LocalRank], set[GlobalRank]] = {}
        self._pairs: dict[str, set[tuple[int, int]]] = {}
        """By short host the ranks with their local ranks, so that no question goes through all machines."""

    def add(self, host: str, local: LocalRank, rank: GlobalRank) -> None:
        """Notes that a rank has a local rank on a host."""
        short = short_host(host)
        self._ranks.setdefault((short, local), set()).add(rank)
        self._pairs.setdefault(short, set()).add((int(rank), int(local)))

    def of(self, host: str, local: LocalRank) -> set[GlobalRank] | None:
        """The ranks of a local rank on a host; None where none is stated, several where statements contradict each other."""
        return self._ranks.get((short_host(host), local))

    def one(self, host: str, local: LocalRank) -> GlobalRank | None:
        """The one rank of a local rank, as stated or as its neighbours show it; None where statements contradict each other."""
        known = self.of(host, local)
        if known is None:
            return self.beside({short_host(host)}, int(local))
        return next(iter(known)) if len(known) == 1 else None

    def beside(self, hosts: set[str], local: int) -> GlobalRank | None:
        """The rank of a local rank on a machine of which other local ranks are stated with their ranks.

        Args:
            hosts: short names of the machine.
            local: the local rank.
        """
        pairs: set[tuple[int, int]] = set().union(*(self._pairs.get(h, ()) for h in hosts))
        offsets = {rank - number for rank, number in pairs}
        # Of rank 0 as local rank 0 alone nothing follows: it fits every order.
        return GlobalRank(next(iter(offsets)) + local) if len(offsets) == 1 and pairs != {(0, 0)} else None
