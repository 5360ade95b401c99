"""Machine's and platform's lines about what is no part of the job: another program on its GPU, a pod that runs no rank of it.

Acquits only where names say so on both sides: what the line is about, and where all ranks of the job ran; or, of a process
that the kernel killed, where the job itself tells of a good end and of nothing else. Judges no times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.program_names import computes, ours, runs_ranks, serves
from firstfault.model.evidence import GlobalRank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case
    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import Event

PROGRAMS_OWN = frozenset({"8", "13", "31", "43", "45", "69", "94"})
"""Xid codes by which the driver tells what one program did or met: these end that program, and no other on the same GPU."""
_PLATFORMS = ("kubernetes.", "container.")
_KILLS = ("kernel.oom_kill", "kernel.segfault")


def may_be_of_another(case: Case) -> frozenset[str]:
    """Signatures of lines that `of_another` looks at."""
    return frozenset(s for s in case.signatures if s == "kernel.xid" or s.startswith(_PLATFORMS))


def of_another(case: Case, roster: Roster, event: Event) -> bool:
    """Whether a line is about a program or a pod that is no part of the job.

    Args:
        case: knows where files come from.
        roster: which rank ran where.
        event: a line of a machine or a platform.
    """
    if event.signature == "kernel.xid":
        return _another_program(roster, event)
    if event.signature.startswith(_PLATFORMS):
        return _another_pod(case, roster, event)
    return False


def untied(case: Case, roster: Roster, event: Event) -> bool:
    """Whether no line ties what was killed for memory, or by a bad access, to the job: neither name, place, pid nor pod.

    Such a line does not overrule what the job itself says of its end. A process without a name may be anybody's.

    Args:
        case: knows where files come from, and what else was told.
        roster: which rank ran where.
        event: any line.
    """
    if event.signature == "kubernetes.oom_killed":
        pod = event.fields.get("pod")
        return pod is not None and not serves(pod) and not akin(case, roster, pod)
    name, source = event.fields.get("name", ""), event.span.source
    if not event.signature.startswith(_KILLS) or not name or runs_ranks(name):
        return False
    place = case.seen.place.get(source)
    if source in case.tracks or event.who.rank is not None or (place is not None and place.rank is not None):
        return False  # the job's own log tells of it
    pid = event.fields.get("pid")
    return pid is None or not any(
        e.fields.get("pid") == pid and not e.signature.startswith(_KILLS) for e in case.events
    )


def akin(case: Case, roster: Roster, pod: str) -> bool:
    """Whether a pod may be one of the job's: no place and no machine of it is known, or one has the first word of its name.

    Args:
        case: knows where files come from.
        roster: which rank ran where.
        pod: its name.
    """
    names = names_of(case, roster, pod)
    return not names or alike(pod, names)


def names_of(case: Case, roster: Roster, pod: str) -> set[str]:
    """Names of places and machines of a job, but that of a pod itself."""
    names = {w.label for w in case.seen.place.values() if w.label is not None and w.label != pod}
    names |= {w.host for w in case.seen.place.values() if w.host is not None}
    return names | set(roster.host_of.values())


def alike(pod: str, names: Iterable[str]) -> bool:
    """Whether a pod has the first word of some name."""
    return _stem(pod) in {_stem(name) for name in names}


def _another_program(roster: Roster, event: Event) -> bool:
    """Whether an Xid that tells what one program did names a program that by its name is no training job's, and is no known rank."""
    name = event.fields.get("name", "")
    if event.fields.get("xid") not in PROGRAMS_OWN or not name or name.startswith("<"):
        return False
    host, pid = roster.host(event), event.fields.get("pid", "")
    if host is not None and pid.isdecimal() and roster.rank_of_process(host, int(pid)) is not None:
        return False  # a job's programs may have any name
    return not ours(name) and not computes(name)


def _another_pod(case: Case, roster: Roster, event: Event) -> bool:
    """Whether a pod is none of the job's: all ranks are placed, none by its name or on its node, and no name is akin.

    A container's host name is the name of its pod as a rule, and the node's where it shares the node's network: so neither
    may be a machine of a rank. A pod that serves a job has a part of the job's name, or says by its own what it serves.
    """
    pod, node, world = event.fields.get("pod"), event.who.host, roster.whole
    if pod is None or node is None or not world or serves(pod):
        return False
    machines = {h for r in range(world) if (h := roster.host_of.get(GlobalRank(r))) is not None}
    if any(GlobalRank(r) not in roster.host_of for r in range(world)):
        return False
    if {short_host(pod), short_host(node)} & {short_host(h) for h in machines}:
        return False
    labels = {w.label for w in case.seen.place.values() if w.label is not None and w.label != pod}
    return _stem(pod) not in {_stem(name) for name in (*machines, *labels)}


def _stem(name: str) -> str:
    """The first word of a name, by which the pods of one job are alike."""
    return name.split("-", 1)[0].split(".", 1)[0].lower()
