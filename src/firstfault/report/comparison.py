"""The comparison of two diagnoses as text.

Must not infer anything; log text is made neutral.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report import phrases
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.comparison import Comparison
    from firstfault.model.diagnosis import Evidence
    from firstfault.redact import Redacted

INPUTS = 12
"""Inputs that are named; the rest is a number."""
LINES = 6
"""Lines of evidence that are quoted; the rest is a number."""


def render_comparison(safe: Redacted[Comparison], *, width: int = 100, language: str = "en") -> str:
    """What changed and why, ending in a newline.

    Args:
        safe: what went through the door.
        width: columns.
        language: of the fixed words.
    """
    d, say = localised(safe, language).content, messages(language)
    lines = wrap(say["diff.same" if d.same else "diff.changed"], width)
    if d.same:
        lines += wrap(neutral(d.after.summary), width)
    for change in d.changes:
        lines += ["", say[f"diff.{change.what}"]]
        for sign, text in (("-", change.before), ("+", change.after)):
            lines += _hanging(sign, neutral(text) or say["diff.none"], width)
    lines += _list(say["diff.why"], map(neutral, d.why), width)
    told = [
        f"{say[f'diff.{i.change}']} {neutral(i.file)}: {neutral(' -> '.join(filter(None, (i.before, i.after))))}"
        for i in d.inputs
    ]
    rest = [say["value.more"].format(n=len(told) - INPUTS)] if len(told) > INPUTS else []
    lines += _list(say["diff.inputs"], [*told[:INPUTS], *rest], width)
    lines += _list(say["diff.lines_added"], _quoted(d.lines_added, say, width), width)
    lines += _list(say["diff.lines_gone"], _quoted(d.lines_gone, say, width), width)
    return "\n".join(lines) + "\n"


def _quoted(lines: Sequence[Evidence], say: Mapping[str, str], width: int) -> list[str]:
    told = [f"{neutral(phrases.place(e))}: {shorten(neutral(e.text), max(40, 2 * width))}" for e in lines[:LINES]]
    return [*told, say["value.more"].format(n=len(lines) - LINES)] if len(lines) > LINES else told


def _list(title: str, items: Iterable[str], width: int) -> list[str]:
    told = [line for item in items for line in _hanging("*", item, width)]
    return ["", title, *told] if told else []


def _hanging(sign: str, text: str, width: int) -> list[str]:
    first, *rest = wrap(text, width - 4)
    return [f"  {sign} {first}", *(f"    {line}" for line in rest)]
