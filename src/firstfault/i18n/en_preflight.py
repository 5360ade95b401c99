"""English messages of the reports about checks before a run and about environments; text only, the keys as in `en`."""

from __future__ import annotations

PREFLIGHT: dict[str, str] = {
    "preflight.ok": "READY",
    "preflight.warn": "READY, WITH WARNINGS",
    "preflight.fail": "NOT READY",
    "preflight.fails": "Would stop the job",
    "preflight.warns": "To look at",
    "preflight.unchecked": "Not checkable here",
    "preflight.fine": "In order",
    "preflight.on": "on {where}",
    "preflight.ranks": "ranks {ranks}",
    "preflight.todo": "What to do: {fix}",
    "preflight.why": "Why: {why}",
    "preflight.prevents": "Prevents: {names}",
    "preflight.more": "`--all` tells of each what was seen and why it is looked at.",
    "preflight.nodes": "Machines",
    "column.ranks": "ranks",
    "column.clock": "clock",
    "column.zone": "zone",
    "environment.comparable": "COMPARABLE",
    "environment.not_comparable": "NOT COMPARABLE",
    "environment.unknown": "NOT DECIDABLE",
    "environment.decides": "Decides",
    "environment.minor": "Differs without deciding",
    "environment.open": "Not known on one side",
    "environment.same": "The same: {names}",
    "column.what": "what",
    "column.first": "first",
    "column.second": "second",
}
