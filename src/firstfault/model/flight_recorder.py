"""The view of flight-recorder dumps that `firstfault flight-recorder` shows: one row a process group, and what differs."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.diagnosis import CoverageRow, Culprits, Evidence, Published
from firstfault.model.words import Category, Strength

SCHEMA = "firstfault.flight_recorder/1"


class StuckWork(Struct, frozen=True, kw_only=True):
    """The first work of a group that does not end."""

    number: int
    """Sequence number in the group."""
    op: str
    waiting: list[int] = []
    """Ranks in it."""
    awaited: list[int] = []
    """Ranks that they wait for; empty where all members are in it."""
    why: str | None = None
    """`absent`, `frozen`, `unpaired`, `busy` or `unseen`; None where all members are in it."""


class GroupRow(Struct, frozen=True, kw_only=True):
    """One process group."""

    name: str
    description: str
    members: list[int]
    told: bool
    """Whether a dump tells the members; else they are those that were seen."""
    without_dump: list[int]
    issued_least: int | None
    """Lowest number that a member issued last."""
    issued_most: int | None
    behind: list[int]
    """Members that issued less than the others."""
    stuck: StuckWork | None = None


class Side(Struct, frozen=True, kw_only=True):
    """What some ranks issued."""

    what: str
    ranks: list[int]
    place: str | None = None
    """File, line and function of the call of one of them."""


class Difference(Struct, frozen=True, kw_only=True):
    """Different calls at one number of one group."""

    group: str
    number: int
    kind: str
    """`op`, `size`, `dtype` or `total`."""
    sides: list[Side]
    """Largest side first."""
    odd: list[int]
    """Ranks of the clearly smaller side; empty where there is none."""
    shift: str | None = None
    """`skipped`, `extra` or `swapped`, where the next numbers show it."""


class RecorderVerdict(Struct, frozen=True, kw_only=True):
    """What the dumps alone say; the words are those of a diagnosis."""

    failed: bool | None
    category: Category
    strength: Strength
    summary: str
    culprits: Culprits


class RecorderView(Published, frozen=True, kw_only=True):
    """All dumps of one input."""

    schema: str = SCHEMA
    verdict: RecorderVerdict
    expected: list[int]
    """Ranks that the groups name, and those that left a dump."""
    told: bool
    """Whether a dump tells the members of the whole job."""
    dumps: list[int]
    """Ranks that left a dump."""
    missing: list[int]
    frozen: list[int]
    """Ranks whose completions stopped before those of their peers."""
    groups: list[GroupRow]
    difference: Difference | None
    key_entries: list[Evidence]
    coverage: list[CoverageRow]
