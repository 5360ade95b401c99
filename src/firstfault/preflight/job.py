"""Checks that only all reports of a job together can make: ranks, clocks, versions, settings, addresses of all machines.

Pure: the reports come from `meeting`, `joint` puts the results beside those of each machine.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from firstfault.analysis.hostlist import compress
from firstfault.preflight.interfaces import local_only
from firstfault.preflight.job_checks import JOB_CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from firstfault.model.checks import CheckState
    from firstfault.preflight.families import Report
    from firstfault.preflight.job_checks import JobCheck

CLOCK_WARN_S, CLOCK_KEEP_ALIVE_S, CLOCK_FAIL_S = 2.0, 15.0, 300.0
"""Seconds between two clocks: visible in logs; longer than torchrun's keep-alive (3 times 5 s); refused by Kerberos and signed requests."""
SHOWN = 8


def _answer(
    state: CheckState, seen: str, fix: str = "", *, hosts: Iterable[str] = (), ranks: Iterable[int] = ()
) -> dict[str, Any]:
    return {"state": state, "seen": seen, "fix": fix, "hosts": sorted(set(hosts)), "ranks": sorted(set(ranks))}


def job_answers(
    reports: Sequence[Report], me: Report, wanted: int | None, missing: list[int], nodes: Sequence[str]
) -> Iterator[tuple[JobCheck, list[dict[str, Any]]]]:
    """Each check of a job with its answers, in their order.

    Args:
        reports: of all processes that answered.
        me: of the process that joins.
        wanted: processes that should have answered.
        missing: tasks that did not.
        nodes: machines that the scheduler gave.
    """
    looks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "job.reported": lambda: _reported(reports, wanted, missing, nodes),
        "job.ranks": lambda: _ranks(reports),
        "job.devices": lambda: _devices(reports),
        "job.world": lambda: _world(reports),
        "job.reach": lambda: _reach(reports),
        "job.clocks": lambda: _clocks(reports, me),
        "job.zones": lambda: _zones(reports),
        "job.versions": lambda: _versions(reports),
        "job.gpus": lambda: _gpus(reports),
        "job.settings": lambda: _settings(reports),
        "job.addresses": lambda: _addresses(reports),
        "job.folders": lambda: _folders(reports),
        "job.python": lambda: _python(reports),
    }
    for check in JOB_CHECKS:
        yield check, looks[check.id]()


def missing_tasks(reports: Sequence[Report], wanted: int | None) -> list[int]:
    """Tasks of which no report came."""
    seen = {r.task if r.task is not None else r.rank for r in reports}
    return [n for n in range(min(wanted or 0, 1 << 20)) if n not in seen]


def _reported(
    reports: Sequence[Report], wanted: int | None, missing: list[int], nodes: Sequence[str]
) -> list[dict[str, Any]]:
    hosts = {r.host.split(".")[0] for r in reports}
    silent = [n for n in nodes if n.split(".")[0] not in hosts]
    if wanted is None:
        return [_answer("not_checkable", f"{len(reports)} answered; nothing says how many there are")]
    if not missing and not silent:
        return [_answer("ok", f"all {wanted} answered")]
    if not missing:
        return [
            _answer(
                "warn",
                f"all {wanted} answered, none from {compress(silent)}, which the job has",
                "Start as many tasks as machines (`srun --ntasks-per-node=1`).",
                hosts=silent,
            )
        ]
    told = f"{len(missing)} of {wanted} did not answer in time: {spans(missing)}"
    if silent:
        told += f"; none from {compress(silent)}"
    return [
        _answer(
            "fail",
            told,
            "Start it on all of them (`srun firstfault preflight --job`); where it was, look at these machines (`scontrol show node`), or give more time with --wait.",
            hosts=silent,
            ranks=missing,
        )
    ]


