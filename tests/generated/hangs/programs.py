"""What the ranks of a training job run: the steps of a data-parallel and of a Megatron-like job, with places for a fault.

A `Plan` says what happens at such a place; the programs know nothing about faults beyond that.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .engine import Action, Collective, Compute, Die, Say, Sync

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from .engine import Group
    from .topology import Shape

Op = tuple[str, int, int]


def nothing(_rank: int, _step: int, _point: str) -> Iterable[Action]:
    """The plan of a rank that has nothing special to do."""
    return ()


@dataclass
class Plan:
    """What is put into a job."""

    act: Callable[[int, int, str], Iterable[Action]] = nothing
    """Actions of a rank in a step at a point: start, data, middle, save, evaluate, end."""
    ops: Callable[[int, int, list[Op]], list[Op]] = lambda _rank, _step, ops: ops
    """The gradient collectives that a rank issues in a step, given the right ones."""
    blocked: Callable[[Group], bool] = lambda _group: False
    step_seconds: Callable[[int, int], float] = lambda _rank, _step: 0.0
    """Seconds more that a rank takes in a step."""
    saves_at: int | None = None
    evaluates_at: int | None = None
    steps: int = 4
    heartbeat_monitor: bool = True
    timeout: float | None = None


@dataclass
class Job:
    """The job around the fault: its layout and habits."""

    shape: Shape
    seed: int
    style: str
    """`plain` (data parallel, own logger), `nemo` (a broadcast of one number each step) or `megatron`."""
    first_step: int
    total_steps: int
    talkative: bool
    """Whether every rank prints its steps; else one does."""
    quiet: bool = False
    """Whether only one rank prints who it is."""
    buckets: list[Op] = field(default_factory=list)

    @property
    def speaker(self) -> int:
        """The rank that prints for all."""
        return self.shape.world - 1 if self.style == "megatron" else 0


def program(job: Job, plan: Plan, rank: int) -> Generator[Action, None, None]:
    """All that one rank does, from its start to the end of the run."""
    rng = random.Random(job.seed * 1_000_003 + rank)
    if rank == 0 or not job.quiet:
        yield Say("start")
    yield from plan.act(rank, job.first_step, "start")
    yield Compute(rng.uniform(8, 14))
    if not job.quiet:
        yield Say("communicator")
    body = _megatron_step if job.style == "megatron" else _plain_step
    for step in range(job.first_step, job.first_step + plan.steps):
        yield from plan.act(rank, step, "data")
        yield Compute(rng.uniform(1.8, 2.2) + plan.step_seconds(rank, step))
        yield from body(job, plan, rank, step)
        yield Sync()
        if job.talkative or rank == job.speaker:
            yield Say("step", {"step": step, "loss": 2.4 - 0.003 * (step - job.first_step) + rng.uniform(-0.02, 0.02)})
        if plan.saves_at == step:
            yield from _barrier()
            yield from plan.act(rank, step, "save")
            yield from _barrier()
        if plan.evaluates_at == step:
            yield from plan.act(rank, step, "evaluate")
            yield from _barrier()
    yield from plan.act(rank, job.first_step + plan.steps, "end")
    yield from _barrier()
    if rank == job.speaker:
        yield Say("finished", {"step": job.first_step + plan.steps - 1})
    yield Die(0)


def _barrier() -> Generator[Action, None, None]:
    """A barrier under NCCL: an all-reduce of one number that is waited for."""
    yield Collective("default", "ALLREDUCE", 1, 1)
    yield Sync()


def _plain_step(job: Job, plan: Plan, rank: int, step: int) -> Generator[Action, None, None]:
    if job.style == "nemo":
        yield Collective("default", "BROADCAST", 1, 1)
    yield from plan.act(rank, step, "middle")
    for op in plan.ops(rank, step, list(job.buckets)):
        yield Collective("default", *op)


def _megatron_step(job: Job, plan: Plan, rank: int, step: int) -> Generator[Action, None, None]:
    shape = job.shape
    groups = shape.by_rank[rank]
    hidden = 4096 * 2048
    stage, last = shape.stage(rank), shape.pp - 1
    pipe = groups["pp"].members if "pp" in groups else (rank,)
    if shape.tp > 1:
        yield Collective("tp", "BROADCAST", 8193, 8193)
    if stage > 0:
        yield Collective("pp", "RECV", hidden, hidden, peer=pipe[stage - 1])
    if shape.tp > 1:
        yield Collective("tp", "ALLREDUCE", hidden, hidden)
    if shape.ep > 1:
        yield Collective("ep", "ALLTOALL_BASE", hidden // 2, hidden // 2)
    yield from plan.act(rank, step, "middle")
    if stage < last:
        yield Collective("pp", "SEND", hidden, hidden, peer=pipe[stage + 1])
        yield Collective("pp", "RECV", hidden, hidden, peer=pipe[stage + 1])
    if shape.tp > 1:
        yield Collective("tp", "ALLREDUCE", hidden, hidden)
    if stage > 0:
        yield Collective("pp", "SEND", hidden, hidden, peer=pipe[stage - 1])
    for op in plan.ops(rank, step, list(job.buckets)):
        yield Collective("dp", *op)
    yield Collective("default", "ALLREDUCE", 1, 1)
