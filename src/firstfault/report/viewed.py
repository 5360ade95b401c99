"""What stands above and below every view as text: the verdict of the same input, and what is missing.

Must not infer anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.report import phrases
from firstfault.report.neutral import neutral
from firstfault.report.text import fitted, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.model.views import View


def head_of(view: View, say: Mapping[str, str], width: int) -> list[str]:
    """The verdict in at most four lines, and which attempt is shown where there are several."""
    lines = wrap(f"{phrases.headline(view, say)}  {phrases.how_sure(view, say)}", width)
    lines += fitted(neutral(view.verdict.summary), 3, width)
    if view.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    if view.attempts > 1:
        shown = say["view.attempt" if view.attempt is not None else "view.attempts"]
        lines += wrap(shown.format(n=view.attempt, all=view.attempts), width)
    return lines


def foot_of(view: View, say: Mapping[str, str], width: int, remarks: Iterable[str]) -> list[str]:
    """What was left out, what was not read, and how many lines were read again."""
    check = view.verification
    parts = [*remarks, *phrases.unread(view.coverage, say)]
    parts.append(say["foot.verified"].format(reread=check.reread, claims=check.claims))
    if check.withdrawn:
        parts.append(say["foot.withdrawn"].format(n=len(check.withdrawn)))
    return wrap(neutral(say["mark.and"].join(parts)), width)
