"""Numbers that look like global ranks and are none: labels and names of files that count from 0 again on every machine.

A launcher's own template (`--log-line-prefix-template '[rank${local_rank}]: '`) and folders of one machine each
(`node1/rank3.log`) look as torch's own prefix and a job's own files do. What lines state beside them tells the two apart:
the number is then a local rank, which other statements may join to a global one. Guesses no global rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.hostlist import short_host
from firstfault.model.evidence import LocalRank
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Observations
    from firstfault.model.evidence import Event, SourceId, Who

_ENVIRONMENT = lazy(r"(?<![A-Z_])RANK=(\d{1,6})\b")
_LOCAL = lazy(r"\bLOCAL_RANK=(\d{1,4})\b")
_STARTS = lazy(r"(?i)(?:^|/)[^/]*(?:attempt|restart|retry|run|try|start|job|exp|trial|seed)[^/]*/[^/]*$")
"""Folders that hold one start, one job or one experiment each: their files count ranks from 0 again, and rightly."""
_MACHINE = lazy(r"(?i)(?:^|/)(?:node|host|machine|server|worker)[-_]?(\d{1,5})$")
"""Folders whose names say that each is one machine's."""
TWICE = 2
"""Numbers that must stand on two machines before they are taken to be counted on each: one may be a copy."""

Labels = dict["SourceId", set[int]]


def without_local_labels(seen: Observations) -> Observations:
    """The observations with numbers that lines show to be local ranks told as such, and not as global ranks."""
    local, names = _local_sources(seen), _local_names(seen)
    if not local and not names:
        return seen
    return replace(
        seen,
        events=tuple(_event(e, local, names) for e in seen.events),
        nan_from=tuple(_event(e, local, names) for e in seen.nan_from),
        progress=tuple(
            replace(p, rank=None) if p.rank is not None and int(p.rank) in local.get(p.source, ()) else p
            for p in seen.progress
        ),
        place={s: _as_local(who) if s in names else who for s, who in seen.place.items()},
    )


def _local_sources(seen: Observations) -> Labels:
    """Numbers that label the lines of sources in which they are local ranks.

    One template labels the lines of all machines: where one file shows it, it holds for those with the same numbers.
    """
    labels: Labels = {}
    for event in seen.events:
        if event.who.rank is not None and event.who.local_rank is None:
            labels.setdefault(event.span.source, set()).add(int(event.who.rank))
    told: dict[SourceId, list[Who]] = {}
    for failure in seen.failures:
        told.setdefault(failure.span.source, []).append(failure.who)
    shown = {s for s, numbers in labels.items() if s in told and _listed_differently(told[s], numbers)}
    shown |= {e.span.source for e in seen.events if e.span.source in labels and _stated_differently(e)}
    if not shown:
        return {}
    numbers = set().union(*(labels[s] for s in shown))
    return {s: own for s, own in labels.items() if s in shown or own <= numbers}


def _stated_differently(event: Event) -> bool:
    """Whether a labelled line states its own rank as another number, and its local rank as that of the label."""
    if event.who.rank is None or "LOCAL_RANK=" not in event.text:
        return False
    rank, local = _ENVIRONMENT.search(event.text), _LOCAL.search(event.text)
    return rank is not None and local is not None and int(rank[1]) != event.who.rank == int(local[1])


def _listed_differently(told: Sequence[Who], numbers: set[int]) -> bool:
    """Whether a launcher's list in the same file names the local ranks by which lines are labelled, and none of its global ones.

    Only where the list is of one machine, and where no label reaches the ranks of that machine.
    """
    pairs = [(int(w.rank), int(w.local_rank)) for w in told if w.rank is not None and w.local_rank is not None]
    hosts = {short_host(w.host) for w in told if w.host is not None}
    offsets = {rank - local for rank, local in pairs}
    if len(offsets) != 1 or len(hosts) > 1:
        return False
    return min(offsets) > max(numbers) and bool(numbers & {local for _, local in pairs})


def _local_names(seen: Observations) -> frozenset[SourceId]:
    """Sources whose names tell a rank that stands on several machines: the number counts the processes of one machine."""
    if all(who.rank is None for who in seen.place.values()):
        return frozenset()
    hosts: dict[SourceId, set[str]] = {}
    for event in seen.events:
        host = event.who.host or event.fields.get("host")
        if host is not None:
            hosts.setdefault(event.span.source, set()).add(short_host(host))
    named: dict[int, list[tuple[str, str]]] = {}
    folder_of = {s.id: s.path.rpartition("/")[0] for s in seen.sources}
    start = {s.id for s in seen.sources if _STARTS.search(s.path) is not None}
    for source, who in seen.place.items():
        folder = folder_of.get(source, "")
        if who.rank is None or not folder or source in start:
            continue
        machine = _MACHINE.search(folder)
        own = hosts.get(source, set())
        where = machine[0] if machine is not None else next(iter(own)) if len(own) == 1 else None
        if where is not None:
            named.setdefault(int(who.rank), []).append((folder, where))
    twice = [files for files in named.values() if len(files) > 1 and len({w for _, w in files}) == len(files)]
    if len(twice) < TWICE:
        return frozenset()
    folders = {folder for files in twice for folder, _ in files}
    return frozenset(s for s, who in seen.place.items() if who.rank is not None and folder_of.get(s) in folders)


def _event(event: Event, local: Labels, names: frozenset[SourceId]) -> Event:
    rank, source = event.who.rank, event.span.source
    if rank is None or event.fields.get("rank") == str(rank):
        return event
    return replace(event, who=_as_local(event.who)) if source in names or int(rank) in local.get(source, ()) else event


def _as_local(who: Who) -> Who:
    """A speaker whose number is its local rank."""
    if who.rank is None:
        return who
    return replace(who, rank=None, local_rank=LocalRank(int(who.rank)) if who.local_rank is None else who.local_rank)
