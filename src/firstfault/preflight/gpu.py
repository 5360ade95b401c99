"""Checks of the GPUs: whether they answer, fit the build, are whole, unthrottled and free."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from firstfault.model.words import Blame
from firstfault.preflight.cards import cards, driver, processes, visible
from firstfault.preflight.check import Check, fail, ok, unknown, warn
from firstfault.preflight.host import ranks_here
from firstfault.preflight.settings import numbers
from firstfault.preflight.who import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Machine

LEAST_DRIVER = {10: (410, 48), 11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""Major version of CUDA -> oldest driver that runs it (CUDA release notes: minor version compatibility)."""
LEAST_CUDA = {9: (11, 8), 10: (12, 8), 11: (12, 8), 12: (12, 8)}
"""Major compute capability -> oldest CUDA that compiles for it: Hopper 11.8, Blackwell 12.8."""
TAKEN_MB = 1024
_NONE_HERE = "no NVIDIA GPU is seen here"
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


def _visible(machine: Machine) -> Iterator[Seen]:
    found = cards(machine)
    env = machine.env
    promised = number(env.get("SLURM_GPUS_ON_NODE"))
    if found.cards:
        names = {c.fields.get("name", "GPU") for c in found.cards}
        if promised is not None and promised > len(found.cards):
            yield fail(f"SLURM gave {promised} GPUs on this machine, {len(found.cards)} answer", "Exclude the machine and tell the operators: a GPU is lost.")  # fmt: skip
        if len(names) > 1:
            yield warn(f"GPUs of different kinds: {', '.join(sorted(names))}", "Choose like ones by CUDA_VISIBLE_DEVICES; the slowest sets the pace.")  # fmt: skip
        yield ok(f"{len(found.cards)} x {', '.join(sorted(names))}, driver {driver(machine) or 'unknown'}")
    elif found.trouble:
        # Log in nodes and images have the program without a GPU, and nobody asks for one there.
        asked = promised or machine.exists("/dev/nvidia0") or machine.exists("/proc/driver/nvidia/version")
        state = fail if asked else warn
        yield state(
            f"nvidia-smi does not show the GPUs: {found.trouble}",
            "Look at the driver (`dmesg | grep -i nvrm`) and at how the container gets its GPUs (`--gpus all`, the device plugin).",
        )
    elif promised or machine.exists("/dev/nvidia0"):
        yield fail(
            "GPUs were given, but nvidia-smi is not here: the container has no driver libraries",
            "Start the container with the NVIDIA runtime (`--gpus all`, `--nv` of Apptainer) and NVIDIA_DRIVER_CAPABILITIES=compute,utility.",
        )
    elif machine.exists("/dev/kfd"):
        yield unknown("an AMD GPU; of these only the number is looked at by others")
    else:
        yield unknown(_NONE_HERE)


def _named(machine: Machine) -> Seen:
    told = machine.env.get("CUDA_VISIBLE_DEVICES")
    if told is None:
        return ok("CUDA_VISIBLE_DEVICES is not set")
    words = [w.strip() for w in told.split(",")]
    if told.strip() in {"", "-1"}:
        return ok("no GPU is shown, on purpose")
    if len(set(words)) < len(words):
        return fail(f"CUDA_VISIBLE_DEVICES={told} names a GPU twice: CUDA then shows none", "Name every GPU once.")
    # Of the ranks of a machine one asks the driver for all.
    found = cards(machine).cards if machine.who.leads_node else []
    beyond = [w for w in words if w.isdecimal() and found and int(w) >= len(found)]
    if beyond:
        return fail(
            f"CUDA_VISIBLE_DEVICES={told}, but the GPUs here are 0 to {len(found) - 1}: CUDA hides {beyond[0]} and all behind it",
            "Name GPUs that are there; SLURM and containers number them from 0.",
        )
    return ok(f"{len(words)} GPUs are shown")


