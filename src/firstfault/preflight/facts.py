"""What of a machine should be the same on all machines of a job: versions, settings, folders; secrets taken out.

Must not judge; `joint` compares.
"""

from __future__ import annotations

import platform
import sys
import time
from typing import TYPE_CHECKING

from firstfault.preflight.cards import cards, driver
from firstfault.preflight.container import kind
from firstfault.preflight.interfaces import chosen_by_nccl, local_only
from firstfault.preflight.settings import PREFIXES
from firstfault.privacy.secrets import SecretFilter

if TYPE_CHECKING:
    from firstfault.preflight.machine import Machine

OF_A_RANK = frozenset({"CUDA_VISIBLE_DEVICES", "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCHELASTIC_RESTART_COUNT", "TORCH_TRACE", "TORCH_LOGS_OUT", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"})  # fmt: skip
OF_A_NODE = frozenset({"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_HOSTID", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "UCX_NET_DEVICES", "CUDA_CACHE_PATH", "TRITON_CACHE_DIR"})  # fmt: skip
"""Settings that are rightly different on each rank, or machine."""
_PACKAGES = ("torch", "numpy", "deepspeed", "transformers", "accelerate", "lightning", "megatron-core", "transformer-engine", "flash-attn", "triton", "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13")  # fmt: skip


def facts(machine: Machine) -> dict[str, str]:
    """Name -> value; a name begins with its kind: `version.`, `setting.`, `gpu.`, `place.`, `network.`, `folder.`."""
    torch = machine.torch
    found = {
        "version.python": platform.python_version(),
        "version.driver": driver(machine),
        "version.cuda": torch.get("cuda", ""),
        "version.glibc": " ".join(platform.libc_ver()).strip(),
        "place.python": sys.executable,
        "place.container": kind(machine),
        **{f"version.{name}": machine.version(name) or "" for name in _PACKAGES},
    }
    held = cards(machine).cards
    if held:
        found["gpu.kinds"] = ", ".join(sorted({c.fields.get("name", "GPU") for c in held}))
        found["gpu.count"] = str(len(held))
    chosen = [i for i in chosen_by_nccl(machine.interfaces, machine.env) if i.addresses]
    if chosen:
        found["network.interface"] = chosen[0].name
        if not all(local_only(a) for a in chosen[0].addresses):
            found["network.address"] = chosen[0].addresses[0]
    address = machine.env.get("MASTER_ADDR")
    if address:
        found["place.master"] = f"{address}:{machine.env.get('MASTER_PORT', '')}"
        found["network.master"] = ", ".join(sorted(a for a in machine.resolve(address)[0]))
    for path in machine.asked.write:
        folder = machine.folder(path, write=True)
        if folder.kind:
            found[f"folder.{path}"] = f"{folder.kind} {folder.source}"
    found.update({f"setting.{n}": v for n, v in settings(machine).items()})
    return {name: value for name, value in found.items() if value}


def settings(machine: Machine) -> dict[str, str]:
    """Variables that steer training, without secrets and without those that are a rank's or a machine's own."""
    secrets = SecretFilter()
    kept = {n: v for n, v in machine.env.items() if n.startswith(PREFIXES) and n not in OF_A_RANK | OF_A_NODE}
    kept = {n: v for n, v in kept.items() if not n.startswith(("OMPI_", "CUDA_HOME", "CUDA_PATH"))}
    # A name tells what its value is: both are looked at together.
    return {n: secrets.clean(f"{n}={v}").partition("=")[2] for n, v in sorted(kept.items())}


def zone() -> str:
    """Offset of the local time, such as `+0200`."""
    return time.strftime("%z")
