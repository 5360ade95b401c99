"""A fault that all ranks of one machine meet and no rank of another: it is that machine's, whatever the exception says.

Changes whom a fault is blamed on; asks no question of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.case import GENERIC_EXCEPTION
from firstfault.model.words import Blame, Category, Domain, Layer, Mark, Strength

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
