"""Which part of the training something belongs to, by the names that trainers give to files and keys.

It knows names alone; what it does not know belongs to the trainer where it is a value, and to the weights where it is a
tensor.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.model.checkpoint import Part

_FILES: tuple[tuple[re.Pattern[str], Part], ...] = (
    (re.compile(r"(?:^|[._-])(?:rng|random)_?states?", re.IGNORECASE), "rng"),
    (re.compile(r"(?:lr_)?sched(?:uler)?(?:[._-]|$)", re.IGNORECASE), "scheduler"),
    (re.compile(r"optim", re.IGNORECASE), "optimizer"),
    (re.compile(r"trainer_state|training_state|trainer\.(?:json|pt)", re.IGNORECASE), "trainer"),
    (re.compile(r"training_args|^args\.|config", re.IGNORECASE), "settings"),
    (re.compile(r"^(?:grad_)?scaler", re.IGNORECASE), "scaler"),
    (re.compile(r"sampler|dl_state|dataloader|train_dataloader", re.IGNORECASE), "data"),
)
_WEIGHTS = frozenset(
    [
        "model",
        "module",
        "state_dict",
        "model_state_dict",
        "model_state",
        "net",
        "network",
        "weights",
        "ema",
        "ema_model",
        "generator",
        "discriminator",
        "encoder",
        "decoder",
        "backbone",
        "app",
        "model_ema",
        "teacher",
        "student",
        "params",
    ]
)
_SETTINGS = frozenset(
    [
        "args",
        "ds_config",
        "ds_version",
        "config",
        "cfg",
        "hparams",
        "hyper_parameters",
        "hparams_name",
        "pytorch-lightning_version",
        "checkpoint_version",
        "param_shapes",
        "frozen_param_shapes",
        "frozen_param_fragments",
        "shared_params",
        "buffer_names",
        "sparse_tensor_module_names",
        "datamodule_hyper_parameters",
        "datamodule_hparams_name",
        "dp_world_size",
        "mp_world_size",
        "version",
        "content_metadata",
        "torch_version",
    ]
)
_NUMBERED = re.compile(r"model_?\d+")


def part_of_file(name: str) -> Part | None:
    """The part that a file's name tells; None where it may hold several, as most do."""
    for pattern, part in _FILES:
        if pattern.search(name):
            return part
    return None


def part_of(path: tuple[str, ...], *, tensor: bool) -> tuple[Part, tuple[str, ...]]:
    """The part of a value, and its path below that part.

    Args:
        path: keys from the top of the file.
        tensor: whether it is a tensor.
    """
    for depth, key in enumerate(path[:3]):
        part = _part_of_key(key)
        if part is None:
            continue
        below = path[depth + 1 :]
        # `model.optimizer` is a module of that name, and a state of the optimizer has more below it.
        if part == "weights" and below and below[0] in {"module", "state_dict", "model"} and len(below) > 1:
            below = below[1:]
        return part, below or (key,)
    return ("weights" if tensor else "trainer"), path


def _part_of_key(key: str) -> Part | None:
    low = key.lower()
    if low in _WEIGHTS or _NUMBERED.fullmatch(low):
        return "weights"
    if "rng" in re.split(r"[^a-z]+", low) or low in {"random_state", "random_states", "numpy_state", "python_state"}:
        return "rng"
    if "sched" in low:
        return "scheduler"
    if low.startswith(("optim", "base_optim")) or low in {"opt", "optims"}:
        return "optimizer"
    if low in _SETTINGS:
        return "settings"
    if low in {"scaler", "grad_scaler", "loss_scaler", "amp", "native_amp_scaling"}:
        return "scaler"
    if "dataloader" in low or "sampler" in low:
        return "data"
    return None
