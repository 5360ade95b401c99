"""Two profiles of environments side by side, as text.

Must not judge anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from firstfault.model.environment import EnvironmentComparison
    from firstfault.redact import Redacted

_TITLES = (("decides", "environment.decides"), ("open", "environment.open"), ("minor", "environment.minor"))


def render_environments(safe: Redacted[EnvironmentComparison], *, width: int = 100, language: str = "en") -> str:
    """The comparison for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(f"{say[f'environment.{found.verdict}']}  {found.first}  {found.second}"), width)
    lines += wrap(neutral(found.summary), width)
    head = [say["column.what"], say["column.first"], say["column.second"]]
    for weight, title in _TITLES:
        rows = [[d.what, d.first or "-", d.second or "-"] for d in found.differences if d.weight == weight]
        if rows:
            lines += ["", say[title], *aligned(head, rows, width)]
    if found.same:
        lines += ["", *wrap(neutral(say["environment.same"].format(names=", ".join(found.same))), width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"
