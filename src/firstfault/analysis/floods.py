"""How many lines stand behind those of a flood that were kept: of many equal ones the first and the last few are at hand.

Counts only. Whose the lines are that were not kept is told where all kept ones of their flood are of one rank.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from firstfault.model.evidence import GlobalRank, SourceId
from firstfault.scan.results import FIRST, LAST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import Event

Speaker = tuple[SourceId, GlobalRank | None]
"""A source, and the rank that said a line of it; None where that is not known."""

KEPT = FIRST + LAST
"""Lines that are kept of a flood."""


def cut(event: Event) -> bool:
    """Whether a line is of a flood of which some lines were not kept."""
    return event.count > KEPT


def lines_behind(event: Event) -> int:
    """Lines that a kept line stands for: itself, and where those follow that were not kept, these too."""
    return 1 + event.count - KEPT if cut(event) and event.ordinal == FIRST - 1 else 1


def counted_lines(events: Iterable[tuple[Event, GlobalRank | None]]) -> dict[str, Counter[Speaker]]:
    """Lines of each signature by who said them.

    Args:
        events: the kept lines, each with its rank.

    Returns:
        By signature; the sum over all speakers is the number of lines that were there.
    """
    totals: dict[str, Counter[Speaker]] = {}
    floods: dict[tuple[str, SourceId, int], list[tuple[Event, GlobalRank | None]]] = {}
    for event, rank in events:
        totals.setdefault(event.signature, Counter())[event.span.source, rank] += 1
        if cut(event):
            floods.setdefault((event.signature, event.span.source, event.count), []).append((event, rank))
    for (signature, source, count), kept in floods.items():
        # Floods of one length in one source are not told apart: a rank that has all kept lines of one has said all of it.
        number = sum(lines_behind(event) > 1 for event, _ in kept)
        for rank, lines in Counter(rank for _, rank in kept).items():
            own = min(number, lines // KEPT)
            number -= own
            totals[signature][source, rank] += own * (count - KEPT)
        totals[signature][source, None] += number * (count - KEPT)
    return {signature: +by for signature, by in totals.items()}
