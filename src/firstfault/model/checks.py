"""What checks before a run found, on one machine or joined over a job; the published JSON; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import Published

PREFLIGHT = "firstfault.preflight/1"

CheckState = Literal["ok", "warn", "fail", "not_checkable"]
"""How a check ended: nothing wrong, to look at, the job would fail, or nothing that could be looked at here."""
ORDER: tuple[CheckState, ...] = ("fail", "warn", "not_checkable", "ok")
"""The worst first."""


class CheckResult(Struct, frozen=True, kw_only=True):
    """What one check found."""

    id: str
    """Family and name, such as `host.shm`."""
    state: CheckState
    seen: str
    """What was found, in words."""
    fix: str = ""
    """What to do; empty where there is nothing to do."""
    why: str = ""
    """What it is good for; the same for every result of a check."""
    prevents: list[str] = field(default_factory=list)
    """Signatures and recorded incidents that the check is there to prevent; `firstfault explain` tells of them."""
    hosts: list[str] = field(default_factory=list)
    """Machines of which it is true."""
    ranks: list[int] = field(default_factory=list)
    """Global ranks of which it is true; empty where it is true of a machine or of the job."""


class NodeRow(Struct, frozen=True, kw_only=True):
    """One machine that took part."""

    host: str
    ranks: list[int] = field(default_factory=list)
    """Its global ranks that reported, in order."""
    clock_s: float | None = None
    """Seconds by which its clock is ahead of that of the machine that joined the answers; None where that was not measured."""
    zone: str = ""
    """Offset of its local time, such as `+0200`."""


class Preflight(Published, frozen=True, kw_only=True):
    """The answer of all checks."""

    schema: str = PREFLIGHT
    state: Literal["ok", "warn", "fail"]
    """The worst of its checks; what could not be looked at does not count."""
    summary: str
    world_size: int | None = None
    """Ranks that should take part; None where nothing says it."""
    reported: int = 1
    """Ranks of which a result came."""
    missing: list[int] = field(default_factory=list)
    """Global ranks of which none came in time."""
    nodes: list[NodeRow] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    """The worst first, then in the order of the families."""