def spans(numbers: Sequence[int]) -> str:
    """Numbers as runs: `0-3, 7`; a long list is cut."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    told = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    return ", ".join(told[:SHOWN]) + (f" and {len(told) - SHOWN} more" if len(told) > SHOWN else "")


def _ranks(reports: Sequence[Report]) -> list[dict[str, Any]]:
    held: dict[int, list[Report]] = defaultdict(list)
    for report in reports:
        if report.rank is not None:
            held[report.rank].append(report)
    twice = {rank: members for rank, members in held.items() if len(members) > 1}
    if twice:
        first = min(twice)
        where = ", ".join(f"{r.host} pid {r.pid}" for r in twice[first][:4])
        return [
            _answer(
                "fail",
                f"rank {first} is there {len(twice[first])} times ({where})"
                + (f", and so are {len(twice) - 1} more ranks" if len(twice) > 1 else ""),
                "Set RANK inside of each task (from SLURM_PROCID or OMPI_COMM_WORLD_RANK), not before they are started.",
                hosts=(r.host for r in twice[first]),
                ranks=twice,
            )
        ]
    world = max((r.world for r in reports if r.world is not None), default=None)
    beyond = [rank for rank in held if world is not None and rank >= world]
    if beyond:
        return [_answer("fail", f"ranks {spans(beyond)} in a world of {world}", "Correct WORLD_SIZE.", ranks=beyond)]
    return [_answer("ok", f"{len(held)} ranks, each once" if held else "nobody has a rank")]


def _devices(reports: Sequence[Report]) -> list[dict[str, Any]]:
    held: dict[tuple[str, str], list[Report]] = defaultdict(list)
    for report in reports:
        words = [w.strip() for w in (report.devices or "").split(",") if w.strip()]
        if report.local_rank is None:
            continue
        if report.devices is None:
            held[report.host, str(report.local_rank)].append(report)
        elif report.local_rank < len(words):
            held[report.host, words[report.local_rank]].append(report)
    # Only where each is a rank of its own: a rank that is there twice is told elsewhere.
    twice = {k: m for k, m in held.items() if len({r.rank for r in m}) > 1}
    if not twice:
        return [_answer("ok", "no two ranks of a machine take the same")]
    (name, device), members = next(iter(sorted(twice.items())))
    return [
        _answer(
            "fail",
            f"ranks {spans([r.rank for r in members if r.rank is not None])} on {name} would all take GPU {device}"
            + (f"; so on {len({h for h, _ in twice})} machines" if len({h for h, _ in twice}) > 1 else ""),
            "Set LOCAL_RANK inside of each task (from SLURM_LOCALID or OMPI_COMM_WORLD_LOCAL_RANK).",
            hosts=(h for h, _ in twice),
            ranks=(r.rank for m in twice.values() for r in m if r.rank is not None),
        )
    ]


def _world(reports: Sequence[Report]) -> list[dict[str, Any]]:
    answers = []
    for what, values in (
        ("WORLD_SIZE", [(r, str(r.world)) for r in reports if r.world is not None]),
        ("MASTER_ADDR:MASTER_PORT", [(r, r.master) for r in reports if r.master]),
    ):
        groups = _grouped((r.host, v, r.rank) for r, v in values)
        if len(groups) > 1:
            answers.append(
                _answer(
                    "fail",
                    f"{what} is not the same everywhere: {_split(groups)}",
                    f"Set {what.replace(':', ' and ')} once, for all ranks.",
                    hosts=_minority(groups),
                )
            )
    lacking = [r for r in reports if not r.master] if any(r.master for r in reports) else []
    if lacking:
        answers.append(
            _answer(
                "fail",
                f"MASTER_ADDR is not set for {len(lacking)} of {len(reports)} processes",
                "Export it to all tasks.",
                hosts=(r.host for r in lacking),
            )
        )
    return answers or [_answer("ok", "the same on all that answered")]


def _grouped(values: Iterable[tuple[str, str, int | None]]) -> dict[str, list[str]]:
    """Value -> machines that have it, the most common first."""
    held: dict[str, list[str]] = defaultdict(list)
    for name, value, _ in values:
        if name not in held[value]:
            held[value].append(name)
    return dict(sorted(held.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def _split(groups: dict[str, list[str]]) -> str:
    parts = [
        f"{value or 'none'} on {compress(hosts) if len(hosts) <= 64 else f'{len(hosts)} machines'}"
        for value, hosts in groups.items()
    ]
    return "; ".join(parts[:4]) + (f"; and {len(parts) - 4} more" if len(parts) > 4 else "")


def _minority(groups: dict[str, list[str]]) -> list[str]:
    return [h for hosts in list(groups.values())[1:] for h in hosts]


def _leaders(reports: Sequence[Report]) -> list[Report]:
    """One report with facts for each machine."""
    held: dict[str, Report] = {}
    for report in reports:
        if report.facts:
            held.setdefault(report.host, report)
    return list(held.values())


def _reach(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Each machine says for itself how it found the way; here only that nobody did."""
    if any(c.id == "job.reach" for r in reports for c in r.checks):
        return []
    if len({r.host for r in reports}) == 1:
        return [_answer("ok", "one machine")]
    return [_answer("not_checkable", "no meeting place is set that is free to be tried (MASTER_ADDR, MASTER_PORT)")]


