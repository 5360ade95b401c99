"""What happened in one or all attempts, clock by clock: events, launcher's lists, first and last steps, begin of a stuck collective.

Orders by stamps of one clock only. What is not stamped stands at its earliest possible time, with its interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.floods import cut, lines_behind
from firstfault.analysis.order import exact
from firstfault.analysis.suspects import BURST, nature_of
from firstfault.model.evidence import Event, Failure, GlobalRank, ProgressSample, SourceId, When, Who
from firstfault.model.words import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.analysis.scene import Scene

PROGRESS, FAILURE, BEGAN = "progress", "launcher.failure", "collective.began"
"""Signatures of what no signature stands for."""
PARTS_OF_LIST = frozenset(f"launcher.torchrun_banner_{part}" for part in ("exit", "host", "rank", "section"))
"""Lines of torchrun's list of failed workers that say of one worker what the row of the list says too."""
ClockKey = tuple[str | None, bool, bool]
"""`UTC` or the stated zone, whether dated, whether of a known year."""


class Moment(Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened, with the line that shows it."""

    shown: Event | Failure | ProgressSample
    what: str
    signature: str
    role: Role
    when: When
    source: SourceId
    offset: int
    attempt: int
    rank: GlobalRank | None = None
    host: str | None = None
    lines: int = 1
    """Lines that it stands for: its own, and of a flood those behind it that were not kept."""
    flood: tuple[SourceId, str, Who] | None = None
    """What the kept lines of one flood have in common; None where every line is at hand."""


class Fold:
    """Equal moments that came in one burst, or are what was kept of one flood."""

    def __init__(self, first: Moment) -> None:
        self.moments = [first]
        self._floods = {first.flood} - {None}

    def takes(self, moment: Moment) -> bool:
        """Whether a later moment of the same kind belongs to it."""
        if moment.flood is not None and moment.flood in self._floods:
            return True  # the lines between are not at hand
        last = self.moments[-1]
        a, b = start_of(last.when), start_of(moment.when)
        if a is None or b is None:
            return last.source == moment.source
        return b - a <= BURST

    def add(self, moment: Moment) -> None:
        """Takes a moment in."""
        self.moments.append(moment)
        if moment.flood is not None:
            self._floods.add(moment.flood)

    @property
    def count(self) -> int:
        """Lines behind it, with those of floods that were not kept."""
        return sum(m.lines for m in self.moments)

    @property
    def when(self) -> When:
        """From the first moment's earliest time to the last possible time of any."""
        first = self.moments[0].when
        earliest = [m.when.earliest for m in self.moments]
        latest = [m.when.latest for m in self.moments]
        return When(
            earliest=None if None in earliest else min(t for t in earliest if t is not None),
            latest=None if None in latest else max(t for t in latest if t is not None),
            zone=first.zone,
            dated=first.dated,
            yeared=first.yeared,
        )


def clock_of(when: When) -> ClockKey | None:
    """The clock of an interval: intervals of one clock compare, of two do not; None where nothing is known."""
    if when.earliest is None and when.latest is None:
        return None
    zone = "UTC" if when.zone is not None and when.dated else when.zone
    return (zone, when.dated, when.yeared)


def start_of(when: When) -> float | None:
    """Time at which something stands in the order: its earliest, else its latest; None where neither is known."""
    return when.latest if when.earliest is None else when.earliest


def moments(scene: Scene) -> list[Moment]:
    """All that happened in one attempt, in no order."""
    found = [_event(scene, event) for event in scene.events]
    found += [_failure(scene, failure) for failure in scene.failures]
    found += _progress(scene)
    found = _not_before_the_wait(found)
    start = began(scene)
    return found if start is None else [*found, start]


def _not_before_the_wait(found: Sequence[Moment]) -> list[Moment]:
    """Moments of which some cannot be as early as their neighbours allow.

    A line without a time that says how long a collective had run is at least that long after the first line of its file,
    and so is what follows it there.
    """
    by: dict[SourceId, list[Moment]] = {}
    for moment in found:
        by.setdefault(moment.source, []).append(moment)
    later: list[Moment] = []
    for moments_here in by.values():
        first = min((m.when.earliest for m in moments_here if m.when.earliest is not None), default=None)
        floor: float | None = None
        for moment in sorted(moments_here, key=lambda m: m.offset):
            ran = _ran(moment.shown) if isinstance(moment.shown, Event) else None
            if ran is not None and first is not None and moment.when.dated:
                floor = max(first + ran, first if floor is None else floor)
            later.append(moment if floor is None else _from(moment, floor))
    return later


def _from(moment: Moment, floor: float) -> Moment:
    """A moment not before a time that lies inside its interval."""
    when = moment.when
    if when.earliest is None or when.latest is None or not when.earliest < floor < when.latest:
        return moment
    return replace(moment, when=replace(when, earliest=floor))


def without_parts_of_lists(found: Sequence[Moment]) -> list[Moment]:
    """Moments without the single lines of a launcher's list, in a source of which it tells whose process failed."""
    told = {m.source for m in found if m.signature == FAILURE}
    return [m for m in found if m.source not in told or m.signature not in PARTS_OF_LIST]


def in_order(found: Iterable[Moment]) -> dict[ClockKey | None, list[Moment]]:
    """Moments by clock, each clock's in order; without a time by source and place.

    The clock with most of them comes first, those without a time last.
    """
    by: dict[ClockKey | None, list[Moment]] = {}
    for moment in found:
        by.setdefault(clock_of(moment.when), []).append(moment)
    keys = sorted(by, key=lambda k: (k is None, -len(by[k]), str(k)))
    for key in keys:
        for part in _PLACE:
            by[key].sort(key=part)
    return {key: by[key] for key in keys}


_PLACE: tuple[Callable[[Moment], Any], ...] = (
    lambda moment: moment.signature,
    lambda moment: moment.offset,
    lambda moment: moment.source,
    lambda moment: moment.when.earliest is not None,
    lambda moment: start_of(moment.when) or 0.0,
)
"""What orders moments of one clock, the weightiest last: one sort after the other needs no copy of it all for each moment."""


def fold(ordered: Sequence[Moment]) -> list[Fold]:
    """Moments of one clock with equal ones of one burst joined, in the order of their first."""
    found: list[Fold] = []
    open_folds: dict[tuple[object, ...], Fold] = {}
    for moment in ordered:
        key: tuple[object, ...] = (moment.signature, moment.what, moment.role, moment.attempt)
        if moment.when.earliest is None and moment.when.latest is None:
            key = (*key, moment.source)
        known = open_folds.get(key)
        if known is not None and known.takes(moment):
            known.add(moment)
        else:
            open_folds[key] = Fold(moment)
            found.append(open_folds[key])
    return found


def _event(scene: Scene, event: Event) -> Moment:
    nature = nature_of(scene.case, event)
    return Moment(
        shown=event,
        what=nature.title,
        signature=event.signature,
        role=nature.role,
        when=event.when,
        source=event.span.source,
        offset=event.span.offset,
        attempt=scene.number,
        rank=scene.roster.rank(event),
        host=scene.roster.host(event),
        lines=lines_behind(event),
        flood=(event.span.source, event.signature, event.who) if cut(event) else None,
    )


def _failure(scene: Scene, failure: Failure) -> Moment:
    code = "" if failure.exit_code is None else f", exit code {failure.exit_code}"
    root = "; it calls this one the root cause" if failure.root else ""
    rank = scene.roster.rank_of(failure.who, failure.span.source, {})
    return Moment(
        shown=failure,
        what=f"The launcher lists a failed process{code}{root}",
        signature=FAILURE,
        role=Role.EFFECT,
        when=failure.when,
        source=failure.span.source,
        offset=failure.span.offset,
        attempt=scene.number,
        rank=rank,
        host=(None if rank is None else scene.roster.host_of_rank(rank)) or failure.who.host,
    )


def _progress(scene: Scene) -> list[Moment]:
    """The first and the last step of each source."""
    found = []
    for _, track in sorted(scene.case.tracks.items()):
        steps = [s for s in track.samples if s.step is not None]
        for sample, which in zip(steps[:1] + steps[1:][-1:], ("first", "last"), strict=False):
            total = "" if sample.total is None else f" of {sample.total}"
            rank = scene.roster.rank_of(Who(rank=sample.rank), sample.source, {})
            found.append(
                Moment(
                    shown=sample,
                    what=f"Training step {sample.step}{total}, the {which} one seen in its file",
                    signature=PROGRESS,
                    role=Role.CONTEXT,
                    when=sample.when,
                    source=sample.source,
                    offset=sample.offset,
                    attempt=scene.number,
                    rank=rank,
                    host=None if rank is None else scene.roster.host_of_rank(rank),
                )
            )
    return found


def began(scene: Scene) -> Moment | None:
    """When the stuck collective began: its time-out less the time that it ran; None where a line does not time both."""
    hang = scene.hang
    if hang is None or hang.began is None:
        return None
    timed = [e for e in hang.events if exact(e.when) and _ran(e) is not None]
    line = min(timed, key=lambda e: (e.when.earliest or 0.0) - (_ran(e) or 0.0), default=None)
    if line is None:
        return None
    what = " ".join(x for x in (line.fields.get("op"), line.fields.get("seq")) if x)
    stamp = When(
        earliest=hang.began, latest=hang.began, zone=line.when.zone, dated=line.when.dated, yeared=line.when.yeared
    )
    return Moment(
        shown=line,
        what=f"{what or 'The collective'} began, in which ranks then waited (its time-out less the time that it ran)",
        signature=BEGAN,
        role=Role.CONTEXT,
        when=stamp,
        source=line.span.source,
        offset=line.span.offset,
        attempt=scene.number,
    )


def _ran(event: Event) -> float | None:
    text = event.fields.get("ran_ms", "")
    return int(text) / 1000 if text.isdecimal() else None
