"""Did a finished run hang on its way out? Work was done and saved; only the clean-up of the processes failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes
from firstfault.analysis.order import first, sort_key
from firstfault.analysis.questions.left_early import in_the_loop
from firstfault.analysis.state.picture import few, picture
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene

NOT_DESTROYED = "nccl.process_group_not_destroyed"
"""Signature of the warning that process groups were left to the interpreter's exit."""


def ask(scene: Scene) -> Answer | None:
    """The answer where a hang began only after the run's own end marker; else None."""
    hang = scene.hang
    ends = scene.marked(Mark.END)
    if hang is None or not ends or scene.suspects:
        return None
    end = max(ends, key=sort_key)
    if not all(first(end, e) is True for e in hang.events):
        return None
    seen = picture(scene)
    if few(len(seen.where.outside), seen.where.total) or in_the_loop(seen):
        # A rank that is stated to have stayed away, or a wait for gradients, is no clean-up.
        return None
    left = [e for e in scene.events if e.signature == NOT_DESTROYED and first(end, e) is True]
    trigger = min(left, key=sort_key) if left else hang.first
    return Answer(
        question="exit_hang",
        failed=True,
        category=Category.SOFTWARE,
        strength=Strength.SUPPORTED,
        summary="The run had finished; the processes then hung while they shut down and were aborted. No training was lost.",
        trigger=trigger,
        proof=(end, trigger, hang.first),
        classes=Classes(
            domain=Domain.COMMUNICATION, form=Form.HUNG, layer=Layer.COLLECTIVE, phase=Phase.TEARDOWN, scope=Scope.ALL
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Call torch.distributed.destroy_process_group() at the end of the script, on every rank.",
            "The results written before the end marker are complete; no re-run is needed for them.",
        ),
    )
