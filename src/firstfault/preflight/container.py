"""Checks of the image: whose Python it is, the CUDA toolkit, compilers, kernels built for another PyTorch, libraries in the way."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.preflight.check import Check, ok, unknown, warn
from firstfault.preflight.settings import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Machine

_OFF = frozenset({"0", "no", "off", "false"})
BUILDERS = (
    "deepspeed",
    "megatron-core",
    "transformer-engine",
    "apex",
    "flash-attn",
    "mamba-ssm",
    "causal-conv1d",
    "vllm",
)
"""Packages that compile code of their own, at installation or at the first run."""
_COMPILE_AT_RUN = ("deepspeed", "megatron-core")


def kind(machine: Machine) -> str:
    """What this process runs in: `docker`, `podman`, `kubernetes`, `apptainer`, `enroot`, `container`; empty for none that shows."""
    env = machine.env
    if "KUBERNETES_SERVICE_HOST" in env:
        return "kubernetes"
    if "APPTAINER_CONTAINER" in env or "SINGULARITY_CONTAINER" in env or machine.exists("/.singularity.d"):
        return "apptainer"
    if machine.exists("/run/.containerenv"):
        return "podman"
    if machine.exists("/.dockerenv"):
        return "docker"
    if "ENROOT_ROOTFS" in env:
        return "enroot"
    return "container" if env.get("container") else ""


def managed_marker() -> Path:
    """The file by which a distribution says that its Python is not to be changed (PEP 668)."""
    return Path(sysconfig.get_path("stdlib", sysconfig.get_default_scheme())) / "EXTERNALLY-MANAGED"


def in_environment() -> bool:
    """Whether this Python belongs to a virtual or a conda environment."""
    return sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").is_dir()


def _python(machine: Machine) -> Seen:
    told = f"Python {sys.version.split()[0]}"
    if in_environment():
        return ok(f"{told}, an environment of its own")
    if not managed_marker().exists():
        return ok(f"{told} of the system, which may be changed")
    allowed = machine.env.get("PIP_BREAK_SYSTEM_PACKAGES", "").lower() not in {"", *_OFF}
    where = kind(machine)
    if allowed or not where:
        return ok(f"{told} of the system; pip may not change it" + (", but is told to" if allowed else ""))
    return warn(
        f"{told} of the system: pip refuses to install into it (externally-managed-environment, PEP 668)",
        "`python3 -m venv --system-site-packages /opt/venv`, or PIP_BREAK_SYSTEM_PACKAGES=1 inside of the container only.",
    )


def cuda_home(machine: Machine) -> tuple[str, str]:
    """Where the CUDA toolkit is said to be, and by what: CUDA_HOME, CUDA_PATH, the path of nvcc, /usr/local/cuda; empty for none."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if machine.env.get(name):
            return machine.env[name], name
    compiler = machine.which("nvcc")
    if compiler is not None:
        return str(Path(compiler).resolve().parent.parent), "nvcc"
    if machine.exists("/usr/local/cuda"):
        return "/usr/local/cuda", "its usual place"
    return "", ""


def nvcc(machine: Machine) -> str:
    """Version of the CUDA compiler that a build would take, such as `12.4`; empty where there is none."""
    home, _ = cuda_home(machine)
    place = f"{home}/bin/nvcc"
    path = str(machine.root / place.lstrip("/")) if home and machine.exists(place) else machine.which("nvcc")
    if path is None:
        return ""
    found = re.search(rb"release (\d+\.\d+)", machine.answer(path, "--version").text)
    return found[1].decode() if found else ""


