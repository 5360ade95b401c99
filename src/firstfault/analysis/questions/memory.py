"""What explains an out-of-memory: the figures of its message, and the memory snapshot of that process where one is there.

Adds sentences and steps to an answer that others gave; must not choose the first fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.oom_message import account, figures

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect

MESSAGES = "gpu.out_of_memory"
"""Signature of the allocators' message that gives figures."""


class Explained(Struct, frozen=True, kw_only=True):
    """What is added to the answer."""

    sentences: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    settled: bool = False
    """Whether a snapshot answers already what would else be asked for."""


def explained(scene: Scene, root: Suspect) -> Explained:
    """What explains the out-of-memory that is the root; nothing where it is something else or nothing tells."""
    del scene
    if root.first.signature != MESSAGES:
        return Explained()
    known = figures(root.first.text)
    told = None if known is None else account(known)
    if told is None:
        return Explained()
    return Explained(sentences=(told.sentence,), steps=(told.step,))
