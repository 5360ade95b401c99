"""Runs the checks before a run: on this machine alone, or on all of a job, joined into one answer.

Result objects only: redacts nothing and prints nothing.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.model.checks import CheckResult
from firstfault.pipelines.errors import PipelineError
from firstfault.preflight.families import look
from firstfault.preflight.job_checks import JOB_CHECKS
from firstfault.preflight.joint import join
from firstfault.preflight.machine import Machine
from firstfault.preflight.meeting import Server, SharedFolder, talk
from firstfault.preflight.who import number
from firstfault.recorder.settings import run_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from firstfault.model.checks import CheckState, Preflight
    from firstfault.preflight.families import Report
    from firstfault.preflight.machine import Asked
    from firstfault.preflight.meeting import Talk

DEFAULT_DIR = "firstfault-preflight"
"""Folder below the working directory through which a job meets that has no address."""
_MPI_JOB = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "MV2_COMM_WORLD_JOBID")
"""Names under which MPI's starters tell their job, the same on all machines."""
_MORE_S = 5.0
"""Seconds for which others wait longer than rank 0 before one of them joins in its place."""


class JobOptions(NamedTuple):
    """How the processes of a job meet."""

    folder: str | None = None
    """Shared folder; None: the job's own meeting place, else a folder below the working directory."""
    wait_s: float = 60.0
    """Seconds for which rank 0 waits for the others, from its own start."""
    expected: int | None = None
    """Processes that should answer, where the caller knows."""


def check_machine(asked: Asked, say: Callable[[str], None] | None = None) -> Preflight:
    """All checks of this machine.

    Args:
        asked: what to look at beyond what variables say.
        say: is told the name of each family before it is looked at.
    """
    report = look(Machine(asked=asked), say, alone=True)
    return join([replace(report, leads_node=True)], report, expected=1)


class _Place(NamedTuple):
    """Where this job meets."""

    address: str | None
    port: int | None
    folder: SharedFolder | None
    run: str


def check_job(asked: Asked, options: JobOptions, say: Callable[[str], None] | None = None) -> Preflight | None:
    """The checks of a job, as one of its processes.

    Args:
        asked: what to look at beyond what variables say.
        options: how the processes meet.
        say: is told what is done.

    Returns:
        The joined answer for the process that joins; None for the others, whose reports were taken.

    Raises:
        PipelineError: this process could not hand its report over, or would have nobody to hand it to.
    """
    begin = time.monotonic()
    machine = Machine(asked=asked)
    who = machine.who
    expected = options.expected or who.tasks or who.world
    if (expected or 1) == 1:
        report = look(machine, say, alone=True)
        return join([replace(report, leads_node=True)], report, expected=expected)
    if who.task is None and who.rank is None:
        raise PipelineError(
            "nothing says which process of the job this is",
            where="--job",
            why="neither RANK nor a variable of SLURM or MPI is set",
            fix="Start it on all machines by the launcher: `srun firstfault preflight --job`, `mpirun … firstfault preflight --job`, `torchrun … -m firstfault preflight --job`.",
        )
    place = _place(machine, options)
    until = begin + options.wait_s
    if who.leads_job:
        return _gather(machine, place, until, expected, say)
    return _deliver(machine, place, until, expected, say)


def _place(machine: Machine, options: JobOptions) -> _Place:
    env = machine.env
    address, port = env.get("MASTER_ADDR") or None, number(env.get("MASTER_PORT"))
    # The agent of torchrun listens there already, and speaks its own language.
    taken = env.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true"
    if address is None or port is None or not 0 < port <= 65535 or taken:
        address = port = None
    folder = options.folder or (DEFAULT_DIR if address is None else None)
    run = _run(env, who_started=machine.who.started_by)
    return _Place(address, port, None if folder is None else SharedFolder(folder, run), run)


def _run(env: Mapping[str, str], who_started: str) -> str:
    """A name of this start that all its processes find by themselves, also those of mpirun, whose daemons are steps of their own."""
    if who_started in {"Open MPI", "MVAPICH", "MPI"}:
        told = next((env[n] for n in _MPI_JOB if env.get(n)), env.get("SLURM_JOB_ID", "job"))
        return re.sub(r"[^\w.-]", "_", f"mpi-{told}")[:80]
    name = run_name()
    return "job" if name.startswith("group-") else name


def _gather(
    machine: Machine, place: _Place, until: float, expected: int | None, say: Callable[[str], None] | None
) -> Preflight:
    """Rank 0: opens the meeting place, looks at its own machine, takes the reports of the others and joins all."""
    if place.folder is not None and not place.folder.call(time.time()):
        raise PipelineError(
            "no report can be left in the shared folder",
            where=str(place.folder.path),
            fix="Give a folder that all machines see and may write with --dir.",
        )
    server = None
    if place.port is not None:
        try:
            server = Server(place.port, place.run)
            machine.held[place.port] = ""
        except OSError as error:
            machine.held[place.port] = error.strerror or str(error)
    try:
        mine = look(machine, say)
        reports, names = _awaited(mine, place, server, until, expected)
        answer = join(_one_each(reports), mine, expected=expected, nodes=_nodes(machine))
    finally:
        if server is not None:
            server.close()
    if place.folder is not None:
        import msgspec

        place.folder.publish(msgspec.json.encode(answer), names)
    return answer


