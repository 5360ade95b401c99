"""Who this process is: rank, local rank, world and attempt by what launchers and schedulers set; host and start time.

Reads the environment and /proc of the own process only; must not import torch.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
_LOCAL = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
_WORLD = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed",
    "accelerate",
    "firstfault",
)
_FILES = (
    "torch/distributed/run.py",
    "torch/distributed/launch.py",
    "deepspeed/launcher/launch.py",
    "accelerate/commands/launch.py",
)


class Identity(NamedTuple):
    """Who a process is; None where nothing says it."""

    rank: int | None
    local_rank: int | None
    world: int | None
    attempt: int
    """0 for the first start; torchrun counts them."""
    launcher: bool
    """Whether this is a program that starts the ranks, not one of them."""


def identify() -> Identity:
    """Who this process is by its environment and its command line."""
    launcher = is_launcher(_command())
    rank = _first(_RANK)
    if launcher and "RANK" not in os.environ:
        rank = None  # a launcher that a scheduler started as a task is no rank
    return Identity(
        rank=None if launcher else rank,
        local_rank=None if launcher else _first(_LOCAL),
        world=_first(_WORLD),
        attempt=_first(("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")) or 0,
        launcher=launcher,
    )


def is_launcher(words: list[str]) -> bool:
    """Whether a command line is one of a program that starts ranks.

    Args:
        words: as the process was started: interpreter, its options, program.
    """
    for word, before in zip(words[:6], ["", *words], strict=False):
        if word.endswith(".py") and before != "-m" and not word.endswith(_FILES):
            return False
        name = word.rsplit("/", 1)[-1]
        by_path = "/" in word and word.endswith(_FILES)
        if name in _LAUNCHERS or (before == "-m" and word.startswith(_LAUNCHERS)) or by_path:
            return True
    return False


def _command() -> list[str]:
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read(65536).decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def _first(names: tuple[str, ...]) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdecimal() and len(text) < 8:
            return int(text)
    return None


def short_host() -> str:
    """The name of this machine without its domain; fit for the name of a folder."""
    try:
        name = socket.gethostname().split(".", 1)[0]
    except OSError:
        name = ""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in name) or "host"


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 where it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read(4096).rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
