"""Did the loss or its gradient stay NaN to the end? Then the run went wrong, whatever it says of its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes
from firstfault.analysis.order import sort_key
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event

_SAYS_SO = lazy(
    r"(?i)\bdiverge[ds]?\b|\bdivergence\b|\bnot (?:been |a )?finite\b|\bnon-?finite\b|\bnans?\b|\bunstable\b|\bexploded\b"
)


def ask(scene: Scene) -> Answer | None:
    """The answer where nothing failed before and all signs of training are NaN from some line to the end; else None."""
    if not scene.nan_from:
        return None
    first = min(scene.nan_from, key=sort_key)
    if (scene.suspects or scene.outcome.ended == "failed") and not _ended_for_it(scene, first):
        return None
    what = "NaN" if "nan" in first.text.lower() else "infinite or NaN"
    return Answer(
        question="nan_end",
        failed=True,
        category=Category.NUMERICAL,
        strength=Strength.SUPPORTED,
        summary=f"The loss or its gradient is {what} from here to the end: what the run wrote after it is worthless.",
        trigger=first,
        proof=(first,),
        classes=Classes(domain=Domain.COMPUTE, form=Form.WRONG_RESULTS, layer=Layer.RUNTIME, scope=Scope.ALL),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Go back to a checkpoint from before this line; later ones hold NaN weights.",
            "Look at the steps before it: learning rate, loss scale, a bad batch; run them with torch.autograd.set_detect_anomaly(True).",
        ),
        collect=("the metrics of every step around this line: loss, gradient norm, learning rate, loss scale",),
    )


def _ended_for_it(scene: Scene, start: Event) -> bool:
    """Whether all that failed are errors that the program raised below the first NaN and whose own words say that it is for that."""
    raised = [(s.first, s.first.exception) for s in scene.suspects]
    return bool(raised) and all(
        exception is not None
        and _SAYS_SO.search(exception.message) is not None
        and event.span.source == start.span.source
        and event.span.line > start.span.line
        for event, exception in raised
    )
