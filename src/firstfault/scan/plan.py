"""What a scan looks for: patterns that engines search, and what confirms and drops their proposals.

Rooms above make a plan; this room must not know where patterns come from. A plan can be pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class Confirmed(Protocol):
    """A match of one signature in a segment."""

    @property
    def start(self) -> int:
        """Byte position in the segment at which the match starts."""

    @property
    def end(self) -> int:
        """Byte position at which it ends."""

    @property
    def fields(self) -> dict[str, str]:
        """Named facts of the line, made anew each time."""

    @property
    def places(self) -> Mapping[str, tuple[int, int]]:
        """Where in the segment those facts stand."""


class Confirmer(Protocol):
    """The truth about one signature, which every engine must agree with."""

    @property
    def placed(self) -> bool:
        """Whether it matters where messages start in a segment."""

    @property
    def several(self) -> bool:
        """Whether it has several patterns, of which two may match one line."""

    def find(self, segment: bytes, starts: Sequence[int] = ...) -> Sequence[Confirmed]:
        """Matches in one segment, leftmost first; empty where it is not of this signature."""

    def look(self, segment: bytes, starts: Sequence[int] = ...) -> tuple[Sequence[Confirmed], bool]:
        """The same, and whether it holds, place by place, for every segment that differs in the value of digits alone."""


class Plan(Protocol):
    """Everything a scan needs to know about one set of signatures."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Signature ids; elsewhere a signature is its index here."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Regular expressions for the engines, without anchors; every line of a signature matches one of its own."""

    @property
    def owners(self) -> tuple[int, ...]:
        """For each pattern the index of its signature."""

    @property
    def drops(self) -> tuple[frozenset[int], ...]:
        """For each signature those that are dropped where it matches in the same segment."""

    @property
    def generic(self) -> frozenset[int]:
        """Signatures that are dropped where any that is not in this set matches in the same segment."""

    def confirmer(self, signature: int) -> Confirmer:
        """What confirms one signature; made at first use, since most are never proposed."""


class Planned(Protocol):
    """A set of signatures that can say its plan."""

    @property
    def plan(self) -> Plan:
        """The plan of these signatures."""


def dropped(plan: Plan, found: Collection[int]) -> frozenset[int]:
    """Of the signatures that match in one segment those that tell nothing beyond the others."""
    gone = frozenset().union(*(plan.drops[signature] for signature in found))
    return gone if plan.generic.issuperset(found) else gone | plan.generic
