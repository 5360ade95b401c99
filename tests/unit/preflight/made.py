"""Machines made for a test: a root of their own, variables, interfaces, and programs on the path; everything else is real."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from firstfault.preflight import cards
from firstfault.preflight.check import run_check
from firstfault.preflight.families import FAMILIES
from firstfault.preflight.interfaces import Interface
from firstfault.preflight.machine import Asked, Machine

CHECKS = {check.id: check for checks in FAMILIES.values() for check in checks}
UP, LOOP = 0x1 | 0x40, 0x1 | 0x40 | 0x8
LO = Interface("lo", LOOP, ("127.0.0.1", "::1"))
ETH = Interface("eth0", UP, ("10.0.0.4", "fe80::1"))
DOCKER = Interface("docker0", UP, ("172.17.0.1",))
IB = Interface("ib0", UP, ("10.1.0.4",))


def machine(root: Path | None = None, *, files=None, interfaces=(LO, ETH), host="node-1", asked=None, **env) -> Machine:
    """A machine.

    Args:
        root: where its files of the kernel lie; the real ones where None.
        files: path -> text, written below the root.
        interfaces: its network interfaces.
        host: its name.
        asked: what is asked.
        env: its variables; PATH is that of this process unless given.
    """
    if root is not None:
        write(root, files or {})
    made = Machine({"PATH": os.environ["PATH"], **env}, root=str(root or "/"), asked=asked or Asked())
    made.__dict__["interfaces"] = list(interfaces)
    made.__dict__["host"] = host
    return made


def write(root: Path, files: dict[str, str]) -> None:
    """Writes files below a folder."""
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def found(check: str, made: Machine) -> list[tuple[str, str]]:
    """State and text of what a check finds."""
    return [(r.state, r.seen) for r in run_check(CHECKS[check], made)]


def states(check: str, made: Machine) -> set[str]:
    """States of what a check finds; every problem comes with something to do."""
    results = run_check(CHECKS[check], made)
    assert all(r.fix for r in results if r.state in {"warn", "fail"})
    assert all(r.seen and r.why for r in results)
    return {r.state for r in results}


def program(folder: Path, name: str, script: str) -> str:
    """A program of that name in a folder, which comes first on the path that is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def package(folder: Path, name: str, version: str, files=None) -> None:
    """An installed package, as its metadata tells of it."""
    write(
        folder,
        {
            f"{name.replace('-', '_')}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        },
    )
    write(folder, files or {})


@cache
def may_unshare() -> bool:
    """Whether this machine lets a test have mounts and a network of its own."""
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "-rmn", "true"], capture_output=True, check=False, timeout=20)
    return done.returncode == 0


GPU_FIELDS = {
    "name": "NVIDIA H100 80GB HBM3", "driver_version": "550.54.15", "memory.total": "81559 MiB", "memory.used": "4 MiB", "compute_mode": "Default",
    "mig.mode.current": "Disabled", "temperature.gpu": "31", "compute_cap": "9.0", "ecc.errors.uncorrected.volatile.total": "0", "retired_pages.pending": "[N/A]",
    "clocks_throttle_reasons.hw_slowdown": "Not Active", "clocks_throttle_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "Not Active", "fabric.state": "Completed", "fabric.status": "Success", "uuid": "GPU-0",
}  # fmt: skip


def smi(folder: Path, count: int = 8, *, apps="", rows="", unknown=(), **changed) -> str:
    """A program `nvidia-smi` that answers for some GPUs; the path that has it.

    Args:
        folder: where it lies.
        count: GPUs.
        apps: what it says of programs on them.
        rows: what it says of replaced memory rows.
        unknown: fields that this driver does not know.
        changed: field, with `__` for `.` -> value of GPU 0, or a list of values.
    """
    table = [{**GPU_FIELDS, "index": str(n)} for n in range(count)]
    for name, value in changed.items():
        field = name.replace("__", ".")
        for n, row in enumerate(table):
            if isinstance(value, list):
                row[field] = value[n]
            elif n == 0:
                row[field] = value
    whole = (*cards._FIELDS, *(f for fields in cards._SETS for f in fields))
    cases = [f"--query-compute-apps=*) {_says(apps)};;", f"--query-remapped-rows=*) {_says(rows)};;"]
    listed = "".join(f"GPU {n}: {row['name']}\n" for n, row in enumerate(table))
    cases.append(f"-L) {_says(listed)};;")
    for asked in (whole, cards._FIELDS, cards._FIELDS[:5], *(("index", *fields) for fields in cards._SETS)):
        strange = [a for a in asked if a in unknown]
        answer = "".join(", ".join(row.get(a, "[N/A]") for a in asked) + "\n" for row in table)
        said = f"echo 'Field \"{strange[0]}\" is not a valid field to query.'; exit 2" if strange else _says(answer)
        cases.append(f"--query-gpu={','.join(asked)}) {said};;")
    return program(folder, "nvidia-smi", 'case "$1" in\n' + "\n".join(cases) + "\n*) exit 3;;\nesac")


def _says(text: str) -> str:
    return f"printf '%s' '{text}'"
