"""Notes the backward pass: torch calls `torch.autograd.backward` from every `Tensor.backward`, by that name."""

from __future__ import annotations

import functools
from typing import Any

from firstfault.recorder import api


def apply(module: Any) -> None:
    """Wraps `torch.autograd.backward`."""
    original = module.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None:
            return original(*args, **kwargs)
        ring = recorder.ring
        ring.phase("backward")
        result = original(*args, **kwargs)
        # A pass that raises stays in its phase: that is where the program was.
        ring.phase("forward")
        return result

    module.backward = backward