def _enough(machine: Machine) -> Seen:
    found, env = cards(machine).cards, machine.env
    if not found:
        return unknown(_NONE_HERE)
    shown = len(visible(machine, found))
    per_node = number(env.get("LOCAL_WORLD_SIZE")) or number(env.get("PET_NPROC_PER_NODE"))
    if per_node and 0 < shown < per_node and machine.who.started_by in {"torchrun", ""}:
        return fail(
            f"{per_node} ranks on this machine, {shown} GPUs: rank {shown} of them has none (invalid device ordinal)",
            "Start as many ranks as there are GPUs (--nproc-per-node).",
        )
    return ok(f"{shown} GPUs for {ranks_here(machine)} ranks")


def _fit(machine: Machine) -> Iterator[Seen]:
    torch, version, found = machine.torch, driver(machine), cards(machine).cards
    if not torch:
        yield unknown("no PyTorch is installed beside firstfault")
        return
    cuda = torch.get("cuda", "")
    if not cuda:
        if found and "hip" not in torch:
            yield warn(
                f"PyTorch {torch.get('version', '')} is built without CUDA, and there are GPUs",
                "Install the build for CUDA (pytorch.org shows the command).",
            )
        else:
            yield ok(f"PyTorch {torch.get('version', '')}, without CUDA")
        return
    if not version:
        yield unknown(f"PyTorch {torch.get('version', '')} for CUDA {cuda}; no NVIDIA driver is seen here")
        return
    need = LEAST_DRIVER.get(int(cuda.split(".")[0]))
    if need is not None and numbers(version) < need:
        compat = any(
            machine.exists(p)
            for p in ("/usr/local/cuda/compat/libcuda.so.1", "/usr/local/cuda/compat/lib/libcuda.so.1")
        )
        state = warn if compat else fail
        yield state(
            f"PyTorch for CUDA {cuda} needs driver {need[0]}.{need[1]} or newer, this is {version}"
            + ("; the image brings compat libraries, which help on data-centre GPUs only" if compat else ""),
            "Install a PyTorch for an older CUDA, or have the driver updated.",
        )
        return
    yield from _architecture(machine, cuda)
    yield ok(f"PyTorch {torch.get('version', '')} for CUDA {cuda}, driver {version}")


def _architecture(machine: Machine, cuda: str) -> Iterator[Seen]:
    release = "+cu" in machine.torch.get("version", "") or machine.version("nvidia-cuda-runtime-cu12") is not None
    for capability in sorted({c.fields["compute_cap"] for c in cards(machine).cards if "compute_cap" in c.fields}):
        need = LEAST_CUDA.get(numbers(capability)[0]) if numbers(capability) else None
        if need is not None and numbers(cuda) < need:
            state = fail if release and need >= (12, 8) else warn
            yield state(
                f"a GPU of compute capability {capability} needs CUDA {need[0]}.{need[1]}, PyTorch is built for {cuda}: it holds no kernels for it",
                f"Install PyTorch for CUDA {need[0]}.{need[1]} or newer.",
            )


def _whole(machine: Machine) -> Iterator[Seen]:
    found = cards(machine).cards
    if not found:
        yield unknown(_NONE_HERE)
        return
    wrong = 0
    for card in found:
        errors = number(card.fields.get("ecc.errors.uncorrected.volatile.total"))
        if errors:
            wrong += 1
            yield warn(f"GPU {card.number}: {errors} uncorrectable memory errors since the driver was loaded", "Have it reset; if more come, exclude the machine.")  # fmt: skip
        if card.fields.get("retired_pages.pending", "").lower() == "yes":
            wrong += 1
            yield warn(
                f"GPU {card.number}: memory pages wait to be retired", "Have it reset (`nvidia-smi -r`) before the job."
            )
    rows = machine.answer("nvidia-smi", "--query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure", "--format=csv,noheader", seconds=30.0)  # fmt: skip
    for line in [] if rows.trouble else rows.text.decode("utf-8", "replace").splitlines():
        bus, pending, failed = (*(v.strip() for v in line.split(",")), "", "", "")[:3]
        if failed.lower() in {"yes", "1"}:
            wrong += 1
            yield fail(f"GPU at {bus}: memory rows could not be replaced: it is broken", "Exclude the machine and have the GPU changed.")  # fmt: skip
        elif pending.lower() in {"yes", "1"}:
            wrong += 1
            yield warn(f"GPU at {bus}: memory rows wait to be replaced", "Have it reset before the job.")
    if not wrong:
        yield ok(f"no memory error on {len(found)} GPUs")


