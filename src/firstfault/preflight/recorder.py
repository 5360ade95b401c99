"""Checks of what will be left behind when the job fails: dumps of the flight recorder, the black box, core files.

What the recorder needs is tried by itself (`firstfault.recorder.checks`), in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.preflight.check import Check, ok, unknown, warn
from firstfault.preflight.settings import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Machine

_TRY = (
    "import json, sys; sys.path.insert(0, sys.argv[2]); from firstfault.recorder.checks import run_checks; "
    "json.dump([list(c) for c in run_checks(sys.argv[1] or None) if c.name != 'store'], sys.stdout)"
)
_LIMIT_S = 30.0
_PACKAGE = Path(__file__).resolve().parents[2]
_ON_BY_ITSELF, _DUMPS_BY_ITSELF = (2, 10), (2, 6)
"""Versions of PyTorch from which on the recorder records, and dumps, without being told (FlightRecorder.hpp, ProcessGroupNCCL.cpp)."""
_ON = frozenset({"1", "y", "yes", "t", "true"})


def _box(machine: Machine) -> Iterator[Seen]:
    asked = machine.asked.recorder or machine.env.get("FIRSTFAULT_RECORD_DIR")
    if asked is None:
        yield unknown("no folder was named; `--recorder DIR` names the one that `firstfault record --dir` will get")
        return
    # The parts of ours that it needs are named, so that nothing of the working directory is taken for them.
    answer = machine.answer(sys.executable, "-I", "-S", "-c", _TRY, asked, str(_PACKAGE), seconds=_LIMIT_S)
    try:
        rows = json.loads(answer.text)
    except ValueError:
        yield unknown(f"it could not be tried: {answer.trouble or 'no answer'}")
        return
    unmet = [(name, detail) for name, met, detail in rows if not met]
    for name, detail in unmet:
        yield warn(f"{name}: {detail}", "`firstfault record --check` shows all that the recorder needs.")
    if not unmet:
        yield ok(f"{len(rows)} needs of the recorder are met")


def _flight(machine: Machine) -> Iterator[Seen]:
    env, torch = machine.env, machine.torch
    size = next((env[n] for n in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE") if n in env), None)
    if not torch.get("cuda"):
        yield unknown("no PyTorch for CUDA is installed beside firstfault")
        return
    if machine.who.world in {None, 1} and size is None:
        yield ok("one rank makes no collectives to record")
        return
    version = numbers(torch.get("version", ""))
    if size is None and version >= _ON_BY_ITSELF:
        yield ok("left to PyTorch, which records the last 2000 calls by itself")
        return
    if size is None or (size.isdecimal() and int(size) == 0):
        yield warn(
            "the flight recorder is off: a hang will not say which rank was missing from which collective",
            "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 (TORCH_FR_BUFFER_SIZE since PyTorch 2.9).",
        )
        return
    dump = env.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "").lower()
    if dump not in _ON and (dump or version < _DUMPS_BY_ITSELF):
        yield warn("the flight recorder records, but writes nothing at a time-out", "Set TORCH_NCCL_DUMP_ON_TIMEOUT=1.")
        return
    yield from _place(machine)


def _place(machine: Machine) -> Iterator[Seen]:
    """Whether the dumps can be written, and outlive the machine."""
    env = machine.env
    name = next((n for n in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE") if env.get(n)), "")
    if not name:
        yield ok("on; dumps go to /tmp or the home folder, so collect them from each machine")
        return
    folder = os.path.dirname(env[name]) or "."  # noqa: PTH120 - the value is a prefix of files, not a path
    found = machine.folder(folder, write=True)
    if found.trouble or not found.exists or not found.writable:
        yield warn(
            f"{name}={env[name]}: no dump can be written there: {found.trouble or found.refused or 'not allowed'}",
            f"`mkdir -p {folder}` on every machine, or choose another folder.",
        )
    elif env.get("TORCH_NCCL_ASYNC_ERROR_HANDLING") in {"1", "2"}:
        yield warn(
            "TORCH_NCCL_ASYNC_ERROR_HANDLING aborts communicators while the flight recorder dumps, so that dumps get lost",
            "Unset it: 3 is the default.",
        )
    else:
        yield ok(f"on; dumps go to {env[name]}")


def _core(machine: Machine) -> Seen:
    limit = machine.limit("core")
    pattern = machine.word("/proc/sys/kernel/core_pattern")
    if limit == 0:
        return ok("no core file will be written (ulimit -c 0); the stacks of faulthandler do not need one")
    told = "a core file of a whole process will be written" if limit is None else f"core files up to {limit >> 20} MB"
    if not pattern.startswith("|") and limit is None and re.fullmatch(r"[^/|]*", pattern):
        return ok(f"{told} into the working directory: with all ranks that may fill it")
    return ok(told)


CHECKS = (
    Check(
        "recorder.flight", "the flight recorder of PyTorch", "Without its dumps a hang names the collective, and not the rank that was missing.",
        ("nccl.collective_timeout", "nccl.no_stack_of_failed_collective"), _flight,
    ),
    Check("recorder.box", "whether the recorder can work here (--recorder)", "What it cannot do here will be missing after the failure.", ("recorder.death",), _box),
    Check("recorder.core", "core files", "Cores of all ranks at once fill a disk.", ("process.segfault",), _core),
)  # fmt: skip
