"""What a person may ask of a diagnosis.

Must not import a room: the command line loads this before it knows whether anything is to be done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

CLUSTER = "dask"
ENGINES = ("auto", "inline", "processes", CLUSTER)


def on_cluster(engine: str) -> bool:
    """Whether an engine is a cluster, ours for this run or one with an address."""
    return engine.partition(":")[0] == CLUSTER


class DiagnoseOptions(Struct, frozen=True, kw_only=True):
    """Options of one diagnosis; the defaults are those of `firstfault diagnose`."""

    attempt: int | Literal["last", "all"] = "last"
    """Which start of the job to diagnose: its number from 1, the last failing one, or every one."""
    assume_zone: str | None = None
    """Zone of stamps that state none: `Z`, `+08:00` or an IANA name; None leaves them as local time."""
    job_state: str | None = None
    """The scheduler's word for how the job ended, such as `TIMEOUT`, in capitals; None where nobody said it."""
    exit_code: int | None = None
    """The job's exit status, or minus the signal number; None where nobody said it."""
    signatures: tuple[Path, ...] = ()
    """Folders of a site's own signatures, later ones win."""
    engine: str = "auto"
    """Where sources are scanned and read: `auto`, `inline`, `processes`, `dask`, or `dask:` and a scheduler's address or file; the answer is the same."""
    progress: bool = False
    """Whether a progress bar may be drawn on stderr."""
    storage: tuple[str, ...] = ()
    """Paths that hold the storage system's own logs."""
    deadline: float | None = None
    """Seconds after which an answer is wanted: reading ends early enough, and what was not read is told; None for no limit."""
    incidents: str | None = None
    """Folder of a team's records of past incidents, `auto` or `here` for `incidents` in a PATH's repository or the one around us; None for none."""
