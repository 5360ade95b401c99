"""Notes steps of torch optimizers, by the hooks that torch offers for all of them."""

from __future__ import annotations

from typing import Any

from firstfault.recorder import api


def apply(module: Any) -> None:
    """Registers with `torch.optim.optimizer` (since torch 2.0)."""
    module.register_optimizer_step_pre_hook(_before)
    module.register_optimizer_step_post_hook(_after)


def _before(optimizer: Any, args: Any, kwargs: Any) -> None:
    del optimizer, args, kwargs
    recorder = api.current()
    if recorder is not None:
        recorder.ring.phase("optimizer")


def _after(optimizer: Any, args: Any, kwargs: Any) -> None:
    """The first optimizer that steps in a process counts; with several (GANs, groups) others are parts of the same step."""
    del args, kwargs
    recorder = api.current()
    if recorder is None:
        return
    if recorder.counting is None:
        recorder.counting = id(optimizer)
    if not recorder.counted_by_program and recorder.counting == id(optimizer):
        recorder.step(None)
    recorder.ring.phase("forward")
