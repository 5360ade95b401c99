"""Suspects that one line tells: a code and the words behind it, a general word and the exact one. Orders nothing by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.analysis.suspects import Suspect


def same_line(a: Suspect, b: Suspect) -> bool:
    """Whether one line of a machine is told as both: a code and the words behind it."""
    lines = {(e.span.source, e.span.line) for e in a.events if e.exception is None}
    return any((e.span.source, e.span.line) in lines for e in b.events)


def said_with(told: Suspect, suspect: Suspect) -> bool:
    """Whether all lines of a suspect are lines of a better proven one: these are not two faults, one of which came first.

    Evidence may begin where in its line the words of its signature do; it ends with what one speaker says there.
    """
    ours = (told.nature.depth, told.nature.strength.level)
    if ours <= (suspect.nature.depth, suspect.nature.strength.level):
        return False
    ends = {(e.span.source, e.span.offset + e.span.length) for e in told.events}
    return all((e.span.source, e.span.offset + e.span.length) in ends for e in suspect.events)
