"""Who waited for whom, where nothing else names a cause? A hang is called a hang, never a network fault by itself.

Without the state of every rank in every process group the reason of a wait is not known, so the category is
`unknown` here; who stayed away is named only where the set of ranks that were present is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes
from firstfault.analysis.wording import duration, ranks_text
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene


def ask(scene: Scene) -> Answer | None:
    """The answer where ranks waited too long and nothing else is known; else None."""
    hang = scene.hang
    if hang is None:
        return None
    what = f"{hang.op} {hang.seq}" if hang.op and hang.seq else (hang.op or "a collective")
    wait = f" for {duration(hang.waited_ms)}" if hang.waited_ms is not None else ""
    who = ranks_text(hang.waiters).capitalize() or "Ranks"
    return Answer(
        question="hang",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"The job hung: {who} waited in {what}{wait}. No line names the reason, and a time-out alone does not mean a network fault.",
        trigger=None,
        proof=hang.events[:3],
        classes=Classes(domain=Domain.COMMUNICATION, form=Form.HUNG, layer=Layer.COLLECTIVE, scope=Scope.GROUP),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Find the rank that did not wait: the one whose log is silent, or whose last enqueued number is the lowest.",
            "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (TORCH_FR_BUFFER_SIZE from torch 2.10) and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for the next run.",
        ),
        collect=(
            "the flight-recorder dumps of all ranks (/tmp/nccl_trace_rank_* or ~/.cache/torch/comm_lib_trace_rank_*)",
            "stacks of all ranks at the time of the hang (py-spy dump)",
            "kernel logs of all hosts from ten minutes before the stuck collective began",
        ),
    )
