"""Checks of what starts the ranks: their numbers, the meeting place, the name of this machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.preflight.check import Check, fail, ok, unknown, warn
from firstfault.preflight.container import kind
from firstfault.preflight.interfaces import local_only
from firstfault.preflight.who import TASKS, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Machine

_NUMBERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")
_UNSET = "Unset it, or let the launcher set it: torchrun, `srun` with the script reading SLURM_PROCID, or mpirun."


def _numbers(machine: Machine) -> Iterator[Seen]:
    env = machine.env
    held = {n: env[n] for n in _NUMBERS if n in env}
    for name, text in held.items():
        if number(text) is None:
            yield fail(f"{name}={text!r} is no whole number", f"Set {name} to a number. {_UNSET}")
    values = {n: number(t) for n, t in held.items()}
    for rank_name, size_name in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        rank, size = values.get(rank_name), values.get(size_name)
        if rank is not None and size is not None and rank >= size:
            yield fail(
                f"{rank_name}={rank} with {size_name}={size}: ranks go from 0 to {size - 1}",
                f"Correct {rank_name} or {size_name}. {_UNSET}",
            )
    local, world = values.get("LOCAL_WORLD_SIZE"), values.get("WORLD_SIZE")
    if local and world is not None and local > world:
        yield fail(f"LOCAL_WORLD_SIZE={local} is more than WORLD_SIZE={world}", f"Correct one of them. {_UNSET}")
    if world == 0 or local == 0:
        yield fail("a world of 0 ranks is asked for", f"Set WORLD_SIZE and LOCAL_WORLD_SIZE to 1 or more. {_UNSET}")
    who = machine.who
    if "WORLD_SIZE" in held and who.world is not None and who.world > 1 and who.rank is None:
        yield fail(
            f"WORLD_SIZE={who.world}, and nothing says which rank this is",
            "Set RANK for every process, or start them by torchrun, srun or mpirun.",
        )
    if "RANK" in held and who.rank is not None and who.world is None:
        # RANK=0 alone may be left over from a job of one process.
        state = fail if who.rank or env.get("MASTER_ADDR") else warn
        yield state(
            f"RANK={who.rank}, and WORLD_SIZE is not set: a process group that is set up from variables (env://) stops at once",
            f"Set WORLD_SIZE to the number of ranks, the same on all. {_UNSET}",
        )
        return
    told = f"rank {who.rank} of {who.world}" if who.rank is not None else "no launcher has set a rank: one process"
    yield ok(f"{told}, started by {who.started_by}" if who.started_by else told)


def _scheduler(machine: Machine) -> Iterator[Seen]:
    env, who = machine.env, machine.who
    if who.started_by not in TASKS or who.task is None or who.tasks is None:
        yield ok(f"{who.started_by or 'nobody else'} numbers the ranks")
        return
    name = who.started_by
    variable = TASKS[name][0]
    rank, world = number(env.get("RANK")), number(env.get("WORLD_SIZE"))
    per_node = number(env.get("LOCAL_WORLD_SIZE"))
    agents = who.nodes is not None and who.tasks == who.nodes and world is not None and world > who.tasks
    if rank is not None and rank != who.task and not agents:
        yield fail(
            f"RANK={rank}, but {variable}={who.task}: RANK was set before the tasks were started, so all of them would be rank {rank}",
            f"Set RANK inside of the task (`srun bash -c 'RANK=$SLURM_PROCID … python train.py'`), not in the batch script; here from {variable}.",
        )
    if world is not None and world != who.tasks:
        if agents:
            yield ok(f"{who.tasks} tasks on as many machines, WORLD_SIZE={world}: each is taken to start several ranks")
        else:
            yield fail(
                f"WORLD_SIZE={world}, but {name} started {who.tasks} tasks: the ranks would wait for ones that do not exist"
                if world > who.tasks
                else f"WORLD_SIZE={world}, but {name} started {who.tasks} tasks: some of them have no place",
                "Set WORLD_SIZE to the number of tasks, or start as many as it says (--ntasks, --ntasks-per-node, -np).",
            )
    if per_node and who.nodes and world and per_node * who.nodes < world:
        yield warn(
            f"LOCAL_WORLD_SIZE={per_node} on {who.nodes} machines gives {per_node * who.nodes} ranks, WORLD_SIZE={world}",
            "Make both agree.",
        )
    yield ok(f"{name} started {who.tasks} tasks; this is {who.task}")


def _duplicate_local(machine: Machine) -> Seen:
    env, who = machine.env, machine.who
    local = number(env.get("LOCAL_RANK"))
    if local is not None and who.local_task is not None and local != who.local_task and who.started_by != "torchrun":
        return fail(
            f"LOCAL_RANK={local}, but it is task {who.local_task} of this machine: several ranks would take GPU {local}",
            f"Set LOCAL_RANK inside of the task, from {TASKS[who.started_by][1]}.",
        )
    return ok("as the launcher numbers them" if who.local_task is not None else "nothing numbers ranks of this machine")


def _place(machine: Machine) -> tuple[str | None, int | None]:
    """Where the ranks meet, by what is set."""
    address, port = machine.env.get("MASTER_ADDR"), machine.env.get("MASTER_PORT")
    endpoint = machine.env.get("PET_RDZV_ENDPOINT", "")
    if not address and endpoint:
        address, _, port = endpoint.rpartition(":") if re.search(r":\d+$", endpoint) else (endpoint, "", "29400")
    return (address or None), number(port)


def _master(machine: Machine) -> Iterator[Seen]:
    address, port = _place(machine)
    told_port = machine.env.get("MASTER_PORT")
    if told_port is not None and (port is None or not 0 <= port <= 65535):
        yield fail(
            f"MASTER_PORT={told_port!r} is no port", "Set it to a number from 1024 to 65535, the same on all ranks."
        )
        return
    several = (machine.who.world or 1) > 1
    if address is None:
        if several and machine.who.rank is not None and ("RANK" in machine.env or "WORLD_SIZE" in machine.env):
            yield fail(
                "MASTER_ADDR is not set: a process group that is set up from variables (env://) stops at once",
                "Set MASTER_ADDR to the machine of rank 0 and MASTER_PORT, the same on all ranks, or use torchrun.",
            )
        elif several:
            yield unknown("MASTER_ADDR is not set; the script or the launcher may set it")
        else:
            yield ok("not set, and one process needs none")
        return
    if port is None and several and told_port is None:
        yield fail("MASTER_ADDR is set, MASTER_PORT is not", "Set MASTER_PORT, the same on all ranks.")
    found, trouble = machine.resolve(address)
    if trouble:
        yield fail(
            f"{address} cannot be resolved on {machine.host}: {trouble}",
            "Set MASTER_ADDR to a name that every machine resolves, or to an address.",
        )
        return
    yield from _resolved(machine, address, found)


def _resolved(machine: Machine, address: str, found: tuple[str, ...]) -> Iterator[Seen]:
    here = [a for a in found if a in machine.addresses or local_only(a)]
    # Many systems give a machine's own name a loopback address there (127.0.1.1), and only there: on that of rank 0 it does no harm.
    own_name = machine.who.rank == 0 and address.partition(".")[0] == machine.host.partition(".")[0] != "localhost"
    if not machine.who.alone and all(local_only(a) for a in found) and not own_name:
        yield fail(
            f"{address} is {', '.join(found)} here: every machine would look for rank 0 on itself",
            "Set MASTER_ADDR to the address of the machine of rank 0 as others reach it; see /etc/hosts.",
        )
    elif machine.who.rank == 0 and not here:
        # An address of a service, or of the machine around a container, is none of its own and may lead here all the same.
        state = warn if kind(machine) else fail
        yield state(
            f"{address} is {', '.join(found[:4])}, which is no address of {machine.host}, where rank 0 runs",
            'Set MASTER_ADDR to the machine of rank 0 (on SLURM `scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1`).',
        )
    else:
        yield ok(f"{address} is {', '.join(found[:4])}" + (", which is this machine" if here else ""))


def _port(machine: Machine) -> Seen:
    address, port = _place(machine)
    if address is None or port is None:
        return unknown("no port is set") if (machine.who.world or 1) > 1 else ok("one process needs none")
    if not machine.who.is_meeting_place:
        return ok("rank 0 looks at it")
    if machine.env.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true":
        return ok(f"port {port} is held by torchrun, which started this process")
    found, _ = machine.resolve(address)
    if found and not any(a in machine.addresses or local_only(a) for a in found):
        return unknown(f"port {port} is one of another machine")
    trouble = machine.taken(port)
    if trouble:
        return fail(
            f"nobody can listen on port {port} of {machine.host}: {trouble}",
            "Choose another MASTER_PORT (`MASTER_PORT=$((29500 + RANDOM % 1000))`, once for all ranks), or end what holds it: `ss -ltnp`."
            if port >= 1024
            else "Ports below 1024 need rights: choose another MASTER_PORT.",
        )
    return ok(f"port {port} of this machine is free")


def _reach(machine: Machine) -> Seen:
    address, port = _place(machine)
    if address is None or port is None:
        return unknown("no meeting place is set") if (machine.who.world or 1) > 1 else ok("one process needs none")
    if machine.who.is_meeting_place:
        return ok("this is the machine of rank 0, or the only one")
    if machine.asked.job:
        return ok("the answers of the job show it")
    if machine.resolve(address)[1]:
        return unknown("its name cannot be resolved")
    state, trouble = machine.connect(address, port)
    if state == "unreachable":
        return fail(
            f"{address}:{port} cannot be reached from {machine.host}: {trouble}",
            "Look at the route and the firewall between the two machines, and at which network the address belongs to.",
        )
    return ok(f"{address}:{port}: " + ("somebody listens" if state == "listens" else "the machine answers"))


def _hostname(machine: Machine) -> Seen:
    found, trouble = machine.resolve(machine.host)
    if machine.who.alone:
        return ok(
            f"{machine.host} is {', '.join(found[:4])}"
            if found
            else f"{machine.host} has no address; one machine needs none"
        )
    if machine.env.get("GLOO_SOCKET_IFNAME"):
        return ok("gloo is told its interface by GLOO_SOCKET_IFNAME")
    fix = "Set GLOO_SOCKET_IFNAME to the interface between the machines, or correct the name in /etc/hosts."
    if trouble:
        return warn(
            f"the name of this machine, {machine.host}, cannot be resolved: gloo would take a loopback address", fix
        )
    if all(local_only(a) for a in found):
        return warn(
            f"the name of this machine, {machine.host}, is {', '.join(found)} here: gloo would give that to the other machines",
            fix,
        )
    return ok(f"{machine.host} is {', '.join(found[:4])}")


def _rendezvous(machine: Machine) -> Iterator[Seen]:
    env = machine.env
    endpoint, backend = env.get("PET_RDZV_ENDPOINT", ""), env.get("PET_RDZV_BACKEND", "")
    nodes = env.get("PET_NNODES", "")
    told = number(env.get("SLURM_NNODES"))
    most = number(nodes.rpartition(":")[2])
    if most is not None and told is not None and most != told:
        yield (warn if most < told else fail)(
            f"PET_NNODES={nodes}, but SLURM gave {told} machines",
            "Make torchrun's --nnodes (PET_NNODES) the number of machines of the job.",
        )
    if endpoint and "://" in endpoint:
        yield fail(f"PET_RDZV_ENDPOINT={endpoint} holds a scheme", "Give host and port alone: node-01:29400.")
    if backend and backend not in {"static", "c10d", "etcd", "etcd-v2"}:
        yield warn(
            f"PET_RDZV_BACKEND={backend} is none that torchrun brings",
            "Use c10d or static, or see that it is registered.",
        )
    if not (endpoint or backend or nodes):
        yield ok("nothing is set for torchrun by variables")
    else:
        yield ok(
            ", ".join(f"{n}={env[n]}" for n in ("PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT") if n in env)
        )


def _devices(machine: Machine) -> Seen:
    """Whether the local rank fits the GPUs that the task was given."""
    visible = machine.env.get("CUDA_VISIBLE_DEVICES")
    local = machine.who.local_rank
    if visible is None or local is None:
        return ok("no GPUs are dealt out by variables")
    given = [d for d in visible.split(",") if d.strip() not in {"", "-1"}]
    if not given:
        return ok("no GPU is given, on purpose")
    if local < len(given):
        return ok(f"local rank {local}, {len(given)} GPUs given")
    if len(given) == 1:
        return warn(
            f"local rank {local}, but one GPU is visible to it: `cuda:{local}` does not exist for this process",
            "Let the script use `cuda:0`, or show every rank all GPUs of the machine (--gpus-per-node instead of --gpus-per-task, --gpu-bind=none).",
        )
    return fail(
        f"local rank {local}, but {len(given)} GPUs are visible: it has none",
        "Start as many ranks on a machine as it has GPUs, or ask for more GPUs.",
    )


CHECKS = (
    Check(
        "launcher.numbers", "RANK, WORLD_SIZE and their like", "Numbers that do not fit stop the process group, or let it wait for ranks that never come.",
        ("software.process_group", "torch.store_clients_missing", "launcher.rendezvous_timeout"), _numbers, "rank",
    ),
    Check(
        "launcher.scheduler", "numbers of the scheduler against those of the launcher",
        "Variables that a batch script sets before srun are the same for all tasks: all are rank 0, or wait for a world of another size.",
        ("torch.store_clients_missing", "nccl.two_ranks_on_one_gpu", "torch.port_in_use"), _scheduler, "rank",
    ),
    Check(
        "launcher.local_rank", "LOCAL_RANK against the task on the machine", "Two ranks on one GPU stop NCCL, or share its memory.",
        ("nccl.two_ranks_on_one_gpu", "gpu.out_of_memory"), _duplicate_local, "rank",
    ),
    Check(
        "launcher.devices", "local rank against the GPUs that are visible to it", "A device that does not exist for the process ends it: invalid device ordinal.",
        ("gpu.cuda_error_invalid_device",), _devices, "rank",
    ),
    Check(
        "launcher.master", "MASTER_ADDR and MASTER_PORT: set, resolvable, the machine of rank 0",
        "A meeting place that not all find lets the job wait until the store's timeout.",
        ("launcher.master_unresolved", "torch.store_no_server", "torch.store_clients_missing", "storage.dns"), _master,
    ),
    Check(
        "launcher.port", "whether the port of the meeting place is free", "A port that another program holds stops rank 0 at its start.",
        ("torch.port_in_use",), _port,
    ),
    Check(
        "launcher.reach", "whether the meeting place can be reached", "A firewall or the wrong network lets all other ranks wait for rank 0.",
        ("torch.store_no_server", "network.no_route", "nccl.socket_unreachable"), _reach,
    ),
    Check(
        "launcher.hostname", "the address of this machine's own name", "gloo gives the address of the host name to its peers; a loopback address leads each to itself.",
        ("gloo.loopback_peer", "gloo.no_interface", "gloo.connect_failed"), _hostname,
    ),
    Check(
        "launcher.rendezvous", "torchrun's variables (PET_…)", "An agent that waits for more machines than there are never starts its ranks.",
        ("launcher.rendezvous_timeout", "launcher.waiting_for_agents"), _rendezvous,
    ),
)  # fmt: skip
