"""Whether a line that lies beside a job's own can be about it: the one order in which the rooms that judge this are asked.

Each room knows one thing and none knows another; what an earlier one set aside, a later one does not see:

1. `passed`: the words stand inside another program's sentence, so that nothing happened at all.
2. `left_over`: an error file of another run, by the times of a run that ended.
3. `foreign`: another program or a pod that runs no rank, by names on both sides.
4. `job_map`: a machine, a card or a job that is none of this one, by what the job's own lines state of itself.
5. `far`: a day on which the job did not run, or after its end, by times alone, whatever the zones.
   What these five set aside is no part of the attempt: neither cause nor effect nor death.
6. `outages`, `nodes_back`: a trouble that was over too soon, or too long before, by the lines that open and close it.
7. `job_map.bystanders`: a machine all of whose ranks wait, while a rank elsewhere stays away: that rank is not explained by it.
8. `foreign.untied`: somebody else's process that was killed, where the job itself tells of a good end and of nothing bad.
   What these set aside is acquitted, and counted among the errors that ended nothing.
9. `beside_waits` (asked by `causes`): a suspect that came behind a wait, or hours before it, by the clock that stamped it.
10. `stopped` and `survived` (asked by `questions.first_fault`): errors upon an order to stop, orders that the job outlived,
    and errors of ranks that were inside.
   What these set aside is told as something that follows.

Rooms that need only names come before those that need times, and those before the ones that need the wait or the end, since
the wait and the end are found among what is left. It wires 2 to 8, and judges nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.far import all_far_from_job
from firstfault.analysis.foreign import may_be_of_another, of_another, untied
from firstfault.analysis.job_map import bystanders
from firstfault.analysis.left_over import left_over
from firstfault.analysis.nodes_back import back_soon
from firstfault.analysis.outages import no_reason
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.job_map import JobMap
    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import Event, Failure


def no_part(
    case: Case, roster: Roster, chart: JobMap, events: Sequence[Event], ends: Iterable[Event]
) -> tuple[frozenset[int], tuple[Failure, ...]]:
    """Events (by identity) that are no part of the attempt, and the launcher's failures that are."""
    old = left_over(case, events, ends)
    strangers = {id(e) for e in case.of(may_be_of_another(case)) if of_another(case, roster, e)}
    lines = {(e.span.source, e.span.line) for e in events if e.who.rank is None and chart.not_of_the_job(e)}
    if lines:
        strangers |= {id(e) for e in events if (e.span.source, e.span.line) in lines}
    strangers |= {id(e) for e in events if e.span.source in old} if old else set()
    aside = frozenset(strangers | all_far_from_job(case, events))
    return aside, tuple(f for f in case.seen.failures if f.span.source not in old)


def over(
    case: Case, chart: JobMap, hang: Hang | None, guilty: Sequence[Event], weak: Sequence[Event]
) -> frozenset[int]:
    """Troubles (events by identity) that were over too soon, too long before, or elsewhere, to be the reason for the failure."""
    ended = {id(e) for e in weak if case.has(e, Mark.OUTAGE) and no_reason(case, hang, guilty, e)}
    elsewhere = bystanders(case, chart, hang, (*guilty, *weak))
    return frozenset(ended | elsewhere | {id(e) for e in guilty if back_soon(case, hang, e)})


def somebody_elses(case: Case, roster: Roster, events: Iterable[Event]) -> bool:
    """Whether all that may have ended a job, which itself tells of a good end, befell processes that nothing ties to it."""
    return all(untied(case, roster, e) for e in events)
