"""All that the dumps of one attempt say, folded once; the input of the question and of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.state.recorder.calls import Late, Mismatch, find_late, find_mismatch
from firstfault.analysis.state.recorder.lanes import Recorded, align
from firstfault.analysis.state.recorder.waits import Waits, find_waits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.recorder import RankDump


class Reading(Struct, frozen=True, kw_only=True):
    """Dumps side by side, who waits for whom, and what differs."""

    recorded: Recorded
    waits: Waits
    mismatch: Mismatch | None
    late: Late | None


def read(dumps: Sequence[RankDump]) -> Reading:
    """Folds the dumps of all ranks."""
    recorded = align(dumps)
    waits = find_waits(recorded)
    return Reading(recorded=recorded, waits=waits, mismatch=find_mismatch(recorded), late=find_late(waits.inside))
