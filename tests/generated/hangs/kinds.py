"""The kinds of incidents: what is put into the job, and the truth about it as far as it does not depend on the lines.

Each builder takes the job and a source of chance and gives the plan and the truth. What the lines that are left can tell
is not decided here but by `oracle`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .engine import Compute, Die, Say, Stuck
from .programs import Plan

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from .engine import Action, Group
    from .programs import Job, Op

HOLD = ("data_loading_stall", "data", "storage_io", "software", "unknown")
"""What an expert accepts where a rank did not come and no line says why."""


@dataclass(frozen=True)
class Injected:
    """What was done, and to whom."""

    sort: str
    """How the oracle looks at it: stall, fabric, transport, mismatch, crash, error, killed, heartbeat, machine or none."""
    category: str
    acceptable: tuple[str, ...]
    culprits: tuple[int, ...] = ()
    at_most: str | None = None
    must_not: tuple[str, ...] = ()
    group: str = "default"
    """Kind of the group in which the culprit is missed first."""
    suspects: tuple[int, ...] = ()
    story: str = ""
    hosts: tuple[str, ...] = field(default=())


Built = tuple[Plan, Injected]
Builder = "Callable[[Job, random.Random], Built]"
KINDS: dict[str, Callable[[Job, random.Random], Built]] = {}
NEEDS: dict[str, str] = {}
"""Kind -> the groups it needs besides the default one (`tp`, `pp`, `ep`)."""
OLDEST = {"heartbeat": (2, 3)}
"""Kind -> the first version in which there is such a thing."""


def least(name: str) -> int:
    """The smallest job in which a kind can happen."""
    return 8 if name in NEEDS else 4 if name in {"stall_two", "node_frozen"} else 2


def kind(needs: str = "") -> Callable[[Callable[[Job, random.Random], Built]], Callable[[Job, random.Random], Built]]:
    """Register a kind under the name of its builder."""

    def register(build: Callable[[Job, random.Random], Built]) -> Callable[[Job, random.Random], Built]:
        KINDS[build.__name__] = build
        if needs:
            NEEDS[build.__name__] = needs
        return build

    return register


def _somebody(job: Job, rng: random.Random) -> int:
    """A rank that is neither the first nor the one that prints for all, where there is one."""
    choice = [rank for rank in range(1, job.shape.world) if rank != job.speaker]
    return rng.choice(choice or [job.shape.world - 1])


def _bad_step(job: Job) -> int:
    return job.first_step + 2


def _at(ranks: Iterable[int], step: int, point: str, *actions: Action) -> Callable[[int, int, str], Iterable[Action]]:
    chosen = frozenset(ranks)

    def act(rank: int, at_step: int, at_point: str) -> Iterable[Action]:
        return actions if at_step == step and at_point == point and rank in chosen else ()

    return act


def _stall(job: Job, culprits: tuple[int, ...], point: str = "data", group: str = "default", *first: Action) -> Built:
    plan = Plan(act=_at(culprits, _bad_step(job), point, *first, Stuck()))
    truth = Injected("stall", HOLD[0], HOLD, culprits, must_not=("network", "collective_mismatch"), group=group)
    return plan, truth


@kind()
def stall_loader(job: Job, rng: random.Random) -> Built:
    """The data loader of one rank never delivers."""
    return _stall(job, (_somebody(job, rng),))


@kind()
def stall_loader_told(job: Job, rng: random.Random) -> Built:
    """The same, and the rank has printed which shard it is reading."""
    culprit = _somebody(job, rng)
    shard = Say("reading", {"shard": rng.randrange(100, 900), "step": _bad_step(job)})
    return _stall(job, (culprit,), "data", "default", shard)


@kind()
def stall_rank0(job: Job, rng: random.Random) -> Built:
    """Rank 0 is the one that does not come."""
    return _stall(job, (0,))


@kind()
def stall_two(job: Job, rng: random.Random) -> Built:
    """Two ranks of different machines, where there are several, do not come."""
    first = _somebody(job, rng)
    others = [rank for rank in range(job.shape.world) if rank not in (first, job.speaker)]
    far = [rank for rank in others if job.shape.host(rank) != job.shape.host(first)]
    return _stall(job, tuple(sorted((first, rng.choice(far or others)))))


@kind()
def stall_checkpoint(job: Job, rng: random.Random) -> Built:
    """Rank 0 writes a checkpoint into a file system that hangs, the others stand in the barrier behind it."""
    plan = Plan(act=_at((0,), _bad_step(job), "save", Say("saving", {"step": _bad_step(job)}), Stuck()))
    plan.saves_at = _bad_step(job)
    acceptable = ("storage_io", *HOLD)
    return plan, Injected("stall", "storage_io", acceptable, (0,), must_not=("network", "collective_mismatch"))


@kind()
def stall_evaluation(job: Job, rng: random.Random) -> Built:
    """One rank goes on evaluating although the others are done."""
    culprit = _somebody(job, rng)
    lines = [Say("evaluating", {"batch": batch, "step": _bad_step(job)}) for batch in (1, 2, 3)]
    actions = [lines[0], Compute(2.0), lines[1], Compute(40.0), lines[2], Stuck()]
    plan = Plan(act=_at((culprit,), _bad_step(job), "evaluate", *actions), evaluates_at=_bad_step(job))
    return plan, Injected("stall", HOLD[0], HOLD, (culprit,), must_not=("network", "collective_mismatch"))


@kind()
def stall_gil(job: Job, rng: random.Random) -> Built:
    """A thread of one rank holds the interpreter's lock for ever, between two collectives of a step."""
    plan, truth = _stall(job, (_somebody(job, rng),), "middle")
    plan.act = _at(truth.culprits, _bad_step(job), "middle", Stuck(lock=True))
    return plan, replace(truth, category="software")


