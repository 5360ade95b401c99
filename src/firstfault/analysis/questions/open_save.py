"""Did ranks wait because a checkpoint that all of them began was still being written? A row of the table about hangs.

It claims a possibility: that a save was open is no proof that it was slow, and nobody is at fault for a slow store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.hang_answers import undecided
from firstfault.analysis.hang_words import collective, waited, waiting_there
from firstfault.analysis.order import comparable, exact, first, sort_key
from firstfault.analysis.wording import duration
from firstfault.model.words import Category, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.picture import Picture
    from firstfault.model.evidence import Event

BURST = 60.0
"""Seconds within which the ranks begin one save."""


def open_save(scene: Scene) -> tuple[Event, ...]:
    """The lines with which several ranks began the last save before the wait, earliest first; empty where one ended behind them.

    A save of one rank alone is none: there the others wait for that rank, which is another row.
    """
    if scene.hang is None:
        return ()
    begins = sorted((e for e in scene.marked(Mark.CHECKPOINT_BEGIN) if _before(scene, e)), key=sort_key)
    if not begins:
        return ()
    last = begins[-1]
    burst = [e for e in begins if e is last or _together(e, last)]
    ranks = {scene.roster.rank(e) for e in burst} - {None}
    waiting = set(scene.hang.waiters)
    if len(ranks) < 2 or not waiting <= ranks:
        return ()
    ended = any(first(burst[0], e) is True and _before(scene, e) for e in scene.marked(Mark.CHECKPOINT_END))
    moved = any(t.last.offset > burst[0].span.offset for s, t in scene.case.tracks.items() if s == burst[0].span.source)
    return () if ended or moved else tuple(burst)


def _before(scene: Scene, event: Event) -> bool:
    return scene.hang is not None and first(event, scene.hang.first) is True


def _together(one: Event, other: Event) -> bool:
    if not (exact(one.when) and exact(other.when) and comparable(one.when, other.when)):
        return False
    return abs((one.when.earliest or 0.0) - (other.when.earliest or 0.0)) <= BURST


def saving(seen: Picture) -> Answer:
    """Ranks wait in a collective while a save that all of them began has not ended."""
    lines = open_save(seen.scene)
    hang = seen.scene.hang
    since = ""
    if (
        hang is not None
        and hang.detected is not None
        and exact(lines[0].when)
        and comparable(lines[0].when, hang.first.when)
    ):
        since = f", {duration(int(1000 * (hang.detected - (lines[0].when.earliest or 0.0))))} before the first time-out"
    answer = undecided(
        seen,
        f"The job hung while a checkpoint was being written: its ranks began to save{since}, no line says that the save ended, and "
        f"{waiting_there(seen)} waited in {collective(seen.nearest)}{waited(seen.scene)}. Those that had written their part wait "
        "for the others: the store was too slow for the timeout, or a rank is stuck in its write.",
        trigger=lines[0],
        scope=Scope.ALL,
        proof=lines[:2],
        steps=(
            (
                "Compare how long earlier saves took with the timeout of the collectives; write to a faster store, save in the "
                "background, or raise the timeout of the group that waits for saves."
            ),
        ),
        collect=("the times that each rank took to write its part", "the logs and counters of the store for that time"),
    )
    return replace(
        answer,
        category=Category.STORAGE_IO,
        strength=Strength.POSSIBLE,
        classes=replace(answer.classes, phase=Phase.CHECKPOINT),
    )
