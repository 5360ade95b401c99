"""Barriers that a program lets fail on purpose: at the end of uneven data its workers join each other by hand, and go on.

What the library says of such a barrier is no wait that went wrong. Knows one signature; judges nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.evidence import Event, SourceId

JOIN = "framework.manual_join"
ABOVE, BELOW = 64, 8
"""Lines around the program's word in which the library's lines about the same barrier stand: those of all ranks are mixed."""


def without_joins(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events without the library's lines about barriers that their program took for the end of its data."""
    spans: dict[SourceId, list[int]] = {}
    for event in events:
        if event.signature == JOIN:
            spans.setdefault(event.span.source, []).append(event.span.line)
    if not spans:
        return tuple(events)
    return tuple(
        e
        for e in events
        if not e.signature.startswith("gloo.")
        or not any(-BELOW <= line - e.span.line <= ABOVE for line in spans.get(e.span.source, ()))
    )
