"""The facts that stand at the head: of a process (cheap, by itself) and of a node (dearer, by its monitor).

Runs programs (git, nvidia-smi) only in `node_header`, which is not called inside training. Must not import torch.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from firstfault.recorder.files import read_file
from firstfault.recorder.gathering import cleaner_text

if TYPE_CHECKING:
    from firstfault.recorder.clean import Cleaner
    from firstfault.recorder.identity import Identity
    from firstfault.recorder.settings import Settings
    from firstfault.recorder.signals import Signals

_LAUNCHER_NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "HOSTNAME",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "TZ",
)  # fmt: skip
_SCHEDULER_NAMES = frozenset(
    f"SLURM_{name}"
    for name in (
        "JOB_ID", "JOBID", "JOB_NAME", "JOB_NODELIST", "JOB_NUM_NODES", "JOB_PARTITION", "JOB_QOS", "JOB_START_TIME", "JOB_END_TIME",
        "JOB_CPUS_PER_NODE", "JOB_GPUS", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "CLUSTER_NAME", "CPUS_ON_NODE",
        "CPUS_PER_TASK", "CPU_BIND", "DISTRIBUTION", "GPUS", "GPUS_ON_NODE", "GPUS_PER_NODE", "GPUS_PER_TASK", "GPU_BIND", "GTIDS",
        "LAUNCH_NODE_IPADDR", "LOCALID", "MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE", "NNODES", "NODEID", "NODELIST", "NPROCS",
        "NTASKS", "NTASKS_PER_NODE", "PROCID", "RESTART_COUNT", "STEP_ID", "STEPID", "STEP_NODELIST", "STEP_NUM_NODES",
        "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE", "STEP_GPUS", "SUBMIT_HOST", "TASKS_PER_NODE", "THREADS_PER_CORE",
        "TOPOLOGY_ADDR", "HET_SIZE",
    )
)  # fmt: skip
"""Of the scheduler these alone: others hold logins (`SLURM_JWT`), comments, names of people and accounts."""
_LAUNCHER_PREFIXES = ("NCCL_", "TORCH", "GLOO_", "OMP_", "MKL_", "UCX_", "FI_", "RDMAV_", "OMPI_COMM_", "PMI", "CUDA_",
                      "PYTORCH_", "DEEPSPEED_", "ACCELERATE_", "FSDP_", "HF_HUB_", "HSA_", "HIP_", "ROCR_", "XLA_", "FIRSTFAULT_")  # fmt: skip
_LIMIT_S = 5.0
MOST_CONFIG = 512 << 10
"""Bytes of a configuration file that is hashed; its text is cleaned first, which takes 20 µs a line."""
_CONFIGS = (".yaml", ".yml", ".json", ".toml", ".cfg", ".ini")
_PACKAGES = ("torch", "numpy", "lightning", "pytorch-lightning", "transformers", "deepspeed", "accelerate", "megatron-core", "nvidia-nccl-cu12", "nvidia-nccl-cu13")  # fmt: skip


def process_header(settings: Settings, who: Identity, cleaner: Cleaner, signals: Signals) -> dict[str, Any]:
    """What a process knows of itself without asking anybody; secrets taken out."""
    words = getattr(sys, "orig_argv", [*sys.argv])
    variables = {k: v for k, v in os.environ.items() if _is_kept(k)}
    return {
        "world": who.world,
        "launcher": who.launcher,
        "command": cleaner.words(list(words)),
        "directory": cleaner.text(_directory()),
        "python": platform.python_version(),
        "zone": time.strftime("%z"),
        "variables": cleaner.value(dict(sorted(variables.items()))),
        "variables_in_all": len(os.environ),
        "config": _configs(words, cleaner),
        "dump_signal": signals.dump,
        "fatal_signals": "recorded" if signals.fatal else "the program's own faulthandler",
        "parent": os.getppid(),
        "hang_s": settings.hang_s,
        "start_s": settings.start_s,
        "shared": settings.node,
    }


def _is_kept(name: str) -> bool:
    """Whether a variable tells of the launch, and of nobody's login."""
    return name in _LAUNCHER_NAMES or name in _SCHEDULER_NAMES or name.startswith(_LAUNCHER_PREFIXES)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _configs(words: list[str], cleaner: Cleaner) -> list[dict[str, Any]]:
    """Configuration files that the command line names, each with the hash of its text without secrets; not their content."""
    import hashlib  # 4 MB of memory, for which the monitor has no use

    found: list[dict[str, Any]] = []
    for word in words[1:200]:
        path = word.rsplit("=", 1)[-1]
        if path.endswith(_CONFIGS) and len(found) < 8:
            raw = read_file(path, MOST_CONFIG + 1)
            if raw and len(raw) <= MOST_CONFIG:
                left = cleaner_text(raw, cleaner)
                found.append({"file": cleaner.text(path), "sha256": hashlib.sha256(left).hexdigest()[:16]})
    return found


