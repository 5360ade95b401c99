"""What a quick look would have concluded, shown where it differs from the verdict, and why it was dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import sort_key
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.wording import ranks_text
from firstfault.model.evidence import Event, Failure
from firstfault.model.words import Mark, Role

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene


class Naive(Struct, frozen=True, kw_only=True):
    """One quick reading."""

    reading: str
    says: str
    dropped_because: str
    event: Event | None = None
    failure: Failure | None = None


def naive_readings(scene: Scene, answer: Answer) -> tuple[Naive, ...]:
    """Readings by the first watchdog line, the last error and the launcher's root cause, where they mislead."""
    found: list[Naive] = []
    blamed = set(answer.culprits.ranks or answer.first_failed.ranks)
    watchdog = [e for e in scene.events if scene.case.has(e, Mark.HANG)]
    if watchdog:
        first = min(watchdog, key=sort_key)
        rank = scene.roster.rank(first)
        if rank is not None and rank not in blamed:
            found.append(
                Naive(
                    reading="first_watchdog_line",
                    says=f"Rank {rank} is at fault: its watchdog fired first.",
                    dropped_because="a rank whose watchdog fires was waiting for others; the order of watchdog lines is a race",
                    event=first,
                )
            )
    errors = [e for e in scene.events if nature_of(scene.case, e).role in {Role.CAUSE, Role.EFFECT}]
    if errors and answer.trigger is not None:
        last = max(errors, key=sort_key)
        if last.signature != answer.trigger.signature:
            found.append(
                Naive(
                    reading="last_error",
                    says=f"The last error is the cause: {nature_of(scene.case, last).title}.",
                    dropped_because="the last error is as a rule what the failure led to, not where it began",
                    event=last,
                )
            )
    roots = [f for f in scene.failures if f.root]
    wrong = [f for f in roots if f.who.rank is not None and f.who.rank not in blamed]
    if wrong and blamed:
        # Where nobody is known to be the origin, the launcher may well be right.
        ranks = sorted({f.who.rank for f in wrong if f.who.rank is not None})
        found.append(
            Naive(
                reading="launcher_root_cause",
                says=f"{ranks_text(ranks).capitalize()}: the launcher calls it the root cause.",
                dropped_because="a launcher calls the earliest exit on its own node the root cause, and that is often a victim",
                failure=wrong[0],
            )
        )
    return tuple(found)
