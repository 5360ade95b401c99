"""Which device or whose order a fault is of, and what no other device can have brought about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.suspects import MACHINES
from firstfault.model.words import Category, Domain

if TYPE_CHECKING:
    from firstfault.analysis.suspects import Suspect


def from_outside(suspect: Suspect) -> bool:
    """Whether a fault is a machine's or somebody's order, and none of the program."""
    return suspect.ordered or suspect.first.signature.split(".", 1)[0] in MACHINES


def other_device(cause: Suspect, effect: Suspect) -> bool:
    """Whether one of two is a network adapter's or a link's fault and the other a GPU's: neither device brings the other's about."""
    one, two = cause.nature, effect.nature
    if {one.category, two.category} != {Category.NETWORK, Category.GPU_CUDA}:
        return False
    network, gpu = (cause, effect) if one.category is Category.NETWORK else (effect, cause)
    return from_outside(network) and network.first.exception is None and gpu.nature.domain is not Domain.MEMORY
