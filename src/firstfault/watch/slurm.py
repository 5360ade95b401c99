"""Finds the folder in which a Slurm job records: by the name of the run, in a folder that is given or that the scheduler tells.

Asks the scheduler with a time-out; changes nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from firstfault.collect.commands import run
from firstfault.recorder import format as layout
from firstfault.recorder.settings import DEFAULT_DIR, PREFIX

LIMIT_S = 10.0
"""Seconds for one question to the scheduler."""
_JOB = re.compile(r"\d{1,12}(?:_\d{1,7})?")
_WORK = re.compile(r"^\s*WorkDir=(/.*)$", re.MULTILINE)


def run_of_job(job: str, folder: Path | None) -> Path:
    """The run of a job that was written last; a job may have several, one a step.

    Args:
        job: its number.
        folder: what `firstfault record --dir` was given; where None that of `$FIRSTFAULT_RECORD_DIR`, else the usual one in
            the job's working directory.

    Raises:
        ValueError: this is no number of a job.
        FileNotFoundError: the job has no run there, or the scheduler does not know where it works.
    """
    if not _JOB.fullmatch(job):
        raise ValueError(f"{job!r} is no number of a Slurm job: 4711, or 4711_3 of an array")
    told = os.environ.get(f"{PREFIX}_DIR")
    base = folder or (Path(told) if told else _work_of(job) / DEFAULT_DIR)
    # The step is the run's own: `slurm-4711`, `slurm-4711.0`.
    name = re.compile(rf"slurm-{_number_of(job)}(?:\.\w+)?")
    runs = {f.parent.parent: f.stat().st_mtime for f in base.glob(f"slurm-*/*/{layout.NODE_FILE}")}
    mine = {r: at for r, at in runs.items() if name.fullmatch(r.name)}
    if not mine:
        raise FileNotFoundError(f"{base} holds no run of job {job}")
    return max(mine, key=lambda r: (mine[r], r.name))


def _number_of(job: str) -> str:
    """The number by which a job's processes know it: a task of an array has one of its own, which the scheduler tells."""
    if "_" not in job:
        return job
    found = re.search(r"\bJobId=(\d+)", _shown(job))
    if found is None:
        raise FileNotFoundError(f"the scheduler does not know the task {job}; give its own number, $SLURM_JOB_ID")
    return found.group(1)


def _shown(job: str) -> str:
    return run(["scontrol", "show", "job", job], LIMIT_S).text.decode("utf-8", "replace")


def _work_of(job: str) -> Path:
    found = _WORK.search(_shown(job))
    if found is not None:
        return Path(found.group(1).strip())
    # The scheduler forgets a job some minutes after its end; its accounting does not.
    answer = run(["sacct", "-j", job, "-X", "--noheader", "--parsable2", "--format=WorkDir"], LIMIT_S)
    text = answer.text.decode("utf-8", "replace").split("\n", 1)[0].strip()
    if not text.startswith("/"):
        raise FileNotFoundError(
            f"the scheduler does not say where job {job} works ({answer.trouble or 'it is unknown'})"
        )
    return Path(text)
