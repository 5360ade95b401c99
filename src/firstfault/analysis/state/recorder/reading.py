"""All that the dumps of one attempt say, folded once; the input of the question and of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.recorder.calls import Late, Mismatch, find_late, find_mismatch
from firstfault.analysis.state.recorder.gloo_witnesses import with_gloo_timeouts
from firstfault.analysis.state.recorder.lanes import Recorded, Spot, align
from firstfault.analysis.state.recorder.moments import named_by_local_rank, older, worlds
from firstfault.analysis.state.recorder.waits import Waits, find_waits
from firstfault.analysis.state.recorder.witnesses import with_witnesses
from firstfault.model.evidence import GlobalRank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.model.recorder import RankDump


class Reading(Struct, frozen=True, kw_only=True):
    """Dumps side by side, who waits for whom, and what differs."""

    recorded: Recorded
    waits: Waits
    mismatch: Mismatch | None
    late: Late | None
    older: dict[GlobalRank, Spot] = {}
    """Ranks whose dump was written before a peer went on, each with the peer's completed work that shows it."""
    each: int | None = None
    """How many dumps of each number there are, where the files are named by local rank."""
    worlds: tuple[int, ...] = ()
    """Sizes of the jobs that the dumps are of, where they are of several and nothing tells which is this one."""


def read(dumps: Sequence[RankDump], scene: Scene | None = None) -> Reading:
    """Folds the dumps of all ranks.

    Args:
        dumps: of one attempt.
        scene: the attempt, whose lines place ranks without a dump; None where there are only dumps.
    """
    mixed = worlds(dumps)
    stated = None if scene is None else scene.roster.world
    fitting = [own for whole, own in mixed.items() if len(whole) == stated]
    if len(fitting) == 1:
        dumps, mixed = fitting[0], {}
    recorded = align(dumps)
    # What ended before the rest began was an earlier start of any size, and is left out already.
    mixed = worlds(d for d in dumps if all(d is not e for e in recorded.earlier)) if mixed else mixed
    if scene is not None:
        recorded = with_gloo_timeouts(with_witnesses(recorded, scene), scene)
    waits = find_waits(recorded)
    return Reading(
        recorded=recorded,
        waits=waits,
        mismatch=find_mismatch(recorded),
        late=find_late(waits.inside),
        older=older(recorded),
        each=named_by_local_rank(recorded),
        worlds=tuple(sorted(map(len, mixed))),
    )
