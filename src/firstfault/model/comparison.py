"""What differs between two diagnoses of one incident; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import Evidence, Published, Verdict

COMPARISON = "firstfault.diff/1"
What = Literal[
    "failed", "category", "strength", "culprits", "culprits_strength", "first_failed", "trigger", "action", "summary"
]
"""A part of a verdict."""


class Change(Struct, frozen=True, kw_only=True):
    """One part of the verdict that is not the same."""

    what: What
    before: str
    """In words; empty where there was none."""
    after: str


class InputChange(Struct, frozen=True, kw_only=True):
    """One input that only one of the two had, or that was read otherwise."""

    file: str
    change: Literal["added", "gone", "read_otherwise"]
    before: str = ""
    """State, bytes and reason; empty where it was not there."""
    after: str = ""


class Comparison(Published, frozen=True, kw_only=True):
    """Two diagnoses of one incident, side by side."""

    schema: str = COMPARISON
    same: bool
    """Whether the verdicts are the same; their evidence and inputs may differ."""
    before: Verdict
    after: Verdict
    changes: list[Change] = field(default_factory=list)
    """Nothing where the verdicts are the same."""
    why: list[str] = field(default_factory=list)
    """What the two documents show about the reason: inputs, lines that no longer read back, rivals that changed places."""
    inputs: list[InputChange] = field(default_factory=list)
    lines_added: list[Evidence] = field(default_factory=list)
    """Lines on which only the second diagnosis rests."""
    lines_gone: list[Evidence] = field(default_factory=list)
    """Lines on which only the first diagnosis rested."""
