"""Claims: what follows from the observations, with role, strength and proof."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Event, GlobalRank, Span
from firstfault.model.words import Category, Role, Strength


class Finding(Struct, frozen=True, kw_only=True):
    """One claim of one question."""

    question: str
    """Name of the module in `firstfault.analysis.questions` that asked."""
    key: str
    """Signature id or a name of the question's own; findings of one key are the same kind of thing."""
    claim: str
    """One English sentence."""
    role: Role
    category: Category | None
    strength: Strength
    ranks: tuple[GlobalRank, ...] = ()
    """Global ranks that the claim is about, sorted."""
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    storage_nodes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    """The proof, earliest first."""
    depth: int = 50


class Link(Struct, frozen=True, kw_only=True):
    """One step of a chain: a cause, its effect and the named reason; never "because earlier" alone."""

    what: str
    why: str
    spans: tuple[Span, ...] = ()
    events: tuple[Event, ...] = ()


class Rival(Struct, frozen=True, kw_only=True):
    """Another explanation that was kept, with what speaks for and against it."""

    category: Category
    strength: Strength
    supports: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    settled_by: tuple[str, ...] = ()


class Explanation(Struct, frozen=True, kw_only=True):
    """One root with its chain."""

    root: Finding | None
    chain: tuple[Link, ...] = ()
    strength: Strength = Strength.UNKNOWN
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    settled_by: tuple[str, ...] = ()
