"""What the name of a program or of a pod tells: whether it may be one of a training job, runs ranks, or only serves them.

The only place with such names. A name is weak evidence: these lists acquit what is plainly somebody else's, and accuse nobody.
Sources: names of processes in the kernel's out-of-memory tables and in Xid lines of public reports (2018 to 2026); `pt_main_thread`,
`pt_data_worker`, `pt_autograd_*` as PyTorch names its threads; replica types of Kubeflow's operators, Volcano, KubeRay and LeaderWorkerSet.
"""

from __future__ import annotations

from firstfault.model.lazy import lazy

_RUNS_RANKS = r"python|^pt_|torch|train|mpi|slurm|srun|conda|deepspeed|accelerate|nccl|sh$"
_RANKS = lazy(rf"(?i){_RUNS_RANKS}|^ray")
_OURS = lazy(rf"(?i){_RUNS_RANKS}|ray|container|data|worker|main")
_COMPUTES = lazy(r"(?i)vllm|sglang|triton|infer|engine|jax|tensorflow|cuda|test|bench|python")
_SERVES = lazy(
    r"(?i)launch|master|head|leader|driver|sched|etcd|rdzv|rendezvous|coord|control|operator|server|store|redis"
)


def ours(name: str) -> bool:
    """Whether a program may by its name be one of a training job; services of any machine (java, node) are not among them."""
    return _OURS.search(name) is not None


def runs_ranks(name: str) -> bool:
    """Whether a program by its name runs ranks or starts them; helpers of a job (data, worker, container) are not among them."""
    return _RANKS.search(name) is not None


def computes(name: str) -> bool:
    """Whether a program by its name is one that uses a GPU itself: an engine, a benchmark, a test."""
    return _COMPUTES.search(name) is not None


def serves(pod: str) -> bool:
    """Whether a pod by its name serves a job without running a rank of it."""
    return _SERVES.search(pod) is not None