def _xid(machine: Machine) -> Iterator[Seen]:
    if not machine.exists("/proc/driver/nvidia/version") and not cards(machine).cards:
        yield unknown(_NONE_HERE)
        return
    answer = machine.answer("dmesg", seconds=5.0)
    if answer.trouble and not answer.text:
        yield unknown(f"the kernel log cannot be read: {answer.trouble}")
        return
    from firstfault.signatures.library import load_library

    library = load_library()
    found: dict[tuple[str, int], int] = {}
    for bus, code in _XID.findall(answer.text.decode("utf-8", "replace")):
        found[bus, int(code)] = found.get((bus, int(code)), 0) + 1
    told = 0
    for (bus, code), times in sorted(found.items()):
        row = library.row("xid", str(code))
        # A program's own error (blame: rank) says nothing of the GPU.
        if row is not None and row.blame is Blame.HOST:
            told += 1
            yield warn(f"GPU at {bus}: Xid {code} ({row.name}), {times} times since boot", row.action or f"`firstfault explain xid {code}` tells what it means.")  # fmt: skip
    if not told:
        yield ok("no Xid of the hardware since boot" if not found else "Xids of programs alone since boot")


def _throttle(machine: Machine) -> Iterator[Seen]:
    found = cards(machine).cards
    if not found:
        yield unknown(_NONE_HERE)
        return
    slowed = 0
    for card in found:
        active = [
            what
            for name, what in (
                ("hw_thermal_slowdown", "heat"),
                ("hw_power_brake_slowdown", "the power supply"),
                ("hw_slowdown", "hardware"),
            )
            if card.fields.get(f"clocks_throttle_reasons.{name}", "").lower() == "active"
        ]
        if active:
            slowed += 1
            degrees = card.fields.get("temperature.gpu", "")
            yield warn(f"GPU {card.number} is slowed down by {active[0]}" + (f", at {degrees} °C" if degrees else ""), "Look at cooling and power, or exclude the machine: all ranks run at its pace.")  # fmt: skip
    if not slowed:
        yield ok(f"none of {len(found)} GPUs is slowed down by its hardware")


