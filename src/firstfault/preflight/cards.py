"""The GPUs of this machine by `nvidia-smi`, each answer with a limit of time; nothing of serial numbers is asked.

Must not judge anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from firstfault.preflight.machine import Machine

SLOW_S = 30.0
"""Seconds for `nvidia-smi`: without persistence mode the driver sets every GPU up first."""
_FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "compute_mode",
    "mig.mode.current",
    "temperature.gpu",
)
_SETS = (
    ("compute_cap",),
    ("ecc.errors.uncorrected.volatile.total",),
    ("retired_pages.pending",),
    (
        "clocks_throttle_reasons.hw_slowdown",
        "clocks_throttle_reasons.hw_thermal_slowdown",
        "clocks_throttle_reasons.hw_power_brake_slowdown",
    ),
    ("fabric.state", "fabric.status"),
    ("uuid",),
)
"""Fields that not every driver knows. All are asked at once, and apart where that fails: one that is not known spoils its whole question."""
_NONE = {"", "n/a", "[n/a]", "[not supported]", "[unknown error]", "[insufficient permissions]", "not supported", "[requested functionality has been deprecated]"}  # fmt: skip


class Card(NamedTuple):
    """One GPU: field of `nvidia-smi` -> value; fields that it does not have are left out."""

    fields: dict[str, str]

    @property
    def number(self) -> str:
        """Its number."""
        return self.fields.get("index", "?")

    def mb(self, name: str) -> int | None:
        """A field in MB."""
        found = re.match(r"\d+", self.fields.get(name, ""))
        return None if found is None else int(found[0])


class Cards(NamedTuple):
    """All GPUs, or why there are none."""

    cards: list[Card]
    trouble: str
    """What the driver said instead; empty where there is no sign of one."""


def cards(machine: Machine) -> Cards:
    """The GPUs of this machine; asked once for all checks."""
    if machine.which("nvidia-smi") is None:
        return Cards([], "")
    rows = _query(machine, (*_FIELDS, *(f for fields in _SETS for f in fields)))
    if not rows:
        rows = _query(machine, _FIELDS) or _query(machine, _FIELDS[:5])
        for fields in _SETS if rows else ():
            more = {row["index"]: row for row in _query(machine, ("index", *fields)) if "index" in row}
            for row in rows:
                row.update(more.get(row["index"], {}))
    if not rows:
        answer = machine.answer("nvidia-smi", "-L", seconds=SLOW_S)
        said = answer.text.decode("utf-8", "replace").strip().split("\n")[0][:200]
        return Cards([], said or answer.trouble or "nvidia-smi lists no GPU")
    return Cards([Card(row) for row in rows], "")


def _query(machine: Machine, fields: tuple[str, ...]) -> list[dict[str, str]]:
    answer = machine.answer("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", seconds=SLOW_S)
    if answer.trouble:
        return []
    rows = []
    for line in answer.text.decode("utf-8", "replace").splitlines():
        values = [v.strip() for v in line.split(",")]
        if len(values) == len(fields):
            rows.append({f: v for f, v in zip(fields, values, strict=True) if v.lower() not in _NONE})
    return [row for row in rows if row.get("index", "").isdecimal()]


class Process(NamedTuple):
    """A program that computes on a GPU."""

    pid: int
    name: str
    used: str


def processes(machine: Machine) -> list[Process] | None:
    """Programs on the GPUs; None where that cannot be asked."""
    answer = machine.answer("nvidia-smi", "--query-compute-apps=pid,used_gpu_memory,process_name", "--format=csv,noheader", seconds=SLOW_S)  # fmt: skip
    if answer.trouble:
        return None
    found = []
    for line in answer.text.decode("utf-8", "replace").splitlines():
        pid, used, name = (*(v.strip() for v in line.split(",", 2)), "", "")[:3]
        if pid.isdecimal():
            found.append(Process(int(pid), name, used))
    return found


def visible(machine: Machine, found: list[Card]) -> list[Card]:
    """The GPUs that CUDA_VISIBLE_DEVICES shows, by number; all where it names them otherwise or is not set."""
    told = machine.env.get("CUDA_VISIBLE_DEVICES")
    if told is None:
        return found
    words = [w.strip() for w in told.split(",") if w.strip()]
    if any(w.startswith(("GPU-", "MIG-")) for w in words):
        named = [c for c in found if any(c.fields.get("uuid", "").startswith(w) for w in words)]
        return named or found
    by_index = {c.number: c for c in found}
    return [by_index[w] for w in words if w in by_index]


def driver(machine: Machine) -> str:
    """Version of the NVIDIA driver; empty where there is none."""
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+[.\d]*)", machine.text("/proc/driver/nvidia/version") or "")
    if found is not None:
        return found[1]
    return next((c.fields["driver_version"] for c in cards(machine).cards if "driver_version" in c.fields), "")
