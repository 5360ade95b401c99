"""Makes the backward pass known: torch calls `torch.autograd.backward` from every `Tensor.backward`. Nothing is put around it."""

from __future__ import annotations

from typing import Any

from firstfault.recorder.looking import know


def apply(module: Any) -> None:
    """Takes `torch.autograd.backward` for the phase of that name."""
    know(module.backward, "backward")
