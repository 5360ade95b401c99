"""What a quick look would have concluded, shown where it differs from the verdict, and why it was dropped."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import sort_key
from firstfault.analysis.suspects import group, nature_of
from firstfault.analysis.wording import ranks_text
from firstfault.model.evidence import Event, Failure, Who
from firstfault.model.words import Mark, Role

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene


class Naive(Struct, frozen=True, kw_only=True):
    """One quick reading."""

    reading: str
    says: str
    dropped_because: str
    event: Event | None = None
    failure: Failure | None = None


MOST = 3
"""Acquitted kinds of lines that are told of."""


def naive_readings(scene: Scene, answer: Answer) -> tuple[Naive, ...]:
    """Quick readings where they mislead, the most tempting first."""
    if answer.failed is not True:
        return _acquitted(scene) if answer.failed is False else ()
    blamed = set(answer.culprits.ranks or answer.first_failed.ranks)
    readings = [_launcher(scene, blamed), _watchdog(scene, blamed), _first_error(scene, answer)]
    readings.append(_last_error(scene, answer, reports=not any(readings)))
    kept: dict[str, Naive] = {}
    for reading in readings:
        if reading is not None:
            kept.setdefault(reading.says.rpartition(":")[2], reading)
    return tuple(kept.values())


def _acquitted(scene: Scene) -> tuple[Naive, ...]:
    """What looks like a failure in a run that ended well: errors that ended nothing, then lines that are none."""
    found = sorted(scene.acquitted, key=lambda s: (-s.nature.strength.level, -s.nature.depth, s.nature.key))
    kinds = [(s.nature.title, s.events) for s in found]
    looks = group(scene.case, scene.roster, (e for e in scene.events if nature_of(scene.case, e).role is Role.NOISE))
    kinds += [(s.nature.title, s.events) for s in looks]
    return tuple(
        Naive(
            reading="acquitted",
            says=f"{title} ({_lines(events)}).",
            dropped_because="it ended nothing, the run came to its end",
            event=events[0],
        )
        for title, events in kinds[:MOST]
    )


def _lines(events: Sequence[Event]) -> str:
    """How many lines stand behind some kept ones."""
    # The kept lines of one speaker's flood all carry its count.
    kept = Counter((event.span.source, event.who) for event in events)
    floods: dict[tuple[int, Who], int] = {}
    for event in events:
        key = (event.span.source, event.who)
        floods[key] = max(floods.get(key, kept[key]), event.count)
    total = sum(floods.values())
    return "1 line" if total == 1 else f"{total} lines"


def _watchdog(scene: Scene, blamed: Container[int]) -> Naive | None:
    event = min(scene.marked(Mark.HANG), key=sort_key, default=None)
    rank = None if event is None else scene.roster.rank(event)
    if event is None or rank is None or rank in blamed or not event.signature.startswith("nccl."):
        return None
    return Naive(
        reading="first_watchdog_line",
        says=f"Rank {rank} is at fault, its watchdog fired first.",
        dropped_because="a rank whose watchdog fires was waiting for others; which fires first is chance",
        event=event,
    )


def _errors(scene: Scene, *, reports: bool = False) -> list[Event]:
    """Lines that say what went wrong; a launcher's report of who ended counts only where it is asked for."""
    case = scene.case
    left_out = case.signatures_with(Mark.STATE) if reports else case.signatures_with(Mark.STATE, Mark.DEATH)
    wanted = {s for s in case.signatures if s not in left_out and (reports or not s.startswith("launcher."))}
    wrong = {Role.CAUSE, Role.EFFECT}
    wanted -= {s for s in wanted & case.uniform if nature_of(case, case.one_of(s)).role not in wrong}
    return [e for e in case.of(wanted) if nature_of(case, e).role in wrong]


def _first_error(scene: Scene, answer: Answer) -> Naive | None:
    """The error above the trigger in its own file, where the answer tells that it only follows from it."""
    trigger = answer.trigger
    if trigger is None or not answer.follows:
        return None
    reasons = {(e.span.source, e.span.line): why for e, why in answer.follows}
    above = [
        e
        for e in _errors(scene)
        if e.span.source == trigger.span.source
        and e.span.line < trigger.span.line
        and (e.span.source, e.span.line) in reasons
    ]
    event = min(above, key=sort_key, default=None)
    if event is None:
        return None
    return Naive(
        reading="first_error",
        says=f"The first error line is the cause: {nature_of(scene.case, event).title}.",
        dropped_because=reasons[event.span.source, event.span.line],
        event=event,
    )


def _ended(event: Event) -> tuple[float, int, int]:
    """By when a line was printed at the latest, then its place: one of which only an end is known is not last for that."""
    latest = event.when.latest if event.when.latest is not None and event.when.dated else float("inf")
    return (latest, event.span.source, event.span.offset)


def _last_error(scene: Scene, answer: Answer, *, reports: bool) -> Naive | None:
    """The last error; a launcher's report stands for it only where nothing else misleads."""
    event = max(_errors(scene, reports=reports), key=_ended, default=None)
    if event is None or answer.trigger is None:
        return None
    reasons = {(e.span.source, e.span.line): why for e, why in answer.follows or ()}
    # The trigger may be a sign of the fault, which then stands further below: that is no misleading one.
    if event.signature in {e.signature for e in (answer.trigger, answer.fault) if e is not None}:
        return None
    reports = reports and event not in _errors(scene)
    if reports:
        return Naive(
            reading="last_error",
            says=f"The last report is the cause: {nature_of(scene.case, event).title}.",
            dropped_because="it says which process ended, not why",
            event=event,
        )
    return Naive(
        reading="last_error",
        says=f"The last error is the cause: {nature_of(scene.case, event).title}.",
        dropped_because=reasons.get(
            (event.span.source, event.span.line),
            "the last error is as a rule what the failure led to, not where it began",
        ),
        event=event,
    )


def _launcher(scene: Scene, blamed: Container[int]) -> Naive | None:
    wrong = [f for f in scene.failures if f.root and f.who.rank is not None and f.who.rank not in blamed]
    if not wrong or not blamed:
        # Where nobody is known to be the origin, the launcher may well be right.
        return None
    ranks = sorted({f.who.rank for f in wrong if f.who.rank is not None})
    return Naive(
        reading="launcher_root_cause",
        says=f"{ranks_text(ranks).capitalize()}, which the launcher calls the root cause.",
        dropped_because="a launcher names the earliest exit on its own node, and that is often a victim",
        failure=wrong[0],
    )
