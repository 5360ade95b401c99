"""Joins what all processes of a job found into one answer, and adds what only all of them together show.

Pure: the reports come from `meeting`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from firstfault.model.checks import CheckResult, NodeRow, Preflight
from firstfault.preflight.families import ordered
from firstfault.preflight.job import job_answers, missing_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.preflight.families import Report


def join(reports: Sequence[Report], me: Report, *, expected: int | None = None, nodes: Sequence[str] = ()) -> Preflight:
    """One answer for a job.

    Args:
        reports: of all processes that answered, this one among them.
        me: of the process that joins; its clock is the measure.
        expected: processes that should have answered; by the reports where None.
        nodes: machines that the scheduler gave, where it says so.
    """
    reports = sorted(reports, key=lambda r: (r.rank is None, r.rank or 0, r.host, r.pid))
    wanted = (
        expected if expected is not None else next((r.tasks or r.world for r in reports if r.tasks or r.world), None)
    )
    several = len(reports) > 1 or (wanted or 1) > 1
    found = merged(reports)
    missing: list[int] = []
    if several:
        missing = missing_tasks(reports, wanted)
        for check, answers in job_answers(reports, me, wanted, missing, nodes):
            found += [
                CheckResult(id=check.id, why=check.why, prevents=list(check.prevents), **answer) for answer in answers
            ]
    results = ordered(found)
    state: Literal["ok", "warn", "fail"] = "ok"
    for one in results:
        if one.state == "fail" or (one.state == "warn" and state == "ok"):
            state = "fail" if one.state == "fail" else "warn"
    return Preflight(
        state=state,
        summary=_summary(results, reports, wanted),
        world_size=wanted,
        reported=len(reports),
        missing=missing,
        nodes=_nodes(reports, me),
        checks=results,
    )


def merged(reports: Iterable[Report]) -> list[CheckResult]:
    """The results of all processes: what is said alike of several machines is said once, with their names."""
    groups: dict[tuple[str, ...], list[tuple[Report, CheckResult]]] = defaultdict(list)
    for report in reports:
        for result in report.checks:
            alike = re.sub(r"\d+", "#", result.seen.replace(report.host, "HOST")) if result.state != "ok" else ""
            groups[result.id, result.state, alike, re.sub(r"\d+", "#", result.fix)].append((report, result))
    found = []
    for members in groups.values():
        first = members[0][1]
        hosts = sorted({r.host for r, _ in members})
        texts = {c.seen for _, c in members}
        seen = (
            first.seen
            if len(texts) == 1 or len(hosts) == 1
            else f"{first.seen} ({members[0][0].host}; {len(hosts)} machines in all)"
        )
        ranks = (
            sorted({r.rank for r, _ in members if r.rank is not None})
            if not all(r.leads_node for r, _ in members)
            else []
        )
        found.append(replace(first, seen=seen, hosts=hosts, ranks=ranks))
    return found


def _nodes(reports: Sequence[Report], me: Report) -> list[NodeRow]:
    held: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        held[report.host].append(report)
    return [
        NodeRow(
            host=name,
            ranks=sorted({r.rank for r in members if r.rank is not None}),
            clock_s=0.0
            if name == me.host
            else next((round(r.clock_s, 3) for r in members if r.clock_s is not None), None),
            zone=members[0].zone,
        )
        for name, members in sorted(held.items())
    ]


def _summary(results: Sequence[CheckResult], reports: Sequence[Report], wanted: int | None) -> str:
    count = {state: sum(r.state == state for r in results) for state in ("fail", "warn", "not_checkable", "ok")}
    hosts = {r.host for r in reports}
    where = f"{len(hosts)} machine{'s' if len(hosts) > 1 else ''}"
    if len(reports) > 1 or (wanted or 1) > 1:
        where = f"{len(reports)}" + (f" of {wanted}" if wanted else "") + f" processes on {where}"
    parts = [f"{count['fail']} would stop the job" if count["fail"] else "nothing found that would stop the job"]
    if count["warn"]:
        parts.append(f"{count['warn']} to look at")
    parts += [f"{count['ok']} in order", f"{count['not_checkable']} not checkable here"]
    return f"{where}: {', '.join(parts)}."
