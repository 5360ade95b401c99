"""Checks of the machine: shared memory, limits, memory, processors, clock."""

from __future__ import annotations

import ctypes
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.preflight.check import Check, fail, ok, unknown, warn
from firstfault.preflight.who import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Machine

SHM = "/dev/shm"  # noqa: S108 - what is looked at
SHM_FULL_MB, SHM_SMALL_MB = 32, 1024
"""Free memory below which NCCL cannot start two ranks (10 MB a pair), and size below which loaders get into trouble."""
FEW_FILES, LITTLE_FILES = 256, 4096
FEW_PROCESSES, LITTLE_PROCESSES = 100, 500
_UNSYNCHRONISED = 0x40
_EARLIEST = 1_700_000_000
"""November 2023: no clock that is right shows an earlier time."""


def ranks_here(machine: Machine) -> int:
    """How many ranks are to run on this machine, as far as anybody says; one else."""
    env, who = machine.env, machine.who
    for name in (
        "LOCAL_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
        "SLURM_NTASKS_PER_NODE",
        "PET_NPROC_PER_NODE",
    ):
        told = number(env.get(name))
        if told:
            return told
    if who.world is not None and who.nodes:
        return max(1, -(-who.world // who.nodes))
    return 1


def _shm(machine: Machine) -> Iterator[Seen]:
    found = machine.folder(str(machine.root / SHM.lstrip("/")), write=True)
    ranks = ranks_here(machine)
    fix = "Docker: `--shm-size=16g` or `--ipc=host`; Kubernetes: an emptyDir of medium Memory at /dev/shm; bare metal: `mount -o remount,size=50% /dev/shm`."
    if found.trouble:
        yield unknown(f"{SHM}: {found.trouble}")
        return
    if not found.exists or not found.writable:
        yield fail(f"{SHM} cannot be used: {found.refused or 'not there'}: loaders with workers and NCCL need it", fix)
        return
    free, total = found.free_mb, found.total_mb
    if free is None or total is None:
        yield ok(f"{SHM} can be written; its size is not told")
        return
    left = [n for n in machine.names(SHM) if n.startswith(("nccl-", "torch_", "sem.", "psm_", "pym-"))]
    told = f"{SHM}: {free} of {total} MB free"
    if left:
        told += f", {len(left)} files of earlier or other programs"
    if free < SHM_FULL_MB and (ranks > 1 or total >= SHM_SMALL_MB):
        yield fail(told, f"Remove what dead jobs left there (`ls -l {SHM}`), or give it more. {fix}")
    elif total < SHM_SMALL_MB or free < SHM_SMALL_MB // 4:
        yield warn(f"{told}: loaders with several workers need more", fix)
    else:
        yield ok(told)


def _files(machine: Machine) -> Seen:
    soft, hard = machine.limit("open files"), machine.hard_limit("open files")
    told = f"open files: {'unlimited' if soft is None else soft}"
    if hard is not None and hard < LITTLE_FILES:
        fix = f"More than {hard} are not allowed here: raise the limit itself (nofile in /etc/security/limits.conf, LimitNOFILE= of the service, --ulimit nofile= of the container)."
    else:
        fix = f"`ulimit -n {'65536' if hard is None else min(hard, 65536)}` before the job, or in its script."
    if soft is None or soft >= LITTLE_FILES:
        return ok(told)
    if soft < FEW_FILES:
        return fail(f"{told}: importing torch and a few workers need more", fix)
    if ranks_here(machine) >= 4 or (machine.who.world or 1) >= 16:
        return warn(f"{told}: loaders with many workers, many shards or ranks need more", fix)
    return ok(told)


def _processes(machine: Machine) -> Iterator[Seen]:
    limits: dict[str, int] = {}
    soft = machine.limit("processes")
    if soft is not None and machine.uid != 0:
        limits["ulimit -u"] = soft - _tasks_of(machine)
    inside = _left(machine, "pids", ("pids.max",), ("pids.current",))
    if inside:
        limits["pids.max of the cgroup"] = min(inside)[0]
    total, used = machine.word("/proc/sys/kernel/threads-max"), _threads_now(machine)
    if total.isdecimal() and used is not None:
        limits["threads-max of the machine"] = int(total) - used
    if not limits:
        yield ok("no limit of processes")
        return
    name, left = min(limits.items(), key=lambda pair: pair[1])
    told = f"{max(left, 0)} more processes or threads may be started ({name})"
    fix = "Raise it: `ulimit -u`, `--pids-limit=-1` of docker, `podPidsLimit` of the kubelet; or end what fills it."
    if left < FEW_PROCESSES:
        yield fail(f"{told}: one rank with its loaders needs hundreds", fix)
    elif left < LITTLE_PROCESSES * ranks_here(machine):
        yield warn(f"{told}, for {ranks_here(machine)} ranks with their loaders and threads", fix)
    else:
        yield ok(told)


def _tasks_of(machine: Machine) -> int:
    """Threads of this user, by /proc."""
    count = 0
    for name in machine.names("/proc"):
        if name.isdigit():
            status = machine.text(f"/proc/{name}/status", 4096) or ""
            owner, threads = re.search(r"(?m)^Uid:\s+(\d+)", status), re.search(r"(?m)^Threads:\s+(\d+)", status)
            if owner and threads and int(owner[1]) == machine.uid:
                count += int(threads[1])
    return count


def _threads_now(machine: Machine) -> int | None:
    found = re.search(r"\d+/(\d+)", machine.word("/proc/loadavg"))
    return None if found is None else int(found[1])


def _cgroups(machine: Machine, controller: str) -> list[str]:
    """Folders of the cgroup of this process and of those above it, which limit it too: of version 2, and of a controller of version 1."""
    found = []
    for line in (machine.text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        base = f"/sys/fs/cgroup/{controllers}" if controllers else "/sys/fs/cgroup"
        parts = [p for p in path.split("/") if p and p != ".."]
        found += ["/".join([base, *parts[:n]]) for n in range(len(parts), -1, -1)]
    return found


def _left(machine: Machine, controller: str, most: tuple[str, ...], now: tuple[str, ...]) -> list[tuple[int, int, str]]:
    """For each cgroup that has a limit: what is left of it, the limit, the folder."""
    found = []
    for folder in _cgroups(machine, controller):
        limit, used = (next((w for n in names if (w := machine.word(f"{folder}/{n}"))), "") for names in (most, now))
        if limit.isdecimal() and used.isdecimal():
            found.append((int(limit) - int(used), int(limit), folder))
    return found


def _memory(machine: Machine) -> Iterator[Seen]:
    text = machine.text("/proc/meminfo") or ""
    found = {
        m[1]: int(m[2]) >> 10 for m in re.finditer(r"(?m)^(MemTotal|MemAvailable|SwapTotal|SwapFree):\s+(\d+)", text)
    }
    if "MemTotal" not in found:
        yield unknown("/proc/meminfo tells nothing")
        return
    free, total = found.get("MemAvailable", 0), found["MemTotal"]
    told = f"{free} of {total} MB available"
    # What a cgroup holds as a cache of files is free.
    limited = [
        (left + _cached(machine, folder), limit)
        for left, limit, folder in _left(machine, "memory", ("memory.max", "memory.limit_in_bytes"), ("memory.current", "memory.usage_in_bytes"))
        if limit >> 20 < total
    ]  # fmt: skip
    if limited:
        inside, limit = (n >> 20 for n in min(limited))
        told += f"; the cgroup allows {limit} MB, {max(inside, 0)} MB of it free"
        free = min(free, inside)
    fix = "Ask for more (--mem, limits of the pod), or end what fills it: `ps aux --sort=-rss | head`."
    ranks = ranks_here(machine)
    if free < 256:
        yield fail(f"{told}: Python and torch alone need more", fix)
    elif free < 2048 * ranks:
        yield warn(f"{told}, for {ranks} rank{'s' if ranks > 1 else ''}: torch with CUDA takes about 2 GB each before it does anything", fix)  # fmt: skip
    else:
        yield ok(told)


def _cached(machine: Machine, folder: str) -> int:
    """Bytes of a cgroup that the kernel gives back when they are needed."""
    found = re.search(r"(?m)^(?:total_)?inactive_file (\d+)", machine.text(f"{folder}/memory.stat", 1 << 16) or "")
    return int(found[1]) if found else 0


def _overcommit(machine: Machine) -> Seen:
    if machine.word("/proc/sys/vm/overcommit_memory") == "2":
        return warn(
            "vm.overcommit_memory is 2: CUDA reserves far more addresses than it uses, and forks of loaders are refused",
            "`sysctl vm.overcommit_memory=0`.",
        )
    space = machine.limit("address space")
    if space is not None:
        return warn(
            f"addresses are limited to {space >> 20} MB (ulimit -v): CUDA reserves more than the memory of all GPUs",
            "`ulimit -v unlimited`.",
        )
    return ok("memory may be promised beyond what there is")


def _huge_pages(machine: Machine) -> Seen:
    base = "/sys/kernel/mm/transparent_hugepage"
    chosen = [re.search(r"\[(\w+)\]", machine.word(f"{base}/{name}")) for name in ("enabled", "defrag")]
    if chosen[0] is None:
        return ok("the kernel has no transparent huge pages")
    told = f"transparent huge pages: {chosen[0][1]}" + (f", defrag {chosen[1][1]}" if chosen[1] else "")
    if chosen[0][1] == "always" and chosen[1] is not None and chosen[1][1] == "always":
        return warn(
            f"{told}: an allocation may wait while the kernel moves memory together",
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/defrag`.",
        )
    return ok(told)


def _processors(machine: Machine) -> Seen:
    whole = len(re.findall(r"(?m)^processor\s*:", machine.text("/proc/cpuinfo", 4 << 20) or "")) or machine.cpus
    told = f"{machine.cpus} of {whole} processors"
    quotas = [machine.word(f"{folder}/cpu.max").split() for folder in _cgroups(machine, "cpu")]
    shares = [
        int(q[0]) / int(q[1]) for q in quotas if len(q) == 2 and q[0].isdecimal() and q[1].isdecimal() and int(q[1])
    ]
    if shares:
        share = min(shares)
        told += f", a share of {share:.1f} by the cgroup"
        if share < 1:
            return warn(f"{told}: less than one processor", "Raise the limit of processors of the container or pod.")
    if machine.cpus == 1 and whole > 1 and machine.who.started_by:
        return warn(
            f"{told}: loaders, NCCL's threads and Python share one",
            "`--cpus-per-task=8` (with srun also `--cpu-bind=none` or SRUN_CPUS_PER_TASK), `--bind-to none` of mpirun.",
        )
    return ok(told)


def _clock(machine: Machine) -> Iterator[Seen]:
    now = time.time()
    zone = time.strftime("%z %Z", time.localtime(now))
    if now < _EARLIEST:
        yield fail(f"the clock shows {time.strftime('%Y-%m-%d', time.gmtime(now))}: certificates are refused", "Set the clock: `chronyc makestep`.")  # fmt: skip
        return
    wanted = machine.env.get("TZ", "").lstrip(":")
    if wanted and "/" in wanted and not wanted.startswith("/") and not _zone_known(wanted):
        yield warn(
            f"TZ={wanted} is no zone that this machine knows: times are shown in UTC", "Correct TZ, or install tzdata."
        )
    state = clock_state()
    if state is None:
        yield ok(f"{zone}; whether the clock is kept right is not told")
    elif state and not machine.who.alone and not machine.asked.job:  # a job compares the clocks themselves
        yield warn(
            f"{zone}; the kernel says that the clock is not synchronised", "Start chronyd or ntpd; `chronyc tracking`."
        )
    else:
        yield ok(f"{zone}; {'not synchronised, one machine needs it less' if state else 'synchronised'}")


def _zone_known(name: str) -> bool:
    if ".." in name:
        return False
    if (Path("/usr/share/zoneinfo") / name).exists():
        return True
    from zoneinfo import available_timezones

    return name in available_timezones()


def clock_state() -> bool | None:
    """Whether the kernel takes its clock for not synchronised; None where it does not tell."""
    buffer = (ctypes.c_long * 64)()  # `modes` is 0: nothing is set, `status` is the sixth word
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer)) < 0:
            return None
    except AttributeError:
        return None
    status = ctypes.cast(ctypes.byref(buffer, 5 * ctypes.sizeof(ctypes.c_long)), ctypes.POINTER(ctypes.c_int))[0]
    return bool(status & _UNSYNCHRONISED)


CHECKS = (
    Check(
        "host.shm", "shared memory (/dev/shm)", "Loaders hand batches, and NCCL data of GPUs, through it; a full one ends workers with a bus error.",
        ("container.shm_full", "data.loader_worker_bus_error", "nccl.shared_memory_full"), _shm,
    ),
    Check("host.open_files", "the limit of open files", "Loaders, shards and connections to all ranks each hold files open.", ("process.too_many_files",), _files, "rank"),
    Check(
        "host.processes", "limits of processes and threads", "Every rank starts some hundred threads; at the limit nothing can be started any more.",
        ("process.threads_exhausted", "kernel.process_limit", "process.cannot_allocate"), _processes,
    ),
    Check(
        "host.memory", "memory of the machine and of its cgroup", "At the limit the kernel kills a process of the job.",
        ("kernel.oom_kill_cgroup", "kernel.oom_kill_host", "slurm.oom_kill", "data.loader_worker_killed"), _memory,
    ),
    Check("host.overcommit", "whether memory may be promised beyond what there is", "CUDA and forks reserve much that they never use.", ("process.cannot_allocate",), _overcommit),
    Check("host.huge_pages", "transparent huge pages", "Where the kernel moves memory together at every allocation, steps stutter.", (), _huge_pages),
    Check("host.processors", "processors that the process may use", "A rank on one processor starves its loaders.", ("data.loader_timeout",), _processors, "rank"),
    Check(
        "host.clock", "clock and time zone", "Clocks apart break certificates, signed requests and torchrun's keep-alive, and mix up the order of logs.",
        ("storage.certificate", "launcher.rendezvous_closed"), _clock,
    ),
)  # fmt: skip