def _toolkit(machine: Machine) -> Iterator[Seen]:
    home, by = cuda_home(machine)
    version, built = nvcc(machine), machine.torch.get("cuda", "")
    wants = [p for p in BUILDERS if machine.version(p) is not None]
    if by in {"CUDA_HOME", "CUDA_PATH"} and not machine.exists(home):
        yield warn(f"{by}={home}, which is not there: every build of an extension stops", f"Correct {by}, or unset it.")
    elif (
        not version
        and any(machine.version(p) for p in _COMPILE_AT_RUN)
        and built
        and machine.env.get("DS_BUILD_OPS") != "0"
    ):
        yield warn(
            f"no CUDA compiler is here, and {', '.join(p for p in _COMPILE_AT_RUN if machine.version(p))} compiles kernels at the first run",
            "Use an image with the toolkit (-devel), set CUDA_HOME, or DS_BUILD_OPS=0 and settings without fused kernels.",
        )
    elif version and built and numbers(version)[:1] != numbers(built)[:1] and wants:
        yield warn(
            f"the CUDA compiler is {version}, PyTorch is built for {built}: builds of extensions stop at another major version",
            "Point CUDA_HOME at a toolkit of PyTorch's version.",
        )
    elif version:
        yield ok(f"CUDA compiler {version} in {home or 'PATH'}")
    else:
        yield ok("no CUDA compiler, and nothing installed here needs one at run time")


def _compilers(machine: Machine) -> Iterator[Seen]:
    if not machine.torch and machine.version("megatron-core") is None:
        yield unknown("no PyTorch is installed beside firstfault")
        return
    triton = machine.version("triton") is not None or machine.version("pytorch-triton") is not None
    compiler = machine.env.get("CC") or next((n for n in ("cc", "gcc", "clang") if machine.which(n)), "")
    wanted: dict[str, str] = {}
    if machine.version("megatron-core") is not None:
        for program in ("make", "g++"):
            if machine.which(program) is None:
                wanted[program] = "Megatron builds a helper of its data sets at the first run, also with mock data"
    if machine.version("deepspeed") is not None:
        for program in ("ninja", "g++"):
            if machine.which(program) is None and not (program == "ninja" and machine.version("ninja")):
                wanted[program] = "DeepSpeed builds its kernels with it at the first run"
    if triton and not compiler:
        wanted["a C compiler"] = "Triton (torch.compile) builds its launchers with it"
    for program, why in wanted.items():
        yield warn(
            f"{program} is not here: {why}", "Install it in the image: `apt-get install build-essential ninja-build`."
        )
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if triton and compiler and not header.is_file():
        yield warn(
            f"Python.h is not in {header.parent}: what Triton (torch.compile) builds needs it",
            f"Install the headers of Python {sys.version_info.major}.{sys.version_info.minor} (python3-dev).",
        )
    elif not wanted:
        yield ok(f"compiler: {compiler or 'none, and none is needed'}")


def _abi(machine: Machine) -> Iterator[Seen]:
    torch = machine.torch.get("version", "")
    if not torch:
        yield unknown("no PyTorch is installed beside firstfault")
        return
    built, wrong = [], 0
    for package in (
        "flash-attn",
        "flash-attn-3",
        "transformer-engine",
        "apex",
        "mamba-ssm",
        "causal-conv1d",
        "xformers",
        "torchvision",
        "torchaudio",
        "vllm",
    ):
        version = machine.version(package)
        if version is None:
            continue
        built.append(f"{package} {version}")
        local = version.partition("+")[2]
        told = re.search(r"torch(\d+\.\d+)", local)
        if told and numbers(torch) != numbers(told[1]):
            wrong += 1
            yield warn(
                f"{package} {version} was built for PyTorch {told[1]}, this is {torch}: its import ends with an undefined symbol",
                f"Install {package} for this PyTorch, or build it here: `pip install --no-build-isolation --no-cache-dir --force-reinstall {package}`.",
            )
        cuda = re.search(r"(?<![a-z])cu(\d{2})\d?(?!\d)", local)
        mine = machine.torch.get("cuda", "")
        if cuda and mine and cuda[1] != mine.split(".")[0]:
            wrong += 1
            yield warn(
                f"{package} {version} is built for CUDA {cuda[1]}, PyTorch for {mine}",
                f"Install {package} for CUDA {mine}.",
            )
    if not wrong:
        yield ok(", ".join(built) if built else "no package with compiled kernels of its own is installed")


