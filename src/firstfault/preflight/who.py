"""Who this process is in the job that is about to start: by the scheduler, and by the launcher, apart.

The recorder asks which rank a running program is; here the two sources are kept apart, because checks hold one against the other.
Must not look at anything but the variables that it is given.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

TASKS = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_SIZE",), ""),
    "MVAPICH": ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_SIZE",), ""),
    "SLURM": ("SLURM_PROCID", "SLURM_LOCALID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), "SLURM_STEP_NUM_NODES"),
    "MPI": ("PMI_RANK", "MPI_LOCALRANKID", ("PMI_SIZE",), ""),
}
"""Who starts tasks -> names of task, task on the machine, number of tasks, number of machines.

mpirun before SLURM: inside of a batch job its ranks inherit the number of the daemon that started them.
"""


class Who(NamedTuple):
    """A process among those of a job; None where nothing says it."""

    rank: int | None
    """Global rank that a training script would take."""
    local_rank: int | None
    world: int | None
    started_by: str
    """`torchrun`, a scheduler or MPI by name; empty where nobody is known to have started several."""
    task: int | None
    """Number of this process among those that were started together."""
    local_task: int | None
    tasks: int | None
    nodes: int | None

    @property
    def leads_node(self) -> bool:
        """Whether this process looks at the machine for the others on it."""
        return self.local_task in {None, 0}

    @property
    def leads_job(self) -> bool:
        """Whether this process joins the answers."""
        return self.task in {None, 0}

    @property
    def is_meeting_place(self) -> bool:
        """Whether the process that others connect to will run here: rank 0."""
        return self.rank in {None, 0}

    @property
    def alone(self) -> bool:
        """Whether the job is known to have one machine, or nothing says that it has more."""
        return self.nodes in {None, 1}


def number(text: str | None) -> int | None:
    """A whole number of a variable; None where it is none."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,8}", text.strip()) else None


def who_is(env: Mapping[str, str]) -> Who:
    """Who a process is by its variables."""
    rank, local, world = (number(env.get(n)) for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    if "TORCHELASTIC_RUN_ID" in env and rank is not None:
        per_node = number(env.get("LOCAL_WORLD_SIZE"))
        nodes = number(env.get("GROUP_WORLD_SIZE"))
        if nodes is None and world is not None and per_node:
            nodes = -(-world // per_node)
        return Who(rank, local, world, "torchrun", rank, local, world, nodes)
    for name, (task_name, local_name, size_names, node_name) in TASKS.items():
        task = number(env.get(task_name))
        if task is None:
            continue
        local_task = number(env.get(local_name))
        tasks = next((n for s in size_names if (n := number(env.get(s))) is not None), None)
        return Who(
            rank=task if rank is None else rank,
            local_rank=local_task if local is None else local,
            world=tasks if world is None else world,
            started_by=name,
            task=task,
            local_task=local_task,
            tasks=tasks,
            nodes=_nodes(env, node_name, tasks),
        )
    per_node = number(env.get("LOCAL_WORLD_SIZE"))
    nodes = -(-world // per_node) if world is not None and per_node else None
    return Who(rank, local, world, "", rank, local, world, nodes)


def _nodes(env: Mapping[str, str], name: str, tasks: int | None) -> int | None:
    told = next(
        (n for v in (name, "SLURM_NNODES", "SLURM_JOB_NUM_NODES") if (n := number(env.get(v))) is not None), None
    )
    if told is not None:
        return told
    local = number(env.get("OMPI_COMM_WORLD_LOCAL_SIZE")) or number(env.get("MPI_LOCALNRANKS"))
    return -(-tasks // local) if tasks is not None and local else None