@kind("tp")
def stall_tensor_pair(job: Job, rng: random.Random) -> Built:
    """One rank of a tensor-parallel group does not come."""
    return _stall(job, (_somebody(job, rng),), "data", "tp")


@kind("pp")
def stall_pipeline_stage(job: Job, rng: random.Random) -> Built:
    """One rank of a later pipeline stage stands still inside its step."""
    later = [rank for rank in range(job.shape.world) if job.shape.stage(rank) > 0 and rank != job.speaker]
    return _stall(job, (rng.choice(later),), "middle", "pp")


@kind("ep")
def stall_expert_group(job: Job, rng: random.Random) -> Built:
    """One rank does not come to the exchange of its expert group."""
    return _stall(job, (_somebody(job, rng),), "data", "ep")


@kind("tp")
def stall_group_rank(job: Job, rng: random.Random) -> Built:
    """The straggler's rank within its groups is the global rank of somebody innocent."""
    groups = job.shape.by_rank
    choice = [rank for rank in range(1, job.shape.world) if groups[rank]["dp"].places[rank] not in (0, rank)]
    return _stall(job, (rng.choice([rank for rank in choice if rank != job.speaker]),), "data", "tp")


@kind()
def fabric(job: Job, rng: random.Random) -> Built:
    """Nothing moves between the machines any more (in the machine, where there is one); all are inside."""
    return _fabric(job, _somebody(job, rng))


