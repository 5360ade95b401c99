"""What the recorder is told: folders, bounds and times, from `FIRSTFAULT_RECORD_*` and from the call of `start`.

A value that cannot be read is the default; nothing here raises or makes a folder.
"""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

from firstfault.recorder.identity import short_host, start_ticks

PREFIX = "FIRSTFAULT_RECORD"
DEFAULT_DIR = "firstfault-record"
ON = PREFIX
"""Set to `1` by `firstfault record`: then every Python process below starts the recorder by itself."""


class Settings(NamedTuple):
    """How to record."""

    folder: str
    """The shared folder, absolute."""
    run: str
    """Name of this run: the same on all ranks."""
    local: str
    """Where rings lie: memory or a local disk."""
    host: str
    hang_s: float = 300.0
    """Seconds without a sign of life after which a process is taken to hang; 0: never."""
    start_s: float = 1800.0
    """The same before the first step."""
    gather_s: float = 5.0
    """Seconds between two copies from the node to the shared folder."""
    gap_s: float = 10.0
    """Seconds between the three parts of a bundle."""
    grace_s: float = 20.0
    """Seconds for which the monitor waits for new processes when the last one has ended: a launcher may start again."""
    rank_mb: float = 16.0
    """Megabytes that one process may write, all files together."""
    bundles: int = 8
    """Bundles that one node may take in one run."""
    signal: str = ""
    """Name or number of the dump signal; empty: chosen."""
    tools: str = ""
    """Tools that a bundle may use beside `/proc`: `py-spy`, `strace`; comma-separated."""
    items: str = "path"
    """What is kept of the item that a loader's worker reads: `path`, `key` (its index) or `none`."""
    stop: bool = False
    """Whether the monitor ends its ranks (SIGTERM) when a rank died anywhere."""
    memory: bool = True
    """Whether the allocation history of CUDA is switched on."""
    monitor: bool = True
    """Whether a monitor may be started."""

    @property
    def node(self) -> str:
        """The folder of this node in the shared folder."""
        return os.path.join(self.folder, self.run, self.host)

    @property
    def spool(self) -> str:
        """The folder of this node on this node; of this run and this shared folder alone."""
        of = f"{zlib.crc32(self.folder.encode('utf-8', 'surrogateescape')):08x}"
        return os.path.join(self.local, f"{self.run}-{of}", self.host)


def from_environment(folder: str | None = None) -> Settings:
    """The settings of this process.

    Args:
        folder: the shared folder; by the environment, else `firstfault-record` in the working directory, where None.
    """
    chosen = folder or os.environ.get(f"{PREFIX}_DIR") or DEFAULT_DIR
    defaults = Settings("", "", "", "")
    return Settings(
        folder=os.path.abspath(chosen),
        run=os.environ.get(f"{PREFIX}_RUN") or run_name(),
        local=os.environ.get(f"{PREFIX}_LOCAL") or local_folder(),
        host=short_host(),
        hang_s=_number("HANG_S", defaults.hang_s),
        start_s=_number("START_S", defaults.start_s),
        gather_s=max(_number("GATHER_S", defaults.gather_s), 0.2),
        gap_s=_number("GAP_S", defaults.gap_s),
        grace_s=_number("GRACE_S", defaults.grace_s),
        rank_mb=max(_number("MB", defaults.rank_mb), 0.1),
        bundles=int(_number("BUNDLES", defaults.bundles)),
        signal=os.environ.get(f"{PREFIX}_SIGNAL", ""),
        tools=os.environ.get(f"{PREFIX}_TOOLS", ""),
        items=os.environ.get(f"{PREFIX}_ITEMS", defaults.items),
        stop=os.environ.get(f"{PREFIX}_STOP", "") == "1",
        memory=os.environ.get(f"{PREFIX}_MEMORY", "1") == "1",
        monitor=os.environ.get(f"{PREFIX}_MONITOR", "1") == "1",
    )


def _number(name: str, default: float) -> float:
    try:
        value = float(os.environ.get(f"{PREFIX}_{name}", ""))
    except ValueError:
        return default
    return value if value >= 0 else default


def run_name() -> str:
    """A name that all ranks of a run find by themselves: of the scheduler's or launcher's job, else of the meeting place.

    Another job may have the same: see `joining.join`.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job:
        step = os.environ.get("SLURM_STEP_ID")
        return _safe(f"slurm-{job}.{step}" if step else f"slurm-{job}")
    elastic = os.environ.get("TORCHELASTIC_RUN_ID")
    if elastic and elastic != "none":
        return _safe(f"run-{elastic}")
    for name in ("LSB_JOBID", "PBS_JOBID", "JOB_ID"):
        if os.environ.get(name):
            return _safe(f"job-{os.environ[name]}")
    port = os.environ.get("MASTER_PORT")
    if port:
        return _safe(f"port-{port}")
    # Of no launcher that we know: the command that `record` started, else the processes of one shell command.
    group = os.getpgid(0)
    return os.environ.get(f"{PREFIX}_COMMAND") or f"group-{group}-{start_ticks(group)}"


def step_of_scheduler() -> bool:
    """Whether the name of the run is of one job by itself: that of a scheduler's step which has started this rank directly."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID")
    return all(os.environ.get(name) for name in names) and "TORCHELASTIC_RUN_ID" not in os.environ


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:80].lstrip(".") or "run"


def local_folder() -> str:
    """Memory where this machine has a folder of it, else its temporary folder; one of our user's own."""
    base = "/dev/shm"  # noqa: S108 - a folder of our own in it
    if not os.access(base, os.W_OK | os.X_OK):
        import tempfile  # 1 MB of each monitor, needed where there is no memory to write to

        base = tempfile.gettempdir()
    return os.path.join(base, f"firstfault-{os.getuid()}")
