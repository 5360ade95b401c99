"""Whose end is told where a rank says in a file of its own that the run ended: an end marker proves its own rank only.

Where each rank writes its own file, one that is empty, cut, short of steps or not there leaves the end of its rank open.
Where one file holds all, or the scheduler has spoken, the word is everybody's and nothing is asked here. That ranks other
than the first print nothing is usual too: it is taken for the way of the job where it is so for several, and for all.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.outcome import said_good, unkept
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.progress import Track
    from firstfault.model.evidence import GlobalRank, LocalRank, NodeRank, SourceId, Who

_DIGITS = lazy(r"\d+")
_ERRORS_ONLY = lazy(r"(?i)(?:^|[./_-])(?:stderr|err)(?=[./_-]|$)[^/]{0,40}$")
"""Names of files that hold nothing as long as nothing goes wrong."""
SEVERAL = 2
"""Other ranks that must all be silent before silence is taken for the way in which a job prints."""


class Owner(NamedTuple):
    """Whose file it is, by its name alone."""

    rank: GlobalRank | None
    node: NodeRank | None
    local: LocalRank | None
    task: int | None

    @property
    def numbered(self) -> bool:
        """Whether only a number tells it, which may as well count parts of one log."""
        return (self.rank, self.node, self.local) == (None, None, None)


class Open(NamedTuple):
    """A file that leaves the end of its rank open."""

    path: str
    why: str


def left_open(scene: Scene) -> tuple[Open, ...]:
    """Files of ranks of which nothing tells that they ended well, where the good end is the word of another rank.

    Returns:
        In order of path, those that are not there last; empty where the word is everybody's.
    """
    case = scene.case
    if said_good(case) or case.seen.exit_code == 0:
        return ()
    written, empty = _own_files(case)
    owner_of = {source: owner for owner, sources in written.items() for source in sources}
    said = scene.marked(Mark.END, Mark.PLANNED_STOP)
    ends = {e.span.source for e in said}
    if not ends or not ends <= owner_of.keys():
        return ()
    others = {o: sources for o, sources in written.items() if o not in {owner_of[s] for s in ends}}
    found = [Open(path, "is empty") for path in empty.values()] if others or len(empty) < SEVERAL else []
    reached = max((step for s in ends if (step := _last(case.tracks.get(s))) is not None), default=None)
    promised = {e.span.source for s in (*scene.weak, *scene.acquitted) for e in s.events if unkept(e, said)}
    for source in (s for owner, sources in others.items() if not owner.numbered for s in sources):
        track = case.tracks.get(source)
        if source in case.seen.cut:
            found.append(Open(case.paths[source], "ends inside a line"))
        elif source in promised:
            found.append(Open(case.paths[source], "ends with an error that it had promised to survive"))
        elif track is not None and _behind(track, reached):
            found.append(Open(case.paths[source], f"stops at step {_last(track)} of {reached}"))
    return (*sorted(found), *_absent(scene, written))


def _own_files(case: Case) -> tuple[dict[Owner, list[SourceId]], dict[Owner, str]]:
    """Logs by the rank or task that their names tell, and the empty files of those that have no other.

    An empty file is one of them where its name differs in numbers alone from one with lines.
    """
    numbers = set(case.seen.task_files.values()) | {n for _, n in case.seen.empty.values() if n is not None}
    counted = bool(numbers) and min(numbers) <= 1 and max(numbers) <= 2 * len(numbers)
    written: dict[Owner, list[SourceId]] = {}
    families: set[str] = set()
    for source, who in case.seen.place.items():
        owner = _owner(who, case.seen.task_files.get(source) if counted else None)
        if case.kind_of.get(source) is SourceKind.LOG and owner is not None:
            written.setdefault(owner, []).append(source)
            families.add(_DIGITS.sub("#", case.paths[source]))
    empty: dict[Owner, str] = {}
    for path, (who, number) in case.seen.empty.items():
        owner = _owner(who, number if counted else None)
        if owner is None or owner in written or _ERRORS_ONLY.search(path) or _DIGITS.sub("#", path) not in families:
            continue
        empty.setdefault(owner, path)
    return written, empty


def _owner(who: Who, number: int | None) -> Owner | None:
    owner = Owner(who.rank, who.node_rank, who.local_rank, number)
    if not owner.numbered:
        return owner._replace(task=None)
    return None if number is None else owner


def _last(track: Track | None) -> int | None:
    return None if track is None else track.last.step


def _behind(track: Track, reached: int | None) -> bool:
    """Whether a rank's last step is farther from the one that another reached than its own lines ever were apart.

    Of a single line it is taken that one comes every so many steps as it tells.
    """
    steps = [s.step for s in track.samples if s.step is not None]
    if reached is None or track.last.step is None:
        return False
    apart = max((b - a for a, b in itertools.pairwise(steps)), default=track.last.step)
    return track.last.step + max(apart, 1) < reached


def _absent(scene: Scene, files: Iterable[Owner]) -> tuple[Open, ...]:
    """Files that are not there, where several ranks have one of their own."""
    if sum(owner.rank is not None for owner in files) < SEVERAL:
        return ()
    return tuple(Open(name, "is not here") for name in scene.complete.missing_files)
