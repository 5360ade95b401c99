"""All checks in their order, and what one process finds by them.

A family is a file of its own; a new one is a line here.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.model.checks import ORDER, CheckResult
from firstfault.preflight import container, gpu, host, launcher, network, recorder, settings, storage
from firstfault.preflight.check import run_check
from firstfault.preflight.facts import facts, zone
from firstfault.preflight.job_checks import JOB_CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from firstfault.preflight.check import Check
    from firstfault.preflight.machine import Machine

FAMILIES: dict[str, tuple[Check, ...]] = {
    "launcher": launcher.CHECKS,
    "network": network.CHECKS,
    "settings": settings.CHECKS,
    "host": host.CHECKS,
    "gpu": gpu.CHECKS,
    "container": container.CHECKS,
    "storage": storage.CHECKS,
    "recorder": recorder.CHECKS,
}
"""Name -> checks, in the order in which they are shown."""


class Report(Struct, frozen=True, kw_only=True):
    """What one process of a job found; small, so that thousands can be joined."""

    host: str
    pid: int
    task: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    world: int | None = None
    tasks: int | None = None
    started_by: str = ""
    leads_node: bool = False
    devices: str | None = None
    """CUDA_VISIBLE_DEVICES."""
    master: str = ""
    """Where it would meet the others."""
    zone: str = ""
    at: float = 0.0
    """Seconds since the epoch by its own clock, when the report was written."""
    clock_s: float | None = None
    """Seconds by which its clock is ahead of that of rank 0, where that was measured."""
    facts: dict[str, str] = field(default_factory=dict)
    """Of the machine; empty where this process does not lead it."""
    checks: list[CheckResult] = field(default_factory=list)
    """Of a process that does not lead its machine only what is not well."""


def look(machine: Machine, say: Callable[[str], None] | None = None, *, alone: bool = False) -> Report:
    """What this process finds: all checks where it leads its machine, else those that differ by rank.

    Args:
        machine: this one.
        say: is told the name of each family before it is looked at.
        alone: whether no other process looks at the machine, whatever rank the variables give to this one.
    """
    who = machine.who
    leads = who.leads_node or alone
    found: list[CheckResult] = []
    for name, checks in FAMILIES.items():
        if say is not None:
            say(name)
        for check in checks:
            if leads or check.place == "rank":
                found += run_check(check, machine)
    if not leads:
        found = [c for c in found if c.state in {"warn", "fail"}]
    address, port = machine.env.get("MASTER_ADDR", ""), machine.env.get("MASTER_PORT", "")
    return Report(
        host=machine.host,
        pid=os.getpid(),
        task=who.task,
        rank=who.rank,
        local_rank=who.local_rank,
        world=who.world,
        tasks=who.tasks,
        started_by=who.started_by,
        leads_node=leads,
        devices=machine.env.get("CUDA_VISIBLE_DEVICES"),
        master=f"{address}:{port}" if address else "",
        zone=zone(),
        at=time.time(),
        facts=facts(machine) if leads else {},
        checks=found,
    )


def ordered(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The worst first, then in the order of the families."""
    names = [check.id for check in JOB_CHECKS] + [c.id for checks in FAMILIES.values() for c in checks]
    place = {name: number for number, name in enumerate(names)}
    return sorted(results, key=lambda r: (ORDER.index(r.state), place.get(r.id, len(place)), r.id, r.seen))
