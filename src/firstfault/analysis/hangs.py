"""What is known of a hang: who waited, since when, for which collective; names nobody as the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import exact, sort_key
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case
    from firstfault.analysis.state.ranks import Roster


class Hang(Struct, frozen=True, kw_only=True):
    """A wait that was too long."""

    events: tuple[Event, ...]
    """All lines that speak of it, earliest first."""
    waiters: tuple[GlobalRank, ...]
    """Ranks that said that they waited, sorted."""
    began: float | None
    """When the stuck collective began: detection minus the time it ran; None where not timed."""
    detected: float | None
    op: str | None
    seq: str | None
    waited_ms: int | None

    @property
    def first(self) -> Event:
        """The earliest line."""
        return self.events[0]


def find_hang(case: Case, roster: Roster, events: Iterable[Event]) -> Hang | None:
    """The hang of an attempt, from lines with mark `hang`; None where there are none."""
    found = sorted((e for e in events if case.has(e, Mark.HANG)), key=sort_key)
    if not found:
        return None
    waiters = sorted({r for r in (roster.rank(e) for e in found) if r is not None})
    began: list[float] = []
    detected: list[float] = []
    waited: list[int] = []
    op = seq = None
    for event in found:
        ran = event.fields.get("ran_ms", event.fields.get("timeout_ms", ""))
        if ran.isdecimal():
            waited.append(int(ran))
        if exact(event.when) and event.when.earliest is not None:
            detected.append(event.when.earliest)
            if ran.isdecimal():
                began.append(event.when.earliest - int(ran) / 1000)
        if op is None:
            op, seq = event.fields.get("op"), event.fields.get("seq")
    return Hang(
        events=tuple(found),
        waiters=tuple(waiters),
        began=min(began, default=None),
        detected=min(detected, default=None),
        op=op,
        seq=seq,
        waited_ms=min(waited, default=None),
    )
