"""Each rank's part in a hang, and its own lines about it; the order of watchdog lines is a race and plays no part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import first
from firstfault.analysis.outcome import last_word
from firstfault.analysis.state.exits import TOLD
from firstfault.model.words import Mark, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.works import Signal, Spoken, Work
    from firstfault.model.evidence import Event, GlobalRank


KILL = 9
"""Signal of who kills a process, the launcher included."""


class Part(Word):
    """What a rank did in the hang; the order of lines is a race and plays no part."""

    INITIATOR = "initiator"
    """Its own watchdog fired before it was told of another's."""
    NOTIFIED = "notified"
    """It only reacted to another rank's signal first."""
    DIED = "died"
    """It ended by an error of its own before anybody timed out."""
    TERMINATED = "terminated"
    """Its launcher ended it before it said anything about the hang."""
    SILENT = "silent"
    """It said nothing about the hang."""


def own_lines(said: Spoken, works: Iterable[Work]) -> dict[GlobalRank, tuple[Event, ...]]:
    """Lines of each rank about the hang, in order of place."""
    lines: dict[GlobalRank, list[Event]] = {}
    pairs = [
        *((w.rank, w.event) for w in works),
        *((s.rank, s.event) for s in said.states),
        *((s.rank, s.event) for s in (*said.signals, *said.own_signal)),
    ]
    for rank, event in pairs:
        if rank is not None:
            lines.setdefault(rank, []).append(event)
    return {r: tuple(sorted(es, key=lambda e: (e.span.source, e.span.offset))) for r, es in sorted(lines.items())}


def parts_of(
    scene: Scene, said: Spoken, works: Sequence[Work], own: Mapping[GlobalRank, tuple[Event, ...]]
) -> dict[GlobalRank, Part]:
    """The part of every rank that is expected or was seen, by global rank; none for one that may be the speaker of a line.

    A work whose line does not tell which rank waited may be that of any rank that is not heard otherwise: it is not silent.
    One whose watchdog fired is an initiator unless it had been told of another's time-out before. A rank that ended by
    an error of its own before anybody timed out died, even where its process lived on to be told.
    """
    fired: dict[GlobalRank, Event] = {}
    for rank, event in [*((w.rank, w.event) for w in works), *((s.rank, s.event) for s in said.own_signal)]:
        if rank is not None:
            fired[rank] = event if rank not in fired or first(event, fired[rank]) is True else fired[rank]
    told: dict[GlobalRank, Signal] = {}
    for signal in said.signals:
        if signal.rank is not None:
            told.setdefault(signal.rank, signal)
    died = _died(scene)
    stopped = _stopped(scene)
    placed = all(w.rank is not None for w in works)
    parts: dict[GlobalRank, Part] = {}
    known = {*scene.complete.seen, *scene.complete.silent, *own, *died, *stopped}
    for rank in sorted(known):
        if rank in fired and (rank not in told or first(told[rank].event, fired[rank]) is not True):
            parts[rank] = Part.INITIATOR
        elif rank in died:
            parts[rank] = Part.DIED
        elif rank in told or rank in own:
            parts[rank] = Part.NOTIFIED
        elif rank in stopped:
            parts[rank] = Part.TERMINATED
        elif placed:
            parts[rank] = Part.SILENT
    return parts


def _died(scene: Scene) -> set[GlobalRank]:
    """Ranks that ended by an error of their own, or were reported dead, before the first line about the hang."""
    start = None if scene.hang is None else scene.hang.first
    errors = [e for s in scene.suspects for e in s.events]
    # What programs often survive was not survived where it is the last that a program said.
    errors += [e for s in scene.weak for e in s.events if last_word(e)]
    died = {
        r for e in errors if (r := scene.roster.rank(e)) is not None and (start is None or first(start, e) is not True)
    }
    for end in scene.exits:
        before = end.event is not None and start is not None and first(end.event, start) is True
        if end.rank is not None and before and end.signal not in TOLD:
            died.add(end.rank)
    return died


def _stopped(scene: Scene) -> set[GlobalRank]:
    """Ranks that somebody told to stop, or that are reported to have ended by such a signal.

    One that was killed while all others were asked to stop, by a launcher that did not ask it, was not ended by that launcher.
    """
    stopped = {r for e in scene.marked(Mark.STOP_SIGNAL) if (r := scene.roster.rank(e)) is not None}
    ends = [e for e in scene.exits if e.rank is not None]
    asked = [e for e in ends if e.signal != KILL]
    apart = bool(stopped) and bool(asked) and all(e.signal in TOLD for e in asked)
    ways = TOLD if apart else TOLD | {KILL}
    return stopped | {e.rank for e in ends if e.rank is not None and e.signal in ways}
