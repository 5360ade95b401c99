"""Hooks into what the program has imported or will import: they note phases, steps, calls and items, each where it can be had.

A hook that does not fit a version of a library is left out and noted; nothing is imported for the program's sake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.recorder.hooks.imports import after_import

if TYPE_CHECKING:
    from firstfault.recorder.core import Recorder

TABLE = {
    "torch.utils.data.dataloader": "firstfault.recorder.hooks.loader",
    "torch.optim.optimizer": "firstfault.recorder.hooks.optimizer",
    "torch.distributed.distributed_c10d": "firstfault.recorder.hooks.collectives",
    "torch.autograd": "firstfault.recorder.hooks.backward",
    "torch.serialization": "firstfault.recorder.hooks.checkpoint",
    "torch.distributed.checkpoint.state_dict_saver": "firstfault.recorder.hooks.checkpoint",
    "torch.multiprocessing.spawn": "firstfault.recorder.hooks.spawn",
    "torch.cuda.memory": "firstfault.recorder.hooks.memory",
    "lightning.pytorch.trainer.trainer": "firstfault.recorder.hooks.frameworks",
    "pytorch_lightning.trainer.trainer": "firstfault.recorder.hooks.frameworks",
    "lightning.pytorch.loops.optimization.automatic": "firstfault.recorder.hooks.frameworks",
    "pytorch_lightning.loops.optimization.automatic": "firstfault.recorder.hooks.frameworks",
    "accelerate.accelerator": "firstfault.recorder.hooks.frameworks",
    "transformers.trainer": "firstfault.recorder.hooks.frameworks",
    "deepspeed.runtime.engine": "firstfault.recorder.hooks.frameworks",
    "megatron.training.training": "firstfault.recorder.hooks.frameworks",
}
"""Module of a library -> module of ours whose `apply(module)` hooks it."""


def install(recorder: Recorder) -> None:
    """Hooks what is imported already, and the rest when it is."""
    for module, ours in TABLE.items():
        after_import(module, ours, recorder.fault)
