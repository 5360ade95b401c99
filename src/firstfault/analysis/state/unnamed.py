"""Works whose lines name no group or no global rank (torch up to 2.2, and the copies of a work in an exception's text).

Decides when the number inside a group may be taken for the global rank, and which works are copies; guesses nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.evidence import GlobalRank
from firstfault.model.recorder import DEFAULT_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.works import State, Work

FAR = 256
"""Numbers further apart than this are taken for those of two groups where groups are not named."""


def sub_groups(scene: Scene) -> bool:
    """Whether the job is stated to be split into model-parallel groups."""
    names = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    return any(isinstance(f.value, int) and f.value > 1 for n in names if (f := scene.facts.get(n)) is not None)


def assume(scene: Scene, works: Sequence[Work], states: Sequence[State]) -> tuple[list[Work], bool]:
    """Takes `[Rank n]` for the global rank where lines have no other, and all agree that the group is the whole job.

    Up to torch 2.1 the number is the rank in the group of the work, and the group is not named. Every number must stand
    for one work of one process. Then the group is the whole job where the numbers reach up to the stated world size, or
    are more than half of it (no other group is that large); or where nothing speaks for another group.
    """
    nameless = [w for w in works if w.rank is None and w.group is None]
    if not nameless or any(w.group_rank is None for w in nameless):
        return list(works), False
    if any(s.group not in {None, DEFAULT_NAME} for s in states):
        return list(works), False
    seen: dict[int, set[tuple[int | None, str | None]]] = {}
    times: dict[int, set[int]] = {}
    for work in nameless:
        if work.group_rank is not None:
            seen.setdefault(work.group_rank, set()).add((work.seq, work.op))
            if work.ran_ms is not None:
                times.setdefault(work.group_rank, set()).add(work.ran_ms)
    if any(len(v) > 1 for v in seen.values()) or any(len(t) > 1 for t in times.values()):
        return list(works), False
    if not (_reaches(scene, seen) or _alone(scene, nameless, max(seen))):
        return list(works), False
    return [
        replace(w, rank=GlobalRank(w.group_rank))
        if w.rank is None and w.group is None and w.group_rank is not None
        else w
        for w in works
    ], True


def _reaches(scene: Scene, numbers: Iterable[int]) -> bool:
    """Whether numbers inside a group are such as only a group of all ranks has."""
    world = scene.complete.expected
    found = set(numbers)
    return (
        world is not None and world > 1 and max(found) < world and (max(found) == world - 1 or 2 * len(found) > world)
    )


def _alone(scene: Scene, works: Iterable[Work], highest: int) -> bool:
    """Whether nothing speaks for another group than that of all ranks."""
    if sub_groups(scene):
        return False
    locals_differ = any(
        w.event.who.local_rank is not None and int(w.event.who.local_rank) != w.group_rank for w in works
    )
    failures_differ = any(
        f.who.rank is not None and f.who.local_rank is not None and int(f.who.rank) != int(f.who.local_rank)
        for f in scene.failures
    )
    if locals_differ or failures_differ:
        return False
    world = scene.complete.expected
    if world is None:
        return len(scene.complete.hosts) <= 1
    return highest < world <= 2 * (highest + 1)


def without_copies(works: Iterable[Work]) -> list[Work]:
    """Works without those that are copies, without a rank, of works that are told with their rank.

    A work is told up to four times by its process, in the text of an exception without the prefix of the rank; the time
    that it ran, in milliseconds, tells it from those of others.
    """
    kept = _whole(works)
    placed = {_identity(w) for w in kept if w.rank is not None and w.ran_ms is not None}
    return [w for w in kept if w.rank is not None or _identity(w) not in placed]


def _whole(works: Iterable[Work]) -> tuple[Work, ...]:
    """Works without those of which a part is missing, where others are whole: their lines were cut into by others."""
    kept = tuple(works)
    if not any(_entire(w) for w in kept):
        return kept
    return tuple(w for w in kept if w.rank is not None or _entire(w))


def _entire(work: Work) -> bool:
    return work.group_rank is not None and work.op is not None and work.ran_ms is not None


def _identity(work: Work) -> tuple[str | None, int | None, int | None, int | None]:
    return work.op, work.seq, work.timeout_ms, work.ran_ms


def bundles(works: Iterable[Work]) -> list[list[Work]]:
    """Works of unnamed groups, torn apart where timeouts differ or numbers are far apart."""
    ordered = sorted(works, key=lambda w: (*_known(w.timeout_ms), *_known(w.seq), *_known(w.rank)))
    found: list[list[Work]] = []
    for work in ordered:
        last = found[-1][-1] if found else None
        if last is not None and last.timeout_ms == work.timeout_ms and _near(last.seq, work.seq):
            found[-1].append(work)
        else:
            found.append([work])
    return found


def _known(value: int | None) -> tuple[bool, int]:
    """Sort key that puts what is not told behind all numbers."""
    return (value is None, 0 if value is None else value)


def _near(one: int | None, other: int | None) -> bool:
    """Whether two numbers may be of one group; where neither line has one, nothing speaks against it."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= FAR
