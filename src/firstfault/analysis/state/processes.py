"""Ranks by the numbers of their processes, and what speaks against taking a number that the kernel tells for a rank's.

The kernel counts all processes of a machine, a container counts its own: the same number may be two processes. Must not
name a rank by anything else than its process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.cards import address
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import comparable, exact
from firstfault.analysis.zones import shifted_into
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from firstfault.analysis.cards import Address
    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, GlobalRank, When

KERNEL = "kernel."
KILLS = ("kernel.oom_kill", "kernel.segfault")
OUTLIVED = 60.0
"""Seconds behind its end from which on lines of a rank show that it was another process that ended: buffers are written late."""
BEFORE = 900.0
"""Seconds before an end in which another zone may have to put a rank's last line for its clock to be in that zone."""


class Processes:
    """What lines of one attempt state about the processes of ranks."""

    def __init__(self) -> None:
        self._by_pid: dict[tuple[str | None, int], set[GlobalRank]] = {}
        """By short host and process id, and by process id alone over all lines."""
        self._cards: dict[tuple[str, Address], set[GlobalRank]] = {}
        """By short host and address of the card on which a rank computes."""
        self._case: Case | None = None
        self._events: tuple[Event, ...] = ()
        self._last: dict[GlobalRank, tuple[When, ...]] = {}

    def learn(self, rank: GlobalRank, host: str | None, pid: int | None) -> None:
        """Notes the process of a rank; where its host is not stated, as that of a process id anywhere."""
        if pid is not None:
            self._by_pid.setdefault((None if host is None else short_host(host), pid), set()).add(rank)

    def learn_card(self, rank: GlobalRank, host: str | None, pci: str) -> None:
        """Notes the card of a rank."""
        card = address(pci)
        if card is not None and host is not None:
            self._cards.setdefault((short_host(host), card), set()).add(rank)

    def heard(self, case: Case, events: tuple[Event, ...]) -> None:
        """Takes the lines among which those of a rank are looked for."""
        self._case, self._events = case, events

    def of(self, host: str, pid: int) -> GlobalRank | None:
        """The rank of a process on a host, by lines that state both; None where none do, or they differ."""
        return only(self._by_pid.get((short_host(host), pid)))

    def anywhere(self, host: str | None, pid: int, host_of: Mapping[GlobalRank, str]) -> GlobalRank | None:
        """The rank of a process id; on another host, or with several ranks, the same number is another process."""
        if host is not None and (short_host(host), pid) in self._by_pid:
            return self.of(host, pid)
        rank = only(self._by_pid.get((None, pid)))
        known = None if rank is None else host_of.get(rank)
        return None if host is not None and known is not None and short_host(known) != short_host(host) else rank

    def refutes(self, event: Event, host: str | None, rank: GlobalRank) -> bool:
        """Whether lines show that a process of which the kernel tells the number is none of that rank.

        Args:
            event: the line that tells the number.
            host: the machine that it is about.
            rank: whose process has that number by its own lines.
        """
        if not event.signature.startswith(KERNEL):
            return False
        card = address(event.fields.get("pci", ""))
        there = None if host is None or card is None else self._cards.get((short_host(host), card))
        if there and rank not in there:
            return True
        return event.signature.startswith(KILLS) and any(self._after(event.when, last) for last in self._lasts(rank))

    def _after(self, end: When, last: When) -> bool:
        if not (exact(end) and exact(last) and end.dated and comparable(end, last)):
            return False
        behind = (last.earliest or 0.0) - (end.latest or 0.0)
        zoned = end.zone is not None and last.zone is not None
        return behind > OUTLIVED and (zoned or not shifted_into(behind, -BEFORE, OUTLIVED))

    def _lasts(self, rank: GlobalRank) -> tuple[When, ...]:
        if rank not in self._last:
            self._last[rank] = tuple(sorted(self._spoken(rank), key=lambda when: when.earliest or 0.0)[-1:])
        return self._last[rank]

    def _spoken(self, rank: GlobalRank) -> Iterator[When]:
        if self._case is None:
            return
        kinds = self._case.kind_of
        for event in self._events:
            if event.who.rank == rank and kinds.get(event.span.source) is SourceKind.LOG and exact(event.when):
                yield event.when


def only(ranks: Iterable[GlobalRank] | None) -> GlobalRank | None:
    """The one rank of a join; None where it has none, or several, which contradict each other."""
    found = set(ranks or ())
    return next(iter(found)) if len(found) == 1 else None