def node_header(settings: Settings, cleaner: Cleaner, process: dict[str, Any] | None) -> dict[str, Any]:
    """What is true of a node: addresses, cards, driver, packages, code; each part left out where it cannot be had.

    Args:
        settings: how we record.
        cleaner: takes secrets out.
        process: a process of the job: `directory` is where its code is looked for, `python` is its interpreter.
    """
    process = process or {}
    facts: dict[str, Any] = {
        "host": settings.host,
        "run": settings.run,
        "hang_s": settings.hang_s,
        "start_s": settings.start_s,
        "gather_s": settings.gather_s,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "memory_mb": _memory(),
        "addresses": _addresses(),
        "driver": _driver(),
        "cards": _cards(),
        "packages": _packages(process.get("paths") or []),
        "code": _code(process.get("directory") or "", cleaner),
        "ptrace_scope": _word("/proc/sys/kernel/yama/ptrace_scope"),
    }
    return {k: v for k, v in facts.items() if v not in (None, [], {}, "")}


def _output(*words: str, cwd: str | None = None) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            words, capture_output=True, timeout=_LIMIT_S, check=False, cwd=cwd, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _cards() -> list[dict[str, str]]:
    names = ["index", "name", "pci.bus_id", "temperature.gpu", "memory.total", "driver_version", "vbios_version"]
    rows = _output("nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader")
    return [dict(zip(names, map(str.strip, row.split(",")), strict=False)) for row in rows.splitlines()[:64]]


def _driver() -> str:
    return read_file("/proc/driver/nvidia/version", 400).decode("utf-8", "replace").split("\n", 1)[0].strip()


def _packages(paths: list[str]) -> dict[str, str]:
    """Versions of the packages that matter, by the folders of the program's own search path."""
    from importlib.metadata import distributions

    found: dict[str, str] = {}
    for name in _PACKAGES:
        with contextlib.suppress(Exception):
            one = next(iter(distributions(name=name, path=paths or sys.path)), None)
            if one is not None:
                found[name] = one.version
    return found


def _code(directory: str, cleaner: Cleaner) -> dict[str, Any]:
    """Commit of the program's folder and whether it was changed since."""
    commit = _output("git", "rev-parse", "HEAD", cwd=directory) if os.path.isdir(directory) else ""
    if not commit:
        return {}
    # All nodes look at one folder: none of them may lock or write the index, which the user's own git needs.
    words = ("git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    changed = _output(*words, cwd=directory).splitlines()
    return {"commit": commit, "dirty": bool(changed), "changed": [cleaner.text(c.strip()) for c in changed[:20]]}


def _memory() -> int | None:
    for line in read_file("/proc/meminfo", 4096).splitlines():
        if line.startswith(b"MemTotal:"):
            return int(line.split()[1]) // 1024
    return None


def _addresses() -> list[str]:
    """Addresses of this machine by the kernel's own table, without asking a name server."""
    found: list[str] = []
    lines = read_file("/proc/net/fib_trie", 1 << 18).decode("ascii", "replace").splitlines()
    for before, line in zip(lines, lines[1:], strict=False):
        if "host LOCAL" in line:
            address = before.split()[-1]
            if not address.startswith("127.") and address not in found:
                found.append(address)
    return found[:32]


def _word(path: str) -> str:
    return read_file(path, 64).decode("ascii", "replace").strip()
