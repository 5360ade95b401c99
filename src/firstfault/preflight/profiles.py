"""Whether results of two environments may be compared at all: what decides, what does not, what one side does not know.

Pure. What decides is what changes how fast or with which numbers a run computes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from firstfault.model.environment import EnvironmentComparison, EnvironmentDifference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.environment import Capability, DifferenceWeight, Environment

_DECIDING_PACKAGES = frozenset({"torch", "triton", "deepspeed", "megatron-core", "transformer-engine", "apex", "flash-attn", "flash-attn-3", "xformers", "bitsandbytes", "mamba-ssm", "causal-conv1d", "torchao", "vllm", "transformers", "accelerate", "lightning", "pytorch-lightning"})  # fmt: skip
_DECIDING_SETTINGS = re.compile(
    r"NCCL_(?!DEBUG|SET_|SOCKET_IFNAME|IB_HCA|TOPO_DUMP|GRAPH_DUMP)|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_MODULE|CUBLAS_|NVTE_|"
    r"TORCH_(?:ALLOW_TF32|DISTRIBUTED_DEBUG|CUDNN|NCCL_(?:BLOCKING|ENABLE_TIMING|NAN_CHECK|AVOID))|PYTORCH_(?:CUDA_)?ALLOC|PYTORCH_NO_|OMP_|MKL_|UCX_|FI_|OFI_|TRITON_"
)


def compare_environments(first: Environment, second: Environment, names: tuple[str, str]) -> EnvironmentComparison:
    """What differs between two profiles, and whether that decides.

    Args:
        first: a profile.
        second: the other.
        names: of the two, as they were given.
    """
    found = [
        *_gpus(first, second),
        *_plain("driver", first.driver, second.driver, major=True),
        *_capabilities(first, second),
        *_maps("package", first.packages, second.packages),
        *_maps("setting", first.settings, second.settings),
        *_maps("python", first.python, second.python),
        *_maps("platform", first.platform, second.platform),
    ]
    order: dict[DifferenceWeight, int] = {"decides": 0, "open": 1, "minor": 2}
    found.sort(key=lambda d: order[d.weight])
    count = {w: sum(d.weight == w for d in found) for w in order}
    verdict: Literal["comparable", "not_comparable", "unknown"] = "comparable"
    if count["decides"]:
        verdict = "not_comparable"
    elif count["open"]:
        verdict = "unknown"
    return EnvironmentComparison(
        first=names[0],
        second=names[1],
        verdict=verdict,
        summary=_summary(verdict, count, found),
        differences=found,
        same=_same(first, {d.what for d in found}),
    )


def _summary(verdict: str, count: dict[DifferenceWeight, int], found: list[EnvironmentDifference]) -> str:
    if verdict == "not_comparable":
        several = count["decides"] > 1
        told = (
            f"{count['decides']} differences change speed or numbers, {found[0].what} first"
            if several
            else f"{found[0].what} changes speed or numbers"
        )
        return f"{told}: results of the two must not be put side by side."
    if verdict == "unknown":
        return f"{count['open']} things that decide are not known on one side."
    return f"Nothing that decides differs; {count['minor']} other differences." if found else "The two are the same."


def _plain(what: str, first: str, second: str, *, major: bool = False) -> Iterator[EnvironmentDifference]:
    if first == second:
        return
    if not first or not second:
        yield EnvironmentDifference(what=what, first=first, second=second, weight="open")
        return
    same = major and first.partition(".")[0] == second.partition(".")[0]
    yield EnvironmentDifference(what=what, first=first, second=second, weight="minor" if same else "decides")


def _gpus(first: Environment, second: Environment) -> Iterator[EnvironmentDifference]:
    def told(one: Environment) -> str:
        return ", ".join(f"{g.count} x {g.name}" + (f" {g.memory_mb} MB" if g.memory_mb else "") for g in one.gpus)

    if told(first) == told(second):
        return
    # A machine without GPU knows that it has none only where torch looked for one.
    known = [bool(e.gpus) or _named(e, "cuda") is not None for e in (first, second)]
    weight: DifferenceWeight = "decides" if all(known) else "open"
    yield EnvironmentDifference(what="gpu", first=told(first), second=told(second), weight=weight)


def _named(one: Environment, name: str) -> Capability | None:
    found = next((c for c in one.capabilities if c.name == name), None)
    return None if found is None or found.usable is None else found


def _capabilities(first: Environment, second: Environment) -> Iterator[EnvironmentDifference]:
    names = dict.fromkeys(c.name for one in (first, second) for c in one.capabilities)
    for name in names:
        if name == "nvcc":
            continue
        pair = [next((c for c in one.capabilities if c.name == name), None) for one in (first, second)]
        texts = [_text(c) for c in pair]
        if texts[0] == texts[1]:
            continue
        open_side = any(c is None or c.usable is None for c in pair)
        yield EnvironmentDifference(what=f"capability {name}", first=texts[0], second=texts[1], weight="open" if open_side else "decides")  # fmt: skip


def _text(one: Capability | None) -> str:
    if one is None or one.usable is None:
        return "not known"
    return f"works: {one.resolved}" + (f" ({one.detail})" if one.detail else "") if one.usable else "does not work"


def _maps(what: str, first: dict[str, str], second: dict[str, str]) -> Iterator[EnvironmentDifference]:
    for name in sorted({*first, *second}):
        values = first.get(name, ""), second.get(name, "")
        if values[0] == values[1]:
            continue
        decides = (what == "package" and name in _DECIDING_PACKAGES) or (
            what == "setting" and _DECIDING_SETTINGS.match(name) is not None
        )
        if what == "platform" and name == "machine":
            decides = True
        yield EnvironmentDifference(what=f"{what} {name}", first=values[0], second=values[1], weight="decides" if decides else "minor")  # fmt: skip


def _same(first: Environment, differing: set[str]) -> list[str]:
    """What decides and is known, and the same."""
    found = ["gpu"] if first.gpus and "gpu" not in differing else []
    found += ["driver"] if first.driver and "driver" not in differing else []
    found += [c.name for c in first.capabilities if c.usable is True and f"capability {c.name}" not in differing]
    found += [n for n in first.packages if n in _DECIDING_PACKAGES and f"package {n}" not in differing]
    return list(dict.fromkeys(found))
