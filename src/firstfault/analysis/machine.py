"""Faults and the machines of the job: one that all ranks of a machine alone meet is the machine's; what is no machine of the job.

Changes whom a fault is blamed on; asks no question of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.case import GENERIC_EXCEPTION
from firstfault.analysis.hostlist import short_host
from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Blame, Category, Domain, Layer, Mark, SourceKind, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect

OF_PATHS = frozenset({"FileNotFoundError", "NotADirectoryError", "PermissionError", "OSError", "IOError"})
FEWEST = 2
"""Ranks that a machine must hold: of one rank a host it cannot be told whether the rank or the host is meant."""


def of_one_machine(scene: Scene, suspect: Suspect) -> Suspect:
    """A path that is missing or refused on all ranks of one machine alone: its mount or its disk, and the machine is named.

    Only where another machine has ranks that ran, and none of them met the fault.
    """
    exception = suspect.first.exception
    if exception is None or exception.kind.rsplit(".", 1)[-1] not in OF_PATHS or suspect.unplaced:
        return suspect
    if not (suspect.nature.key.startswith(GENERIC_EXCEPTION) or scene.case.has(suspect.first, Mark.PATH)):
        # A more telling line knows better why.
        return suspect
    if suspect.nature.category not in {Category.DATA, Category.SOFTWARE, Category.STORAGE_IO}:
        return suspect
    if suspect.nature.strength is Strength.ESTABLISHED or suspect.nature.blame is Blame.HOST:
        return suspect
    machine = _only_machine(scene, suspect)
    if machine is None:
        return suspect
    nature = replace(
        suspect.nature,
        category=Category.STORAGE_IO,
        domain=Domain.DATA,
        layer=Layer.STORAGE,
        blame=Blame.HOST,
        strength=suspect.nature.strength.at_most(Strength.POSSIBLE),
        advice=(
            f"Look on {machine} for the path: is its file system mounted there, as it is on the others?",
            *suspect.nature.advice,
        ),
    )
    return replace(suspect, nature=nature, hosts=(machine,))


def _only_machine(scene: Scene, suspect: Suspect) -> str | None:
    """The one host on which all ranks that met a fault run, and no others; None where it is not so."""
    ranks = set(suspect.everyone)
    if len(ranks) < FEWEST:
        return None
    host_of = {
        r: h
        for r in {*scene.complete.seen, *scene.roster.host_of, *ranks}
        if (h := scene.roster.host_of_rank(r)) is not None
    }
    hosts = {host_of.get(r) for r in ranks}
    if len(hosts) != 1 or None in hosts:
        return None
    machine = next(iter(hosts))
    there = {r for r, h in host_of.items() if h == machine}
    elsewhere = {r for r, h in host_of.items() if h != machine}
    return machine if there == ranks and len(elsewhere) >= FEWEST else None


_POD = lazy(r"(?i)-(?:worker|master|launcher|leader|replica|head|node)-?\d+(?:-\d+)?$|-[a-z0-9]{8,10}-[a-z0-9]{5}$")
"""Ends of names that controllers of a cluster give to pods: the host name that a container sees is as a rule such a one."""


def of_the_job(scene: Scene, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts that a restart can leave out: the job's own, where it is known on which machines it ran; else all but the store's."""
    known = _machines(scene)
    if known is None:
        known = {short_host(h) for h in hosts} - _of_the_store(scene)
    return tuple(h for h in hosts if short_host(h) in known)


def _of_the_store(scene: Scene) -> set[str]:
    """Short names of machines of which only files beside the logs of storage daemons speak, and on which no rank is placed."""
    case, roster = scene.case, scene.roster
    folders = {s.id: s.path.partition("!")[0].rpartition("/")[0] for s in case.seen.sources}
    stores = {folders[i] for i, kind in case.kind_of.items() if kind is SourceKind.AISTORE}
    stores -= {folders[i] for i, kind in case.kind_of.items() if kind is SourceKind.LOG}
    where: dict[str, set[str]] = {}
    for event in scene.events:
        host = roster.host(event)
        if host is not None:
            where.setdefault(short_host(host), set()).add(folders.get(event.span.source, ""))
    return {h for h, seen in where.items() if seen <= stores} - roster.machines


def _machines(scene: Scene) -> set[str] | None:
    """Short names of the job's machines; None where some rank's is not known, or where ranks are placed in pods."""
    roster, nodes = scene.roster, scene.complete.expected_nodes
    world = scene.complete.expected or scene.complete.at_least
    placed = {roster.host_of_rank(GlobalRank(r)) for r in range(world)}
    machines = {*roster.machines, *(short_host(h) for h in placed if h is not None)}
    if world < FEWEST or None in placed or len(machines) < (nodes or 1):
        return None
    if any(_POD.search(m) for m in machines) or any(s.startswith("kubernetes.") for s in scene.case.signatures):
        return None
    return machines
