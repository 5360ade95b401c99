"""Which dumps an earlier start of the job left: they end well before others of the job begin. Names nobody.

Clocks of machines that lie far apart look the same. A rank of which there is a dump on both sides shows two starts; where
there is none, dumps that end in the very collective in which the later ones end are of the same start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.picture import few
from firstfault.model.recorder import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.model.evidence import GlobalRank
    from firstfault.model.recorder import RankDump

SECOND = 1_000_000_000
CLOCKS = 120 * SECOND
"""Nanoseconds by which clocks of machines, and the first works of ranks, may lie apart."""
End = tuple[str, int]
"""A group, and the number of a collective in it."""


def earlier(dumps: Sequence[RankDump]) -> tuple[RankDump, ...]:
    """Dumps of an earlier start of the job: they end well before another one begins.

    Who holds all that its process ever issued began its start with it; who does not has waited at most for the time-outs.
    """
    begins = [
        (_begin(d), CLOCKS if d.first_record == 0 and not d.active_only else _patience(d)) for d in dumps if d.logs
    ]
    latest = max((begin - slack for begin, slack in begins if begin), default=0)
    old = tuple(d for d in dumps if d.latest_ns and d.latest_ns < latest)
    new = [d for d in dumps if not d.latest_ns or d.latest_ns >= latest]
    if not old or _ranks(old) & _ranks(new):
        return old
    stuck, last = {e for d in new for e in _ends(d, stuck=True)}, {e for d in new for e in _ends(d)}
    # So many that left none at the later start: there, one that had not come yet, and a first collective, count too.
    many = not few(len(old), len(dumps))

    def fits(dump: RankDump) -> bool:
        return any(
            ((group, seq) in stuck and (many or seq > 1)) or (many and (group, seq - 1) in last)
            for group, seq in _ends(dump, stuck=True)
        )

    same = [d for d in old if fits(d)]
    # Machines whose ranks stand where the later ones stand keep other time, and so do all that wrote when they did.
    return tuple(d for d in old if not any(_together(d, other) for other in same))


def _ranks(dumps: Iterable[RankDump]) -> set[GlobalRank]:
    return {d.rank for d in dumps if d.rank is not None}


def _ends(dump: RankDump, *, stuck: bool = False) -> Iterator[End]:
    """The last collective of each group of a dump; only those that are not known to have ended, where these are asked for."""
    for log in dump.logs:
        if not log.p2p and log.stage and not (stuck and log.stage[-1] == Stage.COMPLETED):
            yield log.group, log.seq[-1]


def _together(one: RankDump, other: RankDump) -> bool:
    """Whether two dumps hold works of one time."""
    return _begin(one) <= other.latest_ns + CLOCKS and _begin(other) <= one.latest_ns + CLOCKS


def _begin(dump: RankDump) -> int:
    return min((log.created[0] for log in dump.logs if log.created[0]), default=0)


def _patience(dump: RankDump) -> int:
    """Nanoseconds for which a job may stand between the last entry of one rank and the first one that another kept."""
    timeouts = [c.timeout_ms for c in dump.calls if c.timeout_ms]
    return max(2 * max(timeouts, default=0) * 1_000_000, 3600 * SECOND)
