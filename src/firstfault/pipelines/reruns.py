"""Takes from the raw lines of a run what tells when it ran and how far it went, to be held against an incident.

Must not compare (see `firstfault.incidents.verification`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from firstfault.incidents.ran import Ran, framework_of, last_day, ran_of_lines
from firstfault.incidents.screen import Screen
from firstfault.pipelines.seen_before import NO_LOGS
from firstfault.readers.steplines import TRAINING, read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.analysis.conclude import Conclusion
    from firstfault.incidents.record import Record
    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

IN_ALL = 32 << 20
"""Bytes that are looked at over all sources."""
EACH, LEAST = 64 << 10, 4 << 10
"""Bytes of the begin of one source at most, and at least."""
LINES = 400
SPOTS = 16
"""Places of a source at which its stamps are looked at, beside its begin and its end."""
PART = 1 << 20
"""Bytes of a source that are read at once."""


def ran_in(conclusion: Conclusion, store: Store, record: Record | None = None) -> Ran:
    """When a run began and how far it went, by the first lines of the sources in which it trained or said its end.

    Args:
        conclusion: of the run.
        store: of its bytes.
        record: the incident against which it is held: all lines are asked for a fault of its kind; none are where None.
    """
    scene = conclusion.scene
    seen = scene.case.seen
    sources = {p.source for p in seen.progress}
    ends: dict[SourceId, int] = {}
    if scene.outcome.event is not None:
        sources.add(scene.outcome.event.span.source)
        ends = {scene.outcome.event.span.source: scene.outcome.event.span.offset}
    each = max(LEAST, min(EACH, IN_ALL // max(1, len(sources))))
    read = sorted(sources or {s.id for s in seen.sources})
    heads = [_head(store, source, each) for source in read]
    heads_told = [[line.decode("utf-8", "replace") for line in head] for head in heads]
    totals = {p.total for p in seen.progress if p.total is not None}
    ran = ran_of_lines(
        heads_told,
        began_after=min((step for head in heads if (step := _began_after(head)) is not None), default=None),
        total=totals.pop() if len(totals) == 1 else None,
    )
    later = [_later(store, source, ends.get(source)) for source in read]
    told = ran_of_lines([*heads_told, *later])
    form = framework_of(line for head in heads for line in head)
    ran = structs.replace(ran, readings=told.readings, last=last_day(later), framework=form)
    return ran if record is None else _screened(ran, record, conclusion, store)


def _screened(ran: Ran, record: Record, conclusion: Conclusion, store: Store) -> Ran:
    """The same, and what all its lines tell against its good end."""
    screen = Screen(record)
    for source in conclusion.scene.case.seen.sources:
        if source.kind not in NO_LOGS and screen.source(_all_lines(store, source.id)):
            break
    return structs.replace(
        ran,
        passed_over=screen.passed_over,
        smaller=screen.smaller,
        anew=screen.anew,
        error=screen.error,
        back=screen.back,
        stood=screen.stood,
    )


def _all_lines(store: Store, source: SourceId) -> Iterator[bytes]:
    """Every line of a log, and every part of one that was drawn anew; one that is longer than `PART` is cut in two."""
    offset, rest = 0, b""
    while part := store.read(source, offset, PART):
        offset += len(part)
        # A bar that is redrawn is one line of many parts, and what was said between them stands in it.
        *whole, rest = (rest + part).replace(b"\r", b"\n").split(b"\n")
        yield from whole
        if len(rest) > PART:
            yield rest
            rest = b""
    if rest:
        yield rest


def _head(store: Store, source: SourceId, size: int) -> list[bytes]:
    raw = store.read(source, 0, size)
    lines = [part for line in raw.split(b"\n", LINES)[:LINES] for part in line.split(b"\r")[:2]]
    # The last one may be cut.
    return lines[:-1] if len(raw) == size and len(lines) > 1 else lines


def _later(store: Store, source: SourceId, end: int | None) -> list[str]:
    """Lines behind the first ones: at places all over the source, where the run said its end, and the last ones.

    Runs are appended to one file: the one whose end counts may be older than that which stands first.
    """
    size = store.size(source)
    places = [size * part // SPOTS for part in range(1, SPOTS)]
    places += [max(0, size - LEAST), *([] if end is None else [max(0, end - LEAST // 2)])]
    found: list[str] = []
    for place in sorted(set(places)):
        # The first and the last line of a place may be cut.
        lines = store.read(source, place, LEAST).split(b"\n")
        whole = lines[1 if place else 0 : None if place + LEAST >= size else -1]
        found += [line.decode("utf-8", "replace") for line in whole]
    return found


def _began_after(lines: list[bytes]) -> int | None:
    """The step behind which the first one lies, by how far apart the first two are; None where fewer are there."""
    steps = list(dict.fromkeys(_steps(lines)))[:2]
    return None if len(steps) < 2 or steps[1] < steps[0] else max(0, steps[0] - (steps[1] - steps[0]))


def _steps(lines: list[bytes]) -> Iterator[int]:
    for line in lines:
        shape = read_progress(line)
        if shape is not None and shape.kind == TRAINING and shape.step is not None:
            yield shape.step