def _clocks(reports: Sequence[Report], me: Report) -> list[dict[str, Any]]:
    known = {r.host: r.clock_s for r in reports if r.clock_s is not None and r.host != me.host}
    if not known:
        one = len({r.host for r in reports}) == 1
        return [_answer("ok" if one else "not_checkable", "one machine" if one else "the clocks could not be compared")]
    far = {h: s for h, s in known.items() if abs(s) >= CLOCK_WARN_S}
    if not far:
        return [_answer("ok", f"{len(known)} machines within {max(map(abs, known.values())):.1f} s of {me.host}")]
    worst = max(far, key=lambda h: abs(far[h]))
    by_agents = any(r.started_by == "torchrun" for r in reports) or any(
        "setting.TORCHELASTIC_RUN_ID" in r.facts for r in reports
    )
    bad = abs(far[worst]) >= CLOCK_FAIL_S or (by_agents and abs(far[worst]) >= CLOCK_KEEP_ALIVE_S)
    told = f"the clock of {worst} is {abs(far[worst]):.0f} s {'ahead of' if far[worst] > 0 else 'behind'} that of {me.host}"
    if len(far) > 1:
        told += f"; {len(far)} of {len(known)} machines are {CLOCK_WARN_S:g} s or more apart"
    return [
        _answer(
            "fail" if bad else "warn",
            told,
            "Start chronyd or ntpd on these machines (`chronyc tracking`), or exclude them.",
            hosts=far,
        )
    ]


def _zones(reports: Sequence[Report]) -> list[dict[str, Any]]:
    groups = _grouped((r.host, r.zone, r.rank) for r in reports if r.zone)
    if len(groups) > 1:
        return [
            _answer(
                "warn",
                f"local time is not the same everywhere: {_split(groups)}",
                "Set TZ for all ranks (TZ=UTC).",
                hosts=_minority(groups),
            )
        ]
    return [_answer("ok", f"{next(iter(groups), 'not told')} everywhere")]


def _differing(reports: Sequence[Report], prefix: str) -> dict[str, dict[str, list[str]]]:
    """Names of facts -> value -> machines, of those that are not the same on all machines; a fact that one lacks is empty there."""
    leaders = _leaders(reports)
    names = {n for r in leaders for n in r.facts if n.startswith(prefix)}
    found = {}
    for name in sorted(names):
        groups = _grouped((r.host, r.facts.get(name, ""), None) for r in leaders)
        if len(groups) > 1:
            found[name.removeprefix(prefix)] = groups
    return found


def _versions(reports: Sequence[Report]) -> list[dict[str, Any]]:
    answers = []
    for name, groups in _differing(reports, "version.").items():
        # Python, torch, NCCL: what is sent, and how, is a matter of these. Others change results or speed.
        hard = name in {"torch", "cuda"} or name.startswith("nvidia-nccl")
        state: CheckState = "fail" if hard else "warn"
        if name == "glibc":
            continue
        answers.append(
            _answer(
                state,
                f"{name}: {_split(groups)}",
                "Use one image or environment on all machines, or exclude those that differ.",
                hosts=_minority(groups),
            )
        )
    return answers or [_answer("ok", f"the same on {len(_leaders(reports))} machines")]


