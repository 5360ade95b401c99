"""Results of trials as a table: what is absent is `-`.

Must not judge anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report.localise import localised
from firstfault.report.tabular import aligned

if TYPE_CHECKING:
    from firstfault.model.results import Results
    from firstfault.redact import Redacted


def render_results(safe: Redacted[Results], *, width: int = 100, language: str = "en") -> str:
    """The table for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        language: of the fixed words; names of columns are those of the files.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say = localised(safe, language).content, messages(language)
    head = [say["results.trial"], say["results.state"], *found.columns, say["results.note"]]
    rows = [
        [row.name, row.state or "-", *(cell(row.values.get(name)) for name in found.columns), row.note]
        for row in found.rows
    ]
    return "\n".join(line.rstrip() for line in aligned(head, rows, max(width, 40))) + "\n"


def cell(value: float | str | None) -> str:
    """One value; `-` where there is none."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