def _fabric(job: Job, first: int, *said: Action) -> Built:
    """The fabric stands still from when rank `first` comes to the middle of the bad step."""
    still: list[bool] = []

    def act(rank: int, step: int, point: str) -> Iterable[Action]:
        if (rank, step, point) != (first, _bad_step(job), "middle"):
            return ()
        still.append(True)
        return said

    def blocked(group: Group) -> bool:
        shape = job.shape
        return bool(still) and (shape.nodes == 1 or len({rank // shape.per_node for rank in group.members}) > 1)

    plan = Plan(act=act, blocked=blocked)
    return plan, Injected("fabric", "network", ("network", "unknown"), at_most="possible")


@kind()
def fabric_transport(job: Job, rng: random.Random) -> Built:
    """The same, and NCCL names the transport error on one rank."""
    shape = job.shape
    teller = _somebody(job, rng)
    node = teller // shape.per_node
    peer = (node + 1) % shape.nodes
    plan, truth = _fabric(job, teller, Say("ib_error", {"peer": peer}))
    hosts = (shape.hosts[node], shape.hosts[peer])
    truth = replace(truth, sort="transport", acceptable=("network",), at_most=None, suspects=(teller,), hosts=hosts)
    return plan, truth


def _mismatch(job: Job, rng: random.Random, change: Callable[[list[Op]], list[Op]]) -> Built:
    culprit, step = _somebody(job, rng), _bad_step(job)

    def ops(rank: int, at_step: int, right: list[Op]) -> list[Op]:
        return change(right) if (rank, at_step) == (culprit, step) else right

    group = "dp" if job.shape.split else "default"
    truth = Injected(
        "mismatch", "collective_mismatch", ("collective_mismatch", "software", "data"), (culprit,),
        must_not=("network",), group=group,
    )  # fmt: skip
    return Plan(ops=ops), truth


@kind()
def mismatch_op(job: Job, rng: random.Random) -> Built:
    """One rank issues another collective than the rest."""
    return _mismatch(job, rng, lambda right: [("ALLGATHER", 2, 2 * job.shape.dp), *right[1:]])


@kind()
def mismatch_size(job: Job, rng: random.Random) -> Built:
    """One rank issues the collective with another size."""
    return _mismatch(job, rng, lambda right: [(right[0][0], right[0][1] - 4096, right[0][2] - 4096), *right[1:]])


@kind()
def mismatch_order(job: Job, rng: random.Random) -> Built:
    """One rank issues two collectives in the wrong order."""
    return _mismatch(job, rng, lambda right: [right[1], right[0], *right[2:]])


@kind()
def uneven_end(job: Job, rng: random.Random) -> Built:
    """One rank has fewer batches and stands in the barrier at the end of the epoch while the rest is in a step."""
    plan, truth = _mismatch(job, rng, lambda _right: [("ALLREDUCE", 1, 1)])
    culprit, step = truth.culprits[0], _bad_step(job)
    plan.act = _at((culprit,), step, "data", Say("exhausted", {"step": step - 1}))
    return plan, replace(truth, category="data", acceptable=("data", "collective_mismatch", "data_loading_stall"))


@kind()
def finished_early(job: Job, rng: random.Random) -> Built:
    """One rank has no more data, ends its loop and its process in good order; the rest waits for it."""
    culprit, step = _somebody(job, rng), _bad_step(job)
    act = _at((culprit,), step, "data", Say("exhausted", {"step": step - 1}), Say("done_alone", {}), Die(0))
    acceptable = ("data", "data_loading_stall", "collective_mismatch", "software", "unknown")
    return Plan(act=act), Injected("stall", "data", acceptable, (culprit,), must_not=("network",))


def _crash(job: Job, rng: random.Random, error: str, category: str, *also: str) -> Built:
    culprit = _somebody(job, rng)
    act = _at((culprit,), _bad_step(job), "data", Say("raise", {"error": error}), Compute(0.6), Die(1))
    return Plan(act=act), Injected("crash", category, (category, *also), (culprit,), must_not=("network",))


@kind()
def crash_data(job: Job, rng: random.Random) -> Built:
    """A rank dies of a sample that it cannot decode, the others time out or are ended by their launcher."""
    file = f"/data/train/shard-{rng.randrange(400):05d}/{rng.randrange(10**6):06d}.jpg"
    return _crash(job, rng, f"PIL.UnidentifiedImageError: cannot identify image file '{file}'", "data")


@kind()
def crash_code(job: Job, rng: random.Random) -> Built:
    """A rank dies of an exception that may be of its data or of the code that all run: who failed is plain, whose fault is not."""
    plan, truth = _crash(job, rng, "KeyError: 'input_ids'", "software", "data")
    return plan, replace(truth, sort="error")


@kind()
def crash_memory(job: Job, rng: random.Random) -> Built:
    """A rank dies of a full GPU."""
    return _crash(job, rng, "oom", "gpu_cuda")


@kind()
def killed(job: Job, rng: random.Random) -> Built:
    """Somebody kills the process of one rank and leaves no trace."""
    culprit = _somebody(job, rng)
    act = _at((culprit,), _bad_step(job), "data", Die(-9))
    acceptable = ("infrastructure", "software", "unknown")
    return Plan(act=act), Injected("killed", "infrastructure", acceptable, (culprit,), "possible", ("network",))


@kind()
def heartbeat(job: Job, rng: random.Random) -> Built:
    """The watchdog of one rank is stuck in a call of the driver, and the heartbeat monitor ends the process."""
    culprit = _somebody(job, rng)
    plan = Plan(act=_at((culprit,), _bad_step(job), "middle", Stuck(watchdog=True)), timeout=1800.0)
    acceptable = ("software", "gpu_cuda", "unknown")
    return plan, Injected("heartbeat", "software", acceptable, (culprit,), "possible", ("collective_mismatch",))


@kind()
def node_frozen(job: Job, rng: random.Random) -> Built:
    """A whole machine stands still: no rank of it comes, and none says anything."""
    shape = job.shape
    node = rng.randrange(1, shape.nodes)
    ranks = tuple(range(node * shape.per_node, (node + 1) * shape.per_node))
    act = _at(ranks, _bad_step(job), "data", Stuck(frozen=True))
    acceptable = ("infrastructure", "unknown", "network")
    truth = Injected(
        "machine", "infrastructure", acceptable, (), "possible", ("collective_mismatch",), suspects=ranks,
        hosts=(shape.hosts[node],),
    )  # fmt: skip
    return Plan(act=act), truth


@kind()
def healthy_retry(job: Job, rng: random.Random) -> Built:
    """The store refuses a read twice, then delivers; the run ends well."""
    culprit = _somebody(job, rng)
    retry = [Say("retry", {"left": 2}), Compute(20.0), Say("retry", {"left": 1}), Compute(35.0)]
    return Plan(act=_at((culprit,), _bad_step(job), "data", *retry)), Injected("none", "none", ("none",))


@kind()
def healthy_flap(job: Job, rng: random.Random) -> Built:
    """A port of the fabric goes down and comes back in time; the run ends well."""
    culprit = _somebody(job, rng)
    flap = [Say("flap", {"event": "port error(10)"}), Compute(6.0), Say("flap", {"event": "port active(9)"})]
    return Plan(act=_at((culprit,), _bad_step(job), "middle", *flap)), Injected("none", "none", ("none",))


@kind()
def healthy_slow(job: Job, rng: random.Random) -> Built:
    """One rank takes minutes for its steps, all wait, and the run ends well."""
    culprit = _somebody(job, rng)
    plan = Plan(step_seconds=lambda rank, _step: 170.0 if rank == culprit else 0.0)
    return plan, Injected("none", "none", ("none",))