def _gpus(reports: Sequence[Report]) -> list[dict[str, Any]]:
    answers = [
        _answer(
            "warn",
            f"{'kinds of GPUs' if name == 'kinds' else 'number of GPUs'}: {_split(groups)}",
            "Ask for like machines (--constraint, --gres), or exclude those that differ.",
            hosts=_minority(groups),
        )
        for name, groups in _differing(reports, "gpu.").items()
    ]
    return answers or [_answer("ok", "the same on all machines")]


def _settings(reports: Sequence[Report]) -> list[dict[str, Any]]:
    answers = [
        _answer(
            "warn",
            f"{name}: {_split(groups)}",
            f"Export {name} to all machines alike (`srun --export=ALL`, `mpirun -x {name}`).",
            hosts=_minority(groups),
        )
        for name, groups in _differing(reports, "setting.").items()
    ]
    return answers or [_answer("ok", "the same on all machines")]


def _addresses(reports: Sequence[Report]) -> list[dict[str, Any]]:
    leaders = _leaders(reports)
    held: dict[str, list[str]] = defaultdict(list)
    for report in leaders:
        address = report.facts.get("network.address", "")
        if address:
            held[address].append(report.host)
    twice = {a: hosts for a, hosts in held.items() if len(hosts) > 1}
    if twice:
        address, hosts = next(iter(sorted(twice.items())))
        return [
            _answer(
                "fail",
                f"{compress(hosts)} would all give {address} as their address",
                "Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the interface between the machines; that one is a bridge inside of each.",
                hosts=hosts,
            )
        ]
    answers = []
    others = [r for r in leaders if r.rank != 0]
    groups = _grouped((r.host, r.facts["network.master"], None) for r in others if r.facts.get("network.master"))
    if len(groups) > 1 and not all(local_only(a) for v in groups for a in v.split(", ")):
        answers.append(
            _answer(
                "warn",
                f"MASTER_ADDR is resolved differently: {_split(groups)}",
                "Correct /etc/hosts or the name server, or set MASTER_ADDR to an address.",
                hosts=_minority(groups),
            )
        )
    names = _grouped((r.host, r.facts.get("network.interface", ""), None) for r in leaders)
    told = (
        f"the same interface, {next(iter(names))}, everywhere"
        if len(names) == 1
        else f"interfaces by name: {_split(names)}"
    )
    return answers or [_answer("ok", told)]


def _folders(reports: Sequence[Report]) -> list[dict[str, Any]]:
    from firstfault.preflight.storage import LOCAL

    leaders, answers = _leaders(reports), []
    for name in sorted({n for r in leaders for n in r.facts if n.startswith("folder.")}):
        path = name.removeprefix("folder.")
        groups = _grouped((r.host, r.facts.get(name, ""), None) for r in leaders)
        own = [h for value, hosts in groups.items() if value.split(" ")[0] in LOCAL for h in hosts]
        if own and len(leaders) > 1:
            answers.append(
                _answer(
                    "warn",
                    f"{path} is a disk of its own on {compress(own)}: each machine would keep its part of a checkpoint",
                    "Write to a file system that all machines see.",
                    hosts=own,
                )
            )
        elif len(groups) > 1:
            answers.append(
                _answer(
                    "warn",
                    f"{path} is not the same file system everywhere: {_split(groups)}",
                    "Mount the same one on all machines.",
                    hosts=_minority(groups),
                )
            )
    return answers or [_answer("ok", "the same everywhere, as far as they were named (--write)")]


def _python(reports: Sequence[Report]) -> list[dict[str, Any]]:
    found = {n: g for n, g in _differing(reports, "place.").items() if n in {"python", "container"}}
    answers = [
        _answer(
            "warn",
            f"{'Python' if n == 'python' else 'container'}: {_split(g)}",
            "Start all tasks in one image and environment.",
            hosts=_minority(g),
        )
        for n, g in found.items()
    ]
    return answers or [_answer("ok", "the same everywhere")]
