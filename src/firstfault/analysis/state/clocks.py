"""Clocks of machines that differ, told by steps that several logs print: a step is done everywhere at about one moment.

Puts all observations on the clock that most logs share, and says so in the coverage. Must not guess: a shift needs logs of
different machines and different ranks of one run, in which several steps lie the same time apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.median import median
from firstfault.analysis.order import Clock, clock_of, exact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Observations
    from firstfault.model.evidence import GlobalRank, SourceId, When

COMMON = 3
"""Steps that two logs must share."""
SPREAD = 2.0
"""Seconds within which these must lie the same time apart: stamps of a second each, and outputs that are flushed late."""
TRIMMED = 0.1
"""Share of the differences at either end that is left out: outputs that are flushed late."""
LEAST = 3.0
"""Seconds: a smaller shift is no more than how far apart ranks print."""

Series = dict[int, float]


def on_one_clock(seen: Observations) -> Observations:
    """The observations with the times of machines whose clocks stand apart moved to the clock that most logs share."""
    shift = shifts(seen)
    if not shift:
        return seen
    paths = {source.id: source.path for source in seen.sources}
    told = {paths[source]: seconds for source, seconds in shift.items()}
    return replace(
        seen,
        events=tuple(replace(e, when=_moved(e.when, shift.get(e.span.source))) for e in seen.events),
        failures=tuple(replace(f, when=_moved(f.when, shift.get(f.span.source))) for f in seen.failures),
        progress=tuple(replace(p, when=_moved(p.when, shift.get(p.source))) for p in seen.progress),
        nan_from=tuple(replace(e, when=_moved(e.when, shift.get(e.span.source))) for e in seen.nan_from),
        coverage=tuple(
            c if c.file not in told else replace(c, reason="; ".join(filter(None, (c.reason, _words(told[c.file])))))
            for c in seen.coverage
        ),
    )


def shifts(seen: Observations) -> dict[SourceId, float]:
    """Seconds by which the clock of each source is ahead of that of most, where that is shown; others are left out."""
    told = {source: series for source, series in _series(seen).items() if len(series[1]) >= COMMON}
    if len(told) < 2:
        return {}
    hosts = _hosts(seen)
    ranks = _ranks(seen)
    logs = {source: series for source, series in told.items() if source in hosts and ranks.get(source)}
    if len({hosts[source] for source in logs}) < 2:
        return {}
    middle = max(logs, key=lambda source: (len(logs[source][1]), -source))
    offsets = {middle: 0.0}
    for source, (clock, steps) in logs.items():
        if source == middle or clock != logs[middle][0]:
            continue
        apart = steps_apart(steps, logs[middle][1], common=COMMON, spread=SPREAD, trimmed=TRIMMED)
        if apart is None:
            continue
        if abs(apart) >= LEAST and (hosts[source] == hosts[middle] or ranks[source] & ranks[middle]):
            return {}  # one machine or one rank at two times: two starts of the job
        offsets[source] = apart
    usual = median(sorted(offsets.values()))
    by_host: dict[str, set[float]] = {}
    for source, apart in offsets.items():
        by_host.setdefault(hosts[source], set()).add(apart - usual)
    moved = {
        host: median(sorted(found))
        for host, found in by_host.items()
        if max(found) - min(found) <= SPREAD and abs(median(sorted(found))) >= LEAST
    }
    return {source: moved[host] for source, host in hosts.items() if host in moved}


def _series(seen: Observations) -> dict[SourceId, tuple[Clock, Series]]:
    """When each step was printed, by source, where stamps with a date tell it and no step comes twice."""
    found: dict[SourceId, tuple[Clock, Series]] = {}
    twice: set[SourceId] = set()
    for sample in seen.progress:
        if sample.step is None or sample.when.earliest is None or not (sample.when.dated and exact(sample.when)):
            continue
        clock, steps = found.setdefault(sample.source, (clock_of(sample.when), {}))
        if (
            clock != clock_of(sample.when)
            or steps.setdefault(sample.step, sample.when.earliest) != sample.when.earliest
        ):
            twice.add(sample.source)
    return {source: series for source, series in found.items() if source not in twice}


def steps_apart(steps: Series, others: Series, *, common: int, spread: float, trimmed: float = 0.0) -> float | None:
    """Seconds by which equal steps are later in one series than in another; None where they do not agree on it.

    Args:
        steps: when each step was printed.
        others: the same by another clock.
        common: steps that both must have.
        spread: seconds within which the differences must lie.
        trimmed: share of the differences that is left out at either end, for outputs that are flushed late.
    """
    gaps = sorted(at - others[step] for step, at in steps.items() if step in others)
    if len(gaps) < common:
        return None
    cut = int(len(gaps) * trimmed)
    kept = gaps[cut : len(gaps) - cut]
    return median(kept) if kept[-1] - kept[0] <= spread else None


def _hosts(seen: Observations) -> dict[SourceId, str]:
    """The machine whose lines a source holds, where there is one only."""
    said: dict[SourceId, set[str]] = {}
    for event in seen.events:
        if event.who.host is not None:
            said.setdefault(event.span.source, set()).add(short_host(event.who.host))
    for source, place in seen.place.items():
        if place.host is not None and source not in said:
            said[source] = {short_host(place.host)}
    return {source: next(iter(hosts)) for source, hosts in said.items() if len(hosts) == 1}


def _ranks(seen: Observations) -> dict[SourceId, set[GlobalRank]]:
    """Ranks whose lines a source holds."""
    found: dict[SourceId, set[GlobalRank]] = {}
    for source, who in _speakers(seen):
        if who is not None:
            found.setdefault(source, set()).add(who)
    return found


def _speakers(seen: Observations) -> Iterable[tuple[SourceId, GlobalRank | None]]:
    yield from ((e.span.source, e.who.rank) for e in seen.events)
    yield from ((p.source, p.rank) for p in seen.progress)
    yield from ((source, place.rank) for source, place in seen.place.items())


def _moved(when: When, seconds: float | None) -> When:
    if seconds is None:
        return when
    return replace(
        when,
        earliest=None if when.earliest is None else when.earliest - seconds,
        latest=None if when.latest is None else when.latest - seconds,
    )


def _words(seconds: float) -> str:
    way = "ahead of" if seconds > 0 else "behind"
    return (
        f"its clock is {abs(seconds):.0f} s {way} that of most logs, by steps that both print; "
        "its times are given on that one"
    )
