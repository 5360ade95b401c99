"""All that the dumps of one attempt say, folded once; the input of the question and of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.recorder.calls import Late, Mismatch, find_late, find_mismatch
from firstfault.analysis.state.recorder.gloo_witnesses import with_gloo_timeouts
from firstfault.analysis.state.recorder.lanes import Recorded, align
from firstfault.analysis.state.recorder.waits import Waits, find_waits
from firstfault.analysis.state.recorder.witnesses import with_witnesses

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


def read(dumps: Sequence[RankDump], scene: Scene | None = None) -> Reading:
    """Folds the dumps of all ranks.

    Args:
        dumps: of one attempt.
        scene: the attempt, whose lines place ranks without a dump; None where there are only dumps.
    """
    recorded = align(dumps)
    if scene is not None:
        recorded = with_gloo_timeouts(with_witnesses(recorded, scene), scene)
    waits = find_waits(recorded)
    return Reading(recorded=recorded, waits=waits, mismatch=find_mismatch(recorded), late=find_late(waits.inside))
