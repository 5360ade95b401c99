"""Claims: what follows from the observations, with its reason, its strength and its lines."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Event, ProgressSample, Span
from firstfault.model.words import Category, Strength


class Link(Struct, frozen=True, kw_only=True):
    """One step of a chain: a cause, its effect and the named reason; never "because earlier" alone."""

    what: str
    why: str
    spans: tuple[Span, ...] = ()
    events: tuple[Event, ...] = ()
    samples: tuple[ProgressSample, ...] = ()
    """Lines that prove steps, where these are its evidence."""


class Rival(Struct, frozen=True, kw_only=True):
    """Another explanation that was kept, with what speaks for and against it."""

    category: Category
    strength: Strength
    supports: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    settled_by: tuple[str, ...] = ()
