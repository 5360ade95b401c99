"""Frameworks: phases and steps by the methods of their trainers, where they have them.

What is called once in many steps is wrapped; what every step calls is only made known (see `looking.py`).
"""

from __future__ import annotations

import functools
import sys
from threading import get_ident
from typing import Any

from firstfault.recorder import api
from firstfault.recorder.looking import know, mark
from firstfault.recorder.ring import LIVE

METHODS: dict[str, tuple[tuple[str, str], ...]] = {
    "lightning.pytorch.trainer.trainer": (
        ("Trainer.save_checkpoint", "checkpoint"),
        ("Trainer.validate", "evaluation"),
    ),
    "pytorch_lightning.trainer.trainer": (
        ("Trainer.save_checkpoint", "checkpoint"),
        ("Trainer.validate", "evaluation"),
    ),
    # The optimizer runs the model, by this: the program is then in the model and no longer in the optimizer.
    "lightning.pytorch.loops.optimization.automatic": (("Closure.closure", "forward"),),
    "pytorch_lightning.loops.optimization.automatic": (("Closure.closure", "forward"),),
    "transformers.trainer": (("Trainer._save_checkpoint", "checkpoint"), ("Trainer.evaluate", "evaluation")),
    "accelerate.accelerator": (("Accelerator.save_state", "checkpoint"), ("Accelerator.load_state", "checkpoint")),
    "deepspeed.runtime.engine": (
        ("DeepSpeedEngine.save_checkpoint", "checkpoint"),
        ("DeepSpeedEngine.load_checkpoint", "checkpoint"),
        ("DeepSpeedEngine.backward", "backward"),
        ("DeepSpeedEngine.step", "optimizer"),
        # Its optimizers of sharded states step once for each group of parameters; this is once for all, behind the last micro-batch.
        ("DeepSpeedEngine._take_model_step", "step"),
    ),
    "megatron.training.training": (
        ("save_checkpoint_and_time", "checkpoint"),
        ("evaluate", "evaluation"),
        ("train_step", "step"),
    ),
}
"""Module -> its methods or functions, each with the phase that the program is in meanwhile; `step`: a whole step."""
_OF_EVERY_STEP = frozenset({"forward", "backward", "optimizer"})


def apply(module: Any) -> None:
    """Wraps what is there."""
    for path, phase in METHODS.get(module.__name__, ()):
        owner = module
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part, None)
        original = getattr(owner, name, None)
        if original is None:
            continue
        if phase in _OF_EVERY_STEP:
            know(original, phase)
        else:
            setattr(owner, name, _step(original) if phase == "step" else _phase(original, phase))


def _phase(original: Any, phase: str) -> Any:
    @functools.wraps(original)
    def inside(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None or not recorder.looker.follows():
            return original(*args, **kwargs)
        before = recorder.ring.begin(phase, mark(sys._getframe()))  # noqa: SLF001 - this function's own
        try:
            result = original(*args, **kwargs)
        except BaseException:
            recorder.ring.leave(before, failed=True)
            raise
        recorder.ring.leave(before, failed=False)
        return result

    return inside


def _step(original: Any) -> Any:
    @functools.wraps(original)
    def inside(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None:
            return original(*args, **kwargs)
        if not recorder.counted_elsewhere:
            recorder.counted_elsewhere, LIVE.owner = True, None
            recorder.looker.follow(get_ident())
        result = original(*args, **kwargs)
        if not recorder.counted_by_program:
            recorder.step(None)
        return result

    return inside
