"""Which errors only tell that a peer is gone whose processes were seen to stand still, or to end, before.

A transport that gets no answer says so in the same words whether a link failed or the process behind it has ended. Where
another file tells that end, and puts it before, the transport is not where the failure began. What ended the peer is for
others to say. A machine's fault that is a suspect itself is weighed against the error elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import comparable, exact, sort_key
from firstfault.model.words import Category, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event

PEER_GONE = "the processes at the address that it names had stood still or ended before it"
"""What is said of such an error."""
NEAR = 64
"""Lines behind one without a time among which the next one with a time dates it: a process tells its end within few lines."""


def peers_gone(scene: Scene, suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Suspects of the network all of whose lines name a peer that was seen to stand still or to end before.

    Args:
        scene: the attempt.
        suspects: all that may be the first fault.
    """
    silent = [s for s in suspects if s.nature.category is Category.NETWORK and _peers(s)]
    if not silent:
        return ()
    ends: dict[str, list[Event]] = {}
    for event in (*scene.marked(Mark.FROZEN, Mark.ABORT), *scene.deaths):
        host = scene.roster.host(event)
        if host is not None and exact(event.when):
            ends.setdefault(short_host(host), []).append(event)
    return tuple(s for s in silent if _gone(scene, s, ends))


def _peers(suspect: Suspect) -> frozenset[str]:
    """Addresses that the lines of a suspect name as silent; empty where a line names none."""
    named = [e.fields.get("peer_host") for e in suspect.events]
    return frozenset() if None in named else frozenset(short_host(p) for p in named if p is not None)


def _gone(scene: Scene, suspect: Suspect, ends: dict[str, list[Event]]) -> bool:
    told = _dated(scene, suspect.first)
    if told is None or _peers(suspect) & {short_host(h) for h in suspect.hosts}:
        return False
    return all(any(_before(scene, end, told) for end in ends.get(peer, ())) for peer in _peers(suspect))


def _dated(scene: Scene, event: Event) -> Event | None:
    """The line itself where it states a time, else the next one below that does: it was printed no later than that."""
    if exact(event.when):
        return event
    below: Iterable[Event] = (
        e
        for e in scene.events
        if e.span.source == event.span.source and 0 < e.span.line - event.span.line <= NEAR and exact(e.when)
    )
    return min(below, key=sort_key, default=None)


def _before(scene: Scene, end: Event, told: Event) -> bool:
    """Whether a process stood still, or had ended, when an error was told: a stuck watchdog had been so for its whole time."""
    if not comparable(end.when, told.when) or end.when.latest is None or told.when.earliest is None:
        return False
    value = end.fields.get("value", "") if scene.case.has(end, Mark.FROZEN) else ""
    return end.when.latest - (float(value) if value.isdecimal() else 0.0) < told.when.earliest
