"""What a run says of its configuration, versions, environment, seeds and topology, with the line of each word.

Reads what trainers print at the start, and files of settings as flat pairs. Must not compare.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterator

Area = Literal["configuration", "versions", "environment", "seeds", "topology"]
MOST = 4 << 20
"""Bytes at the start of a log in which a run tells what it is."""
LONGEST = 2000
_ARGUMENT = lazy(r"^(?:\[?default\d+\]?:|\d{1,5}: |\[rank\d+\]:)?\s*([A-Za-z][\w-]{1,80}) \.{2,80} (.{0,300})$")
_PAIR_LINE = lazy(r"^\s{0,40}-?\s{0,2}['\"]?([A-Za-z_][\w.\-/]{0,80})['\"]?\s{0,40}[:=]\s{0,40}(\S.{0,300})$")
_VERSION = lazy(
    r"(?i)\b(torch|pytorch|transformers|deepspeed|nccl|cuda|cudnn|megatron(?:-core)?|nemo|lightning|pytorch.lightning|accelerate|datasets|numpy|python|driver|flash.?attn|transformer.?engine|apex|rccl|rocm|torchtitan)"
    r"(?: version| info: version)?[ :=]{1,3}v?(\d+\.\d+[\w.+-]*)"
)
_ENV = lazy(
    r"^(?:export |\s*(?:ENV|env)[: ] ?)?((?:NCCL|TORCH|CUDA|PYTORCH|OMP|MKL|UCX|FI|GLOO|HSA|HF|TOKENIZERS|XLA|NVTE|TRITON|SLURM|HYDRA)_[A-Z0-9_]+)[=:]\s?(\S{0,200})"
)
_SEED = lazy(r"(?i)\b(?:random )?seeds?\b(?: set)?(?: to|[:=])\s{0,3}(\d{1,12})")
_TOPOLOGY = lazy(
    r"(?i)\b(world[ _-]size|data-parallel size|context-parallel size|tensor-model-parallel size|pipeline-model-parallel size|expert-model-parallel size|nnodes|nproc_per_node|num_nodes|devices|Num processes|dist_world_size)\b[:= ]{1,3}(\d{1,7})\b"
)
_HF = lazy(
    r"(?i)\b(Num examples|Num Epochs|Instantaneous batch size per device|Total train batch size[^=]{0,60}|Gradient Accumulation steps|Total optimization steps|Number of trainable parameters) = ([\d,]+)"
)
_AREA_OF = (
    (re.compile(r"(?i)seed$|^seed"), "seeds"),
    (re.compile(r"(?i)world.?size|parallel.?size|nnodes|num.?nodes|nproc|num.?gpus|^devices$"), "topology"),
    (re.compile(r"(?i)version$"), "versions"),
)
_OWN = lazy(
    r"(?i)(?:^|[_.-])(?:port|pid|hostname|host|addr|address|time|date|timestamp|uuid|job_?id|run_?id|run_?name|exp_?name|log_?dir|output_?dir|save|save_?dir|tensorboard_?dir|wandb\w*|cwd|pwd|local_?rank|rank|node_?rank|group_?rank|role_?rank)$|^SLURM_(?!JOB_NUM_NODES|NTASKS|NNODES)"
)
"""Names that are those of the start itself: they differ between any two runs."""


class Setting(NamedTuple):
    """One word of a run about itself."""

    area: Area
    name: str
    value: str
    file: str
    line: int
    text: str


def settings_of_log(text: str, file: str) -> Iterator[Setting]:
    """What a log tells of the run.

    Args:
        text: its beginning.
        file: as shown.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST:
            continue
        found = _ARGUMENT.match(line)
        if found is not None:
            yield _setting(found[1], found[2].strip(), file, number, line)
            continue
        found = _ENV.match(line)
        if found is not None:
            if not _OWN.search(found[1]):
                yield Setting("environment", found[1], found[2], file, number, line)
            continue
        for pair in _VERSION.finditer(line):
            yield Setting("versions", pair[1].lower(), pair[2], file, number, line)
        for pair in _TOPOLOGY.finditer(line):
            yield Setting("topology", re.sub(r"[ _-]", " ", pair[1].lower()), pair[2], file, number, line)
        for pair in _HF.finditer(line):
            yield Setting("configuration", pair[1], pair[2], file, number, line)
        seed = _SEED.search(line)
        if seed is not None:
            yield Setting("seeds", "seed", seed[1], file, number, line)


def settings_of_file(text: str, file: str) -> Iterator[Setting]:
    """The pairs of a file of settings: JSON as its paths, any other as its lines of `name: value` or `name = value`.

    Args:
        text: all of it.
        file: as shown.
    """
    if PurePosixPath(file).suffix.lower() == ".json":
        try:
            whole = json.loads(text)
        except ValueError:
            return
        for name, value in _flat(whole, ""):
            yield _setting(name, value, file, 1, f"{name}: {value}")
        return
    path: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.split(" #")[0].rstrip()
        if not bare.strip() or bare.lstrip().startswith("#") or len(bare) > LONGEST:
            continue
        indent = len(bare) - len(bare.lstrip())
        while path and path[-1][0] >= indent:
            path.pop()
        if bare.endswith(":"):
            path.append((indent, bare.strip(" -:\"'")))
            continue
        found = _ENV.match(bare.strip()) or _PAIR_LINE.match(bare)
        if found is not None:
            name = ".".join([*(p for _, p in path), found[1]])
            yield _setting(name, found[2].strip().strip("\"',"), file, number, line)


def _flat(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > 12:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list):
        yield name, json.dumps(value)[:300]
    else:
        yield name, str(value)[:300]


def _setting(name: str, value: str, file: str, line: int, text: str) -> Setting:
    last = name.rsplit(".", 1)[-1]
    if re.fullmatch(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+", last):
        return Setting("environment", last, value, file, line, text)
    area = next((a for pattern, a in _AREA_OF if pattern.search(last)), "configuration")
    return Setting(area, name, value, file, line, text)  # type: ignore[arg-type]


def is_own(name: str) -> bool:
    """Whether a name is that of the start itself, so that it differs between any two runs."""
    return _OWN.search(name.rsplit(".", 1)[-1]) is not None
