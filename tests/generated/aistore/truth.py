"""The truth about a simulated incident, in the format of the simulated incidents beside.

It looks at what was put in and at which of its lines are left, never at what anybody reads out of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .faults import EFFECTS
from .scenario import CATEGORIES, GUILTY, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .daemons import Node
    from .job import Found
    from .layouts import Places
    from .scenario import Incident


def of(incident: Incident, brought: Sequence[Node], places: Places, marks: dict[str, Found]) -> dict[str, Any]:
    """What a diagnosis should say, and what it must not."""
    spec, job = incident.spec, incident.job
    told = _verdict(incident, brought)
    events = _events(incident, brought, places)
    chain = [line for mark, _, line in events if mark not in EFFECTS]
    client = _worker_line(marks)
    lines = [] if told["category"] in ("none", "network") or spec.kind == "no_clock" else [*client, *chain]
    worker, store = spec.zones
    return {
        "scenario": spec.kind,
        "seed": spec.seed,
        "version": f"{spec.version[0]}.{spec.version[1]}",
        "layout": spec.layout,
        "torch": job.torch,
        "job": job.id,
        "hosts": job.hosts,
        **told,
        "trigger": lines[0] if lines else None,
        "trigger_alternatives": lines[1:],
        "chain": [{"event": what, "line": line} for _, what, line in events],
        "must_not": {
            "category": ["network"]
            if told["category"] != "network" and "network" not in told["acceptable_categories"]
            else [],
            "ranks": [],
            "hosts": _innocent(incident, {*(told["culprit_hosts"] or ()), *told["suspects"]}),
        },
        "timezone_offset_hours": (worker - store) / 60,
        "affected_window_local": None
        if incident.fault is None
        else [job.zone.local(at).isoformat(timespec="seconds") for at in (incident.fault.first, incident.end)],
        "aliases": {_canonical(node, incident): _names(node) for node in incident.cluster.nodes},
        "decidable_offset": bool(brought) and spec.kind not in ("no_clock", "wrong_window"),
    }


def _verdict(incident: Incident, brought: Sequence[Node]) -> dict[str, Any]:
    """Category and who, by the rules of the cases."""
    kind, victim, job = incident.spec.kind, incident.victim, incident.job
    told: dict[str, Any] = {
        "category": "storage_io",
        "acceptable_categories": CATEGORIES.get(kind, ["storage_io"]),
        "strength_at_most": None,
        "culprit_ranks": [],
        "culprit_hosts": [],
        # With two of them it is not judged who was first.
        "first_failed_ranks": [victim] if incident.second is None else None,
        "suspects": [],
    }
    fault = incident.fault
    if kind in GUILTY:
        assert fault is not None
        told["culprit_hosts"] = [] if fault.origin is None else [_canonical(fault.origin, incident)]
        told["suspects"] = [name for node in fault.suspects for name in _names(node)]
        if fault.origin is not None and _loosely_joined(incident):
            told["suspects"] += _names(fault.origin)
            told["culprit_hosts"] = []
    elif kind in {"old_fault", "two_stores"}:
        told["culprit_hosts"] = [_canonical(incident.origin, incident)]
    elif kind in {"origin_cut", "other_job_ends"}:
        # The true one is right, none is too; of the end of another job nobody is sure.
        told["suspects"] = _names(incident.origin)
        told["surely_nobody"] = kind == "other_job_ends"
    elif kind == "origin_missing" and _loosely_joined(incident):
        told["suspects"] = _names(incident.origin)
    elif kind == "origin_missing":
        # Its peers name it by id from 4.0 on; before, only an address stands there.
        named = incident.origin.dialect.relays
        told["culprit_hosts"] = [_canonical(incident.origin, incident)] if named else []
        told["suspects"] = [] if named else _names(incident.origin)
    elif kind not in UNDECIDED or kind == "no_clock":
        told |= _no_fault_of_the_store(kind, victim, job.host(victim))
    return told


def _no_fault_of_the_store(kind: str, victim: int, host: str) -> dict[str, Any]:
    """What is told where another fault, or none, is the truth."""
    if kind == "no_clock":
        return {
            "category": "data_loading_stall",
            "acceptable_categories": ["data_loading_stall", "storage_io"],
            "strength_at_most": "possible",
            "culprit_ranks": [victim],
            "culprit_hosts": [host],
            "first_failed_ranks": None,
        }
    if kind.endswith("_oom"):
        return {
            "category": "gpu_cuda",
            "acceptable_categories": ["gpu_cuda", "software"],
            "culprit_ranks": [victim],
            "culprit_hosts": [host],
        }
    if kind.endswith("_keyerror"):
        return {
            "category": "software",
            "acceptable_categories": ["software", "data"],
            "culprit_ranks": None,
            "culprit_hosts": None,
        }
    if kind == "busy_fabric":
        return {
            "category": "network",
            "acceptable_categories": ["network"],
            "strength_at_most": "possible",
            "first_failed_ranks": None,
        }
    assert kind == "healthy", kind
    return {"category": "none", "acceptable_categories": ["none"], "first_failed_ranks": []}


def _loosely_joined(incident: Incident) -> bool:
    """Whether only lines of trouble are left, so that nobody has to dare a name: the true one is right, none is too."""
    return incident.spec.layout == "archives_error"


def _names(node: Node) -> list[str]:
    """Everything that one daemon may be called."""
    return [node.host, node.id, node.name]


def _innocent(incident: Incident, named: set[str]) -> list[str]:
    """All names of the daemons that are neither to blame nor suspect."""
    beside = [] if incident.beside is None else incident.beside.nodes
    return [name for node in (*incident.cluster.nodes, *beside) if not named & {*_names(node)} for name in _names(node)]


def _canonical(node: Node, incident: Incident) -> str:
    """The name by which the truth calls a daemon: its host, its id where the host is cut off or its log is missing."""
    cut = node.journal.short_host != node.host and not incident.spec.layout.startswith("pods")
    return node.id if cut or node in incident.missing else node.host


def _worker_line(marks: dict[str, Found]) -> list[dict[str, Any]]:
    return [
        {
            "file": f"logs/{found.file}",
            "line": found.line,
            "must_contain": found.text.split("]: ", 1)[-1][:100].split("{", 1)[0].strip(),
        }
        for found in marks.values()
    ]


def _events(incident: Incident, brought: Sequence[Node], places: Places) -> list[tuple[str, str, dict[str, Any]]]:
    """The chain as far as its lines are left: mark, what happened, and the line."""
    fault = incident.fault
    if fault is None:
        return []
    found = []
    # A node that joins is not to blame, but its start is where it began.
    began = [node for node in brought if node is fault.origin or node in fault.suspects]
    order = sorted(brought, key=lambda node: node not in began)
    for mark, what in [*fault.chain, ("started", "the process starts")]:
        where = began if mark == "started" else order
        place = next((places[node.id, mark] for node in where if (node.id, mark) in places), None)
        if place is not None:
            # Of the lines of one busy disk any will do: they differ in the size of the reads only.
            part = place.text.split(",", 1)[0] if mark == "disk" else place.text[:100].split("\n", 1)[0]
            line = {"file": place.file, "line": place.line, "must_contain": part}
            if place.member is not None:
                line["member"] = place.member
            found.append((mark, what, line))
    return found