def _free(machine: Machine) -> Iterator[Seen]:
    found = cards(machine).cards
    if not found:
        yield unknown(_NONE_HERE)
        return
    here = visible(machine, found)
    others = [p for p in processes(machine) or [] if p.pid != os.getpid()]
    busy = [c for c in here if (c.mb("memory.used") or 0) > max(TAKEN_MB, (c.mb("memory.total") or 0) // 20)]
    told = ", ".join(f"GPU {c.number} {c.fields['memory.used']}" for c in busy)
    if busy:
        names = ", ".join(f"{p.pid} {p.name.rsplit('/', 1)[-1]}" for p in others[:4])
        yield warn(
            f"memory is taken already: {told}" + (f" ({names})" if names else "; by nobody that can be seen here"),
            "End what is left of an earlier job (`nvidia-smi`, `fuser -v /dev/nvidia*`), or choose other GPUs; nobody else's process is yours to kill.",
        )
    elif others:
        yield ok(f"{len(others)} programs are on the GPUs of this machine, with little memory on those of this job")
    else:
        yield ok(f"{len(here)} GPUs are free")
    closed = [c.number for c in here if c.fields.get("compute_mode", "").lower() == "prohibited"]
    if closed:
        yield fail(
            f"GPU {', '.join(closed)}: compute mode Prohibited: no program may use it", "`nvidia-smi -c DEFAULT`."
        )
    single = [c.number for c in here if c.fields.get("compute_mode", "").lower() == "exclusive_process"]
    if single and others:
        yield warn(f"GPU {', '.join(single)}: one process at a time, and others are on this machine's GPUs", "End them, or `nvidia-smi -c DEFAULT`.")  # fmt: skip


def _mig(machine: Machine) -> Seen:
    found = cards(machine).cards
    if not found:
        return unknown(_NONE_HERE)
    cut = [c.number for c in visible(machine, found) if c.fields.get("mig.mode.current", "").lower() == "enabled"]
    if cut and ranks_here(machine) > 1:
        return warn(
            f"GPU {', '.join(cut)} is cut into parts (MIG), and {ranks_here(machine)} ranks run here: a process sees one part, and NCCL cannot join two of one GPU",
            "Ask for whole GPUs, or run one rank.",
        )
    return ok(f"GPU {', '.join(cut)} is cut into parts (MIG)" if cut else "no GPU is cut into parts")


def _fabric(machine: Machine) -> Seen:
    found = [c for c in cards(machine).cards if "fabric.state" in c.fields]
    if not cards(machine).cards:
        return unknown(_NONE_HERE)
    waiting = [c.number for c in found if c.fields["fabric.state"].lower() in {"in progress", "not started"}]
    broken = [
        c.number
        for c in found
        if c.fields.get("fabric.status", "").lower() not in {"", "success", "n/a"} and c.number not in waiting
    ]
    if waiting or broken:
        return fail(
            f"the NVSwitch fabric is not up for GPU {', '.join(waiting or broken)}: CUDA answers 'system not yet initialized' (802)",
            "Start nvidia-fabricmanager, of the driver's version; `systemctl status nvidia-fabricmanager`.",
        )
    return ok("no NVSwitch fabric, or it is up")


CHECKS = (
    Check(
        "gpu.visible", "whether the GPUs answer, as many as were given", "A driver that does not answer, or a lost GPU, stops the rank that has it.",
        ("gpu.nvml_failed", "gpu.no_devices_found", "gpu.lost", "slurm.gpu_count_low", "container.gpu_runtime"), _visible,
    ),
    Check(
        "gpu.named", "CUDA_VISIBLE_DEVICES", "CUDA hides every GPU from the first name on that it does not find.",
        ("gpu.none_visible", "gpu.cuda_error_invalid_device", "gpu.cuda_error_no_device"), _named, "rank",
    ),
    Check("gpu.enough", "GPUs against the ranks of this machine", "A rank without a GPU ends with an invalid device ordinal.", ("gpu.cuda_error_invalid_device", "nccl.two_ranks_on_one_gpu"), _enough),
    Check(
        "gpu.fit", "driver, CUDA, PyTorch and the GPU's architecture", "A build that is too new for the driver, or too old for the GPU, fails at its first kernel.",
        ("gpu.cuda_error_driver_too_old", "gpu.cuda_error_no_kernel_image", "gpu.architecture_unsupported", "gpu.build_without_cuda"), _fit,
    ),
    Check("gpu.memory_errors", "uncorrectable memory errors", "A GPU that had them has them again.", ("gpu.cuda_error_ecc", "kernel.xid"), _whole),
    Check("gpu.xid", "errors of the driver since boot", "A GPU that fell off the bus or lost its link does it again.", ("kernel.xid", "kernel.gpu_off_bus"), _xid),
    Check("gpu.throttle", "whether hardware slows a GPU down", "The slowest GPU sets the pace of all.", ("gpu.clock_slowdown", "kernel.thermal"), _throttle),
    Check(
        "gpu.free", "whether others use the GPUs", "What an earlier job left, or a stranger uses, is missing, and makes measurements worthless.",
        ("gpu.out_of_memory", "gpu.memory_taken", "gpu.cuda_error_device_busy", "E008", "E009"), _free,
    ),
    Check("gpu.mig", "GPUs that are cut into parts", "NCCL does not join parts of one GPU.", ("nccl.two_ranks_on_one_gpu", "gpu.cuda_error_no_device"), _mig),
    Check("gpu.fabric", "the NVSwitch fabric", "Until the fabric manager has set it up, CUDA cannot start.", ("gpu.fabric_manager_stopped", "gpu.cuda_error_system_not_ready"), _fabric),
)  # fmt: skip
