"""The events of all sources, clock by clock: chooses which are wanted.

Must not make their rows (see `entries`), and chooses no columns.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.timeline import Moment, moments
from firstfault.model.views import Timeline
from firstfault.model.words import Role
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.entries import rows_of
from firstfault.pipelines.ranks import coverage_of
from firstfault.pipelines.times import seconds_of_zone
from firstfault.pipelines.verdict import verdict_in

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import IO

    from firstfault.model.evidence import When
    from firstfault.pipelines.options import DiagnoseOptions

DAY = 86400.0


class Instant(Struct, frozen=True):
    """A time that a person gave."""

    seconds: float
    """Since the epoch, naive time read as UTC; of the day, where it has no date."""
    dated: bool
    zone: str | None = None
    """Offset such as `+08:00`, or `Z`; None: as the lines print it."""


class EventFilters(Struct, frozen=True, kw_only=True):
    """Which events are wanted; what is empty leaves nothing out."""

    since: Instant | None = None
    until: Instant | None = None
    ranks: tuple[tuple[int, int], ...] = ()
    """Ranges of global ranks, both ends included."""
    hosts: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    """All but noise where empty."""


def timeline(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions,
    filters: EventFilters | None = None,
    *,
    folded: bool = True,
    stdin: IO[bytes] | None = None,
) -> Timeline:
    """What happened, in the order of each clock.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: as for a diagnosis; with attempt `all` the events of every attempt.
        filters: which events are wanted; all but noise where None.
        folded: whether equal events of one burst share an entry.
        stdin: where `-` reads from; the process's own standard input where None.

    Returns:
        The timeline, not yet redacted.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    wanted = filters or EventFilters()
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier, _):
        every = options.attempt == "all"
        scene = conclusion.scene
        cite = Citer(verifier, scene.case.paths)
        scenes = [s for s, _ in conclusion.attempts] if every else [scene]
        there = [m for s in scenes for m in moments(s)]
        noise = 0 if wanted.roles else sum(1 for m in there if m.role is Role.NOISE)
        kept = [m for m in there if _wanted(m, wanted)]
        verdict = verdict_in(conclusion.scene, conclusion.answer, cite)
        rows = rows_of(kept, cite, folded=folded)
        return Timeline(
            verdict=verdict,
            attempt=None if every else scene.number,
            attempts=len(conclusion.attempts),
            left_out=len(there) - len(kept) - noise,
            noise=noise,
            coverage=coverage_of(scene),
            clocks=rows.clocks,
            events=rows.entries,
            verification=cite.verification(),
        )


def _wanted(moment: Moment, filters: EventFilters) -> bool:
    if moment.role not in filters.roles if filters.roles else moment.role is Role.NOISE:
        return False
    if filters.ranks and (moment.rank is None or not any(a <= moment.rank <= b for a, b in filters.ranks)):
        return False
    if filters.hosts:
        names = () if moment.host is None else (moment.host, short_host(moment.host))
        if not any(fnmatchcase(name, pattern) for name in names for pattern in filters.hosts):
            return False
    return _in_time(moment.when, filters.since, filters.until)


def _in_time(when: When, since: Instant | None, until: Instant | None) -> bool:
    """Whether an interval may reach into the time that is asked for; what has no time does not."""
    if since is None and until is None:
        return True
    if when.earliest is None and when.latest is None:
        return False
    if since is not None and when.latest is not None and _on_scale(when.latest, when, since) < _value(since, when):
        return False
    return until is None or when.earliest is None or _on_scale(when.earliest, when, until) <= _value(until, when)


def _on_scale(seconds: float, when: When, asked: Instant) -> float:
    """A time of a line on the scale of what was asked for: of the day, where one of the two has no date.

    A dated time with a zone is kept in UTC and goes back to its own clock; a mere time of day never left it.
    """
    if asked.dated and when.dated:
        return seconds
    return (seconds + (seconds_of_zone(when.zone) if when.dated else 0.0)) % DAY


def _value(asked: Instant, when: When) -> float:
    """What was asked for, on the scale of the line; without a zone it is in the line's own."""
    if not (asked.dated and when.dated):
        return asked.seconds % DAY
    seconds = asked.seconds if when.yeared else _in_year_of(when, asked.seconds)
    if when.zone is None:
        return seconds  # a line without a zone prints local time; so does, then, the person
    return seconds - seconds_of_zone(asked.zone or when.zone)


def _in_year_of(when: When, seconds: float) -> float:
    """The same day and time in the year that stands in for the unknown one of a line."""
    start = datetime(1970, 1, 1, tzinfo=timezone.utc)
    year = (start + timedelta(seconds=when.earliest or when.latest or 0.0)).year
    moment = start + timedelta(seconds=seconds)
    if (moment.month, moment.day) == (2, 29):
        moment -= timedelta(days=1)
    return moment.replace(year=year).timestamp()
