"""Imports what a run would import, one after the other, and says of each what came of it: run as a program of its own.

An import may hang, crash or print; the parent has a limit of time, and goes on behind the one that ended this program.
Standard library only beside what it is told to import.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable


def torch() -> tuple[str, str]:
    """Version of CUDA's build and what the runtime sees."""
    module = importlib.import_module("torch")
    if not module.cuda.is_available():
        raise RuntimeError("torch.cuda.is_available() is False")
    return f"{module.cuda.device_count()} GPUs, architectures {' '.join(module.cuda.get_arch_list())}", ""


def nccl() -> tuple[str, str]:
    """Version of the NCCL that torch has."""
    module = importlib.import_module("torch.cuda.nccl")
    version = module.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version), ""


def cudnn() -> tuple[str, str]:
    """Version of cuDNN."""
    version = importlib.import_module("torch").backends.cudnn.version()
    if version is None:
        raise RuntimeError("torch has no cuDNN")
    return str(version), ""


def apex() -> tuple[str, str]:
    """Apex with its fused kernels, which an installation without compiler lacks."""
    importlib.import_module("apex")
    missing = []
    for name in ("amp_C", "fused_layer_norm_cuda", "fused_weight_gradient_mlp_cuda"):
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if "amp_C" in missing:
        raise RuntimeError(f"without fused kernels: {', '.join(missing)}")
    return "fused kernels", f"without {', '.join(missing)}" if missing else ""


def deepspeed() -> tuple[str, str]:
    """DeepSpeed and the operations that were built for it."""
    module = importlib.import_module("deepspeed")
    info = importlib.import_module("deepspeed.git_version_info")
    built = sorted(n for n, there in getattr(info, "installed_ops", {}).items() if there)
    return f"{module.__version__}, built operations: {' '.join(built) or 'none'}", ""


def plain(name: str, *kernels: str) -> tuple[str, str]:
    """A package, with the compiled part that it needs."""
    module = importlib.import_module(name)
    for kernel in kernels:
        importlib.import_module(kernel)
    return str(getattr(module, "__version__", "imported")), ""


TRIES: dict[str, Callable[[], tuple[str, str]]] = {
    "cuda": torch,
    "nccl": nccl,
    "cudnn": cudnn,
    "triton": lambda: plain("triton"),
    "transformer_engine": lambda: plain("transformer_engine.pytorch"),
    "apex": apex,
    "flash_attn": lambda: plain("flash_attn", "flash_attn_2_cuda"),
    "deepspeed": deepspeed,
    "megatron_core": lambda: plain("megatron.core"),
    "xformers": lambda: plain("xformers.ops"),
    "bitsandbytes": lambda: plain("bitsandbytes"),
}


def main(names: list[str]) -> None:
    """Tries each, and writes a line before and after it; what they print themselves goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in names:
        out.write(json.dumps({"begin": name}) + "\n")
        out.flush()
        try:
            resolved, detail = TRIES[name]()
            told = {"name": name, "usable": True, "resolved": resolved, "detail": detail}
        except BaseException as error:  # noqa: BLE001 - packages end imports with anything, SystemExit too
            text = " ".join(str(error).split())[:300]
            told = {"name": name, "usable": False, "resolved": "", "detail": f"{type(error).__name__}: {text}"}
        out.write(json.dumps(told) + "\n")
        out.flush()


if __name__ == "__main__":
    # The folder of a program comes first in the path: what lies beside this one must hide nothing of the run's.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
    main(sys.argv[1:])
    os._exit(0)  # what was imported may hang at its end
