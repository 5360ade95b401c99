"""The profile of an environment: what is there by metadata, and what works, tried in a process of its own.

Imports nothing of what it looks at. No secrets, names of machines or serial numbers go into it.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.model.environment import Capability, Environment, GpuRow
from firstfault.preflight.cards import cards, driver
from firstfault.preflight.container import cuda_home, in_environment, kind, nvcc
from firstfault.preflight.facts import OF_A_NODE, OF_A_RANK, settings
from firstfault.preflight.import_child import TRIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.preflight.machine import Machine

LIMIT_S = 90.0
"""Seconds for all imports of one process; a first import of torch from a busy file system takes a minute."""
_CHILD = Path(__file__).with_name("import_child.py")
PACKAGES = {
    "cuda": ("torch",), "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"), "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11"),
    "triton": ("triton", "pytorch-triton"), "transformer_engine": ("transformer-engine",), "apex": ("apex",), "flash_attn": ("flash-attn",),
    "deepspeed": ("deepspeed",), "megatron_core": ("megatron-core",), "xformers": ("xformers",), "bitsandbytes": ("bitsandbytes",),
}  # fmt: skip
"""Capability -> packages that bring it."""
_MORE = ("numpy", "torchvision", "torchaudio", "transformers", "accelerate", "datasets", "lightning", "pytorch-lightning", "peft", "trl", "nemo-toolkit", "lhotse", "webdataset", "vllm", "ray", "safetensors", "tokenizers", "einops", "mamba-ssm", "causal-conv1d", "flash-attn-3", "torchao", "firstfault")  # fmt: skip
_IMAGE = (
    "NVIDIA_BUILD_ID",
    "NVIDIA_PRODUCT_NAME",
    "NVIDIA_PYTORCH_VERSION",
    "PYTORCH_VERSION",
    "CUDA_VERSION",
    "NVIDIA_REQUIRE_CUDA",
)
"""Variables by which images of the vendor name themselves."""
CAPABILITIES = ("nvcc", *TRIES)
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-fA-F-]{8,}\b")
_PLACES = re.compile(r"(?:/[\w.@+-]+){2,}")
_OWN = re.compile(r"_(?:RUN_ID|ERROR_FILE|ADDR|HOST|HOSTS|IP|KEY|TOKEN|SOCKET|PORT|NODELIST)$|_HOST_|PROXY")
"""Ends of names whose values are of one run or one machine."""


def look(machine: Machine, *, require: Sequence[str] = (), imports: bool = True) -> Environment:
    """The profile of this environment.

    Args:
        machine: this one.
        require: capabilities that the run needs.
        imports: whether packages are imported, in a process of its own, to see whether they work.
    """
    packages = {name: version for name in [*_names(), *_MORE] if (version := machine.version(name)) is not None}
    torch = machine.torch
    if torch.get("version"):
        packages["torch"] = torch["version"]
    found = [_nvcc(machine, require), *_capabilities(machine, packages, require, imports=imports)]
    return Environment(
        platform=_platform(machine),
        python={
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "kind": "environment" if in_environment() else "system",
        },
        gpus=_gpus(machine),
        driver=driver(machine),
        packages=dict(sorted(packages.items())),
        capabilities=found,
        settings=_settings(machine),
        missing=[c.name for c in found if c.name in require and c.usable is not True],
    )


def _names() -> Iterable[str]:
    return dict.fromkeys(name for names in PACKAGES.values() for name in names)


def _platform(machine: Machine) -> dict[str, str]:
    told = re.search(r'(?m)^PRETTY_NAME="?([^"\n]+)', machine.text("/etc/os-release") or "")
    found = {
        "system": platform.system(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "distribution": told[1] if told else "",
        "container": kind(machine),
        **{name.lower(): machine.env.get(name, "") for name in _IMAGE},
    }
    return {name: value for name, value in found.items() if value}


def _gpus(machine: Machine) -> list[GpuRow]:
    held: dict[tuple[str, int | None, str], int] = {}
    for card in cards(machine).cards:
        key = (card.fields.get("name", "GPU"), card.mb("memory.total"), card.fields.get("compute_cap", ""))
        held[key] = held.get(key, 0) + 1
    return [
        GpuRow(name=n, memory_mb=m, compute_capability=c, count=k) for (n, m, c), k in sorted(held.items(), key=str)
    ]


def _settings(machine: Machine) -> dict[str, str]:
    """Variables that steer training; those of one rank, machine or run, and paths of homes, say nothing of an environment."""
    return {
        n: _UUID.sub("[removed:uuid]", v)
        for n, v in settings(machine).items()
        if n not in OF_A_RANK | OF_A_NODE
        and not n.startswith("TORCHELASTIC_")
        and not _OWN.search(n)
        and not _PLACES.search(v)
    }


def _nvcc(machine: Machine, require: Sequence[str]) -> Capability:
    home, by = cuda_home(machine)
    version = nvcc(machine)
    asked = f"{by} is set" if by in {"CUDA_HOME", "CUDA_PATH"} else ""
    detail = ""
    if asked and not machine.exists(home):
        detail = f"the folder that {by} names is not there"
    elif asked and not version:
        detail = f"the folder that {by} names holds no nvcc"
    return Capability(
        name="nvcc",
        requested="required" if "nvcc" in require else asked,
        resolved=version,
        usable=bool(version),
        detail=detail or ("" if version else "no CUDA compiler is here"),
    )


def _capabilities(
    machine: Machine, packages: dict[str, str], require: Sequence[str], *, imports: bool
) -> list[Capability]:
    torch_there = "torch" in packages
    wanted = [
        n for n in TRIES if _installed(n, packages) or (n in {"cuda", "nccl", "cudnn"} and torch_there) or n in require
    ]
    tried = _tried(machine, wanted) if imports else {}
    found = []
    for name in TRIES:
        version = _installed(name, packages)
        if name == "cuda":
            version = machine.torch.get("cuda", "")
        asked = "required" if name in require else ("CUDA " if name == "cuda" else "") + version if version else ""
        if name not in wanted:
            found.append(Capability(name=name, usable=False, detail="not installed"))
        elif name in tried:
            usable, resolved, detail = tried[name]
            found.append(Capability(name=name, requested=asked, resolved=resolved or (version if usable else ""), usable=usable, detail=detail))  # fmt: skip
        else:
            found.append(Capability(name=name, requested=asked, resolved=version, detail="not tried"))
    return found


def _installed(name: str, packages: dict[str, str]) -> str:
    return next((packages[p] for p in PACKAGES[name] if p in packages), "")


def _tried(machine: Machine, names: Sequence[str]) -> dict[str, tuple[bool | None, str, str]]:
    """Name -> works, what it is, why not. A child that hangs or dies is followed by one that goes on behind the culprit."""
    found: dict[str, tuple[bool | None, str, str]] = {}
    left = list(names)
    while left:
        answer = machine.answer(sys.executable, str(_CHILD), *left, seconds=LIMIT_S)
        begun = ""
        for line in answer.text.decode("utf-8", "replace").splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if "begin" in told:
                begun = told["begin"]
            elif told.get("name") in left:
                detail = _PLACES.sub("[path]", _UUID.sub("[removed:uuid]", told["detail"]))
                found[told["name"]] = (told["usable"], told["resolved"], detail)
        if begun and begun not in found:
            hung = "no answer" in answer.trouble
            why = f"its import gave no answer in {LIMIT_S:g} s" if hung else "its import ended the whole process"
            found[begun] = (None if hung else False, "", why)
        elif not begun:
            return {
                **found,
                **{n: (None, "", f"it could not be tried: {answer.trouble}") for n in left if n not in found},
            }
        left = [n for n in left if n not in found]
    return found