def _libraries(machine: Machine) -> Iterator[Seen]:
    """Libraries of LD_LIBRARY_PATH that would be taken instead of those that PyTorch brings."""
    folders = [f for f in machine.env.get("LD_LIBRARY_PATH", "").split(":") if f.startswith("/")]
    preload = machine.env.get("LD_PRELOAD", "")
    for file in filter(None, re.split(r"[:\s]+", preload)):
        if "/" in file and not machine.exists(file) and "$" not in file:
            yield warn(
                f"LD_PRELOAD names {file}, which is not there: every program complains of it",
                "Correct LD_PRELOAD, or unset it.",
            )
    brought = next(
        (v for p in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11") if (v := machine.version(p))), None
    )
    wrong = 0
    for folder in folders if brought else []:
        for name in machine.names(folder):
            found = re.fullmatch(r"libnccl\.so\.(\d+\.\d+\.\d+)", name)
            if found and numbers(found[1]) < numbers(brought or ""):
                wrong += 1
                yield warn(
                    f"{folder} in LD_LIBRARY_PATH holds NCCL {found[1]}, PyTorch came with {brought}: the older one may be loaded in its place",
                    f"Take {folder} out of LD_LIBRARY_PATH.",
                )
    if not wrong:
        yield ok(f"{len(folders)} folders in LD_LIBRARY_PATH" if folders else "LD_LIBRARY_PATH is not set")


def _paths(machine: Machine) -> Iterator[Seen]:
    """Python's search path: folders of another Python, and the user's own packages."""
    told = machine.env.get("PYTHONPATH", "")
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    strange = [p for p in told.split(os.pathsep) if (m := re.search(r"python(3\.\d+)", p)) and m[1] != mine]
    if strange:
        yield warn(
            f"PYTHONPATH names packages of another Python than {mine}: {', '.join(strange[:3])}",
            "Take it out of PYTHONPATH.",
        )
    elif machine.env.get("PYTHONHOME"):
        yield warn(f"PYTHONHOME={machine.env['PYTHONHOME']}: every Python takes its library from there", "Unset it.")
    elif kind(machine) and not in_environment() and not machine.env.get("PYTHONNOUSERSITE") and _user_packages():
        yield warn(
            "packages of the home folder (~/.local/lib) are found before those of the image",
            "Set PYTHONNOUSERSITE=1 in the container, or do not mount the home folder.",
        )
    else:
        yield ok("nothing of another Python is in its search path")


def _user_packages() -> bool:
    """Whether the user's own folder holds a package that the image is likely to bring itself."""
    import site

    folder = Path(site.getusersitepackages())
    try:
        return site.ENABLE_USER_SITE is True and any(
            (folder / name).is_dir() for name in ("torch", "numpy", "transformers", "deepspeed")
        )
    except OSError:
        return False


CHECKS = (
    Check("container.python", "whose Python it is", "pip refuses to change the Python of the system (PEP 668).", ("container.pep668", "E002"), _python),
    Check(
        "container.toolkit", "the CUDA toolkit and its compiler", "What compiles kernels at the first run stops without nvcc, or with one of another version.",
        ("software.cuda_home", "software.extension_build", "E003"), _toolkit,
    ),
    Check(
        "container.compilers", "compilers and headers", "Helpers of Megatron, kernels of DeepSpeed and torch.compile are built at the first run.",
        ("software.extension_build", "torch.compile_failed", "E005"), _compilers,
    ),
    Check(
        "container.kernels", "packages with compiled kernels against PyTorch", "A package that was built for another PyTorch cannot be imported.",
        ("software.undefined_symbol", "software.import_error", "E006"), _abi,
    ),
    Check("container.libraries", "libraries that come before PyTorch's own", "An older NCCL in LD_LIBRARY_PATH lacks functions that PyTorch calls.", ("software.undefined_symbol", "nccl.versions_differ"), _libraries),
    Check("container.packages", "Python's search path", "Packages of another Python, or of the home folder, take the place of those of the image.", ("software.import_error", "software.numpy_abi"), _paths),
)  # fmt: skip