def _awaited(
    mine: Report, place: _Place, server: Server | None, until: float, expected: int | None
) -> tuple[list[Report], list[str]]:
    """All reports that came in time, and the names of their files."""
    seen: dict[str, Report] = {}
    arrived: dict[str, float] = {}
    pause = 0.1
    while True:
        if place.folder is not None:
            place.folder.gather(seen, arrived)
        by_wire = server.reports() if server is not None else []
        others = {(r.host, r.pid): r for r in [*(_timed(seen[n], arrived[n]) for n in seen), *by_wire]}
        others.pop((mine.host, mine.pid), None)
        if (expected is not None and len(others) + 1 >= expected) or time.monotonic() >= until:
            return [mine, *others.values()], list(seen)
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(pause * 1.5, 1.0)


def _timed(report: Report, arrived: float) -> Report:
    """A report from the future: its clock is ahead by as much at least."""
    ahead = report.at - arrived
    if ahead > 0 and (report.clock_s is None or abs(report.clock_s) < ahead):
        return replace(report, clock_s=ahead)
    return report


def _one_each(reports: list[Report]) -> list[Report]:
    """Without reports that an earlier start of the same task left on the same machine; the newest counts."""
    held: dict[tuple[object, ...], Report] = {}
    for report in reports:
        # Without somebody who numbers tasks, two of one number may be two of one start.
        key = (report.host, report.task) if report.started_by else (report.host, report.task, report.pid)
        if key not in held or held[key].at < report.at:
            held[key] = report
    return list(held.values())


def _deliver(
    machine: Machine, place: _Place, until: float, expected: int | None, say: Callable[[str], None] | None
) -> Preflight | None:
    """Another process: looks, and hands its report over; joins all itself where rank 0 does not come."""
    mine = look(machine, say)
    met: Talk | None = None
    sent = mine

    def made(clock: float | None) -> Report:
        return replace(mine, clock_s=clock, at=time.time(), checks=[*mine.checks, *_reach(mine, place, "met", "")])

    if place.address is not None and place.port is not None and (mine.leads_node or place.folder is None):
        limit = until if place.folder is None else min(until, time.monotonic() + 20.0)
        met = talk(place.address, place.port, place.run, made, limit)
        sent = (
            made(met.clock_s)
            if met.state == "met"
            else replace(mine, checks=[*mine.checks, *_reach(mine, place, met.state, met.trouble)])
        )
    if place.folder is not None:
        return _leave(sent, place.folder, machine, until, expected)
    if met is not None and met.delivered:
        return None
    # Nobody takes the report: what was found here is all that can be said.
    alone = join([replace(sent, leads_node=True)], sent, expected=1)
    return replace(alone, summary=f"rank 0 could not be told of it, so this is {machine.host} alone: {alone.summary}")


def _leave(
    report: Report, folder: SharedFolder, machine: Machine, until: float, expected: int | None
) -> Preflight | None:
    """Leaves a report in the folder; a process that leads its machine sees that somebody joins them."""
    if report.leads_node and report.clock_s is None:
        report = replace(report, clock_s=folder.clock(2.0) or None)
    report = replace(report, at=time.time())
    if not folder.leave(report):
        raise PipelineError(
            "no report can be left in the shared folder",
            where=str(folder.path),
            why=f"it cannot be written on {machine.host}",
            fix="Give a folder that all machines see and may write with --dir.",
        )
    if not report.leads_node:
        return None
    # Where another one joins in place of rank 0 and dies over it, this one does it again.
    if _answered(folder, report, until + _MORE_S) or (not folder.take_over(report) and _answered(folder, report, time.monotonic() + _MORE_S)):  # fmt: skip
        return None
    seen: dict[str, Report] = {}
    folder.gather(seen, {})
    reports = _one_each([report, *(r for r in seen.values() if (r.host, r.pid) != (report.host, report.pid))])
    answer = join(reports, report, expected=expected, nodes=_nodes(machine))
    import msgspec

    folder.publish(msgspec.json.encode(answer), list(seen))
    return answer


def _answered(folder: SharedFolder, report: Report, end: float) -> bool:
    """Whether the joined answer comes in time."""
    while folder.answer(report) is None:
        if time.monotonic() >= end:
            return False
        time.sleep(1.0)
    return True


def _reach(mine: Report, place: _Place, state: str, trouble: str) -> list[CheckResult]:
    """What the way to rank 0 looked like, as a result of the job."""
    if not mine.leads_node:
        return []
    check = next(c for c in JOB_CHECKS if c.id == "job.reach")
    where = f"{place.address}:{place.port}"
    found: tuple[CheckState, str] = ("ok", f"{where} is reached")
    fix = ""
    if state == "unreachable":
        found = ("fail", f"{where} cannot be reached from {mine.host}: {trouble}")
        fix = "Look at the route and the firewall between the two machines, and at the network that the address belongs to."
    elif state == "refused":
        found = ("not_checkable", f"{where}: the machine answers, and rank 0 listened to nobody")
    elif state == "listens":
        found = ("warn", f"{where}: a program that is not part of this check listens there")
        fix = "Choose another MASTER_PORT, where it is not the job's own launcher."
    return [
        CheckResult(id=check.id, state=found[0], seen=found[1], fix=fix, why=check.why, prevents=list(check.prevents))
    ]


def _nodes(machine: Machine) -> list[str]:
    """Machines that SLURM gave to this step, by its own tool; none where that is not there."""
    told = machine.env.get("SLURM_STEP_NODELIST") or machine.env.get("SLURM_JOB_NODELIST")
    if not told or not re.fullmatch(r"[\w\[\],.:-]{1,65536}", told) or machine.which("scontrol") is None:
        return []
    answer = machine.answer("scontrol", "show", "hostnames", told, seconds=5.0)
    return [] if answer.trouble else answer.text.decode("ascii", "replace").split()
