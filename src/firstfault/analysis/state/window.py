"""What the late ranks were seen doing while the others waited: retries, preparation of data, an open checkpoint, evaluation.

Looks only at lines of those ranks, or at lines without a rank on their hosts; a single retry that may have recovered
says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import comparable, exact, first
from firstfault.analysis.suspects import harmless
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Domain, Mark, Phase, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import SourceId
    from firstfault.model.patterns import SignatureFile

BEFORE = 120.0
"""Seconds before the collective began in which a line still counts: a slow read begins before the others wait."""
LINES = 40
"""Lines before the first line of the hang in which a line without a time stamp counts."""
_LEFT = lazy(r"Retry\(total=(\d+)")
PREPARING = "data.preparing"
"""Signature of what is said of data preparation; the bars that every healthy run draws are none of it, see `firstfault.analysis.lone`."""


class Doing(Word):
    """What a rank was seen doing."""

    PREPARING = "preparing data"
    READING = "retrying reads"
    CHECKPOINT = "saving a checkpoint"
    EVALUATION = "running an evaluation"


class Seen(Struct, frozen=True, kw_only=True):
    """One kind of work in the window, with its lines."""

    doing: Doing
    events: tuple[Event, ...]
    """In order of place; the last is the last before the time-out."""
    direct: bool
    """Whether a line states the rank; else only its host does."""


def activity(
    scene: Scene, ranks: Iterable[GlobalRank], hosts: Iterable[str], edge: Mapping[SourceId, Event]
) -> tuple[Seen, ...]:
    """What late ranks did in the window, most telling first.

    Args:
        scene: the attempt.
        ranks: the late ranks.
        hosts: their hosts.
        edge: first line about the hang in each source.
    """
    late, places = set(ranks), {short_host(h) for h in hosts}
    found: dict[tuple[Doing, bool], list[Event]] = {}
    specs = scene.case.library.by_id
    telling = {s for s in scene.case.signatures if s in specs and _means(s, specs[s]) is not None}
    for event in scene.case.of(telling):
        doing = doing_of(scene, event)
        if doing is None or not _in_window(scene, event, edge):
            continue
        rank = scene.roster.rank(event)
        if rank is not None:
            if rank in late:
                found.setdefault((doing, True), []).append(event)
        elif _on(scene, event, places) or (doing is Doing.PREPARING and 0 in late and _nowhere(scene, event)):
            found.setdefault((doing, False), []).append(event)
    seen = []
    for (doing, direct), events in found.items():
        if doing is Doing.READING and not _serious(events, direct=direct):
            continue
        if doing is Doing.CHECKPOINT and _closed(scene, events[-1]):
            continue
        if doing is Doing.EVALUATION and not direct:
            continue  # every rank takes part in it; a bar without a rank is nobody's
        seen.append(Seen(doing=doing, events=tuple(events), direct=direct))
    order = list(Doing)
    return tuple(sorted(seen, key=lambda s: (not s.direct, order.index(s.doing))))


def doing_of(scene: Scene, event: Event) -> Doing | None:
    """What a line shows its speaker doing; None for lines that show nothing of the kind."""
    spec = scene.case.spec(event)
    doing = None if spec is None else _means(event.signature, spec)
    return None if doing is None or harmless(event) else doing


def _means(signature: str, spec: SignatureFile) -> Doing | None:
    """What lines of a signature show their speaker doing."""
    if signature == PREPARING:
        return Doing.PREPARING
    if Mark.RETRY in spec.marks:
        return Doing.READING
    if Mark.CHECKPOINT_BEGIN in spec.marks:
        return Doing.CHECKPOINT
    if Mark.EVALUATION in spec.marks:
        return Doing.EVALUATION
    data = spec.category in {Category.DATA, Category.STORAGE_IO, Category.DATA_LOADING_STALL}
    return Doing.READING if data and (spec.domain is Domain.DATA or spec.phase is Phase.DATA) else None


def _serious(events: list[Event], *, direct: bool) -> bool:
    """Whether retries went on: a second attempt, the last one, or several lines of the rank itself."""
    for event in events:
        left = _LEFT.search(event.text)
        if left is not None:
            if int(left.group(1)) == 0:
                return True
            continue
        retry = event.fields.get("retry", "")
        if retry.isdecimal() and int(retry) >= 2:
            return True
    return direct and len(events) >= 2


def _in_window(scene: Scene, event: Event, edge: Mapping[SourceId, Event]) -> bool:
    """Whether a line lies between the beginning of the stuck collective and its time-out, as far as can be told."""
    hang = scene.hang
    if hang is not None and hang.began is not None and exact(event.when) and comparable(event.when, hang.first.when):
        at = event.when.earliest or 0.0
        return hang.began - BEFORE <= at <= (hang.detected if hang.detected is not None else at)
    if _older(scene, event):
        return False
    mark = edge.get(event.span.source)
    if mark is None:
        return False
    if event.span.offset >= mark.span.offset or mark.span.line - event.span.line > LINES:
        return False
    track = scene.case.tracks.get(event.span.source)
    last = None if track is None else track.before(mark.span.offset)
    return last is None or last.offset < event.span.offset or mark.span.line - last.line <= 1


def _older(scene: Scene, event: Event) -> bool:
    """Whether a line without a time of its own lies before one that is older than the wait."""
    hang, until = scene.hang, event.when.latest
    if hang is None or hang.began is None or until is None or not comparable(event.when, hang.first.when):
        return False
    return until < hang.began


def _on(scene: Scene, event: Event, places: set[str]) -> bool:
    host = scene.roster.host(event)
    if host is None and not places:
        return len({s.id for s in scene.case.seen.sources}) == 1  # one log of a job that names no host at all
    return host is not None and short_host(host) in places


def _nowhere(scene: Scene, event: Event) -> bool:
    """Whether no line tells on which machine a line was printed, and the job is not known to have several."""
    return scene.roster.host(event) is None and len(scene.roster.machines) <= 1


def _closed(scene: Scene, begin: Event) -> bool:
    """Whether a checkpoint that began was also ended, or progress went on behind it."""
    return any(first(begin, e) is True for e in scene.marked(Mark.CHECKPOINT_END))


def edges(events: Iterable[Event]) -> dict[SourceId, Event]:
    """The first of some lines in each source."""
    found: dict[SourceId, Event] = {}
    for event in events:
        known = found.get(event.span.source)
        if known is None or event.span.offset < known.span.offset:
            found[event.span.source] = event
    return found
