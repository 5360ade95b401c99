"""Rows as a table for a terminal, or as CSV that a spreadsheet cannot take for formulas.

Must not know what the rows are about.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.report.neutral import neutral
from firstfault.report.text import columns, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Cell = str | int | bool | None

GAP = 2
"""Blanks between two columns."""
WIDEST = 36
"""Columns of a cell up to which it stands in line with the others; a longer one goes below its row."""
BELOW = 6
"""Indent of what stands below a row."""
_FORMULA = lazy("^[\\s\x00]*[=+\\-@\uff1d\uff0b\uff0d\uff20|%]")
"""Starts that spreadsheets take for a formula or a command, in both widths."""


def aligned(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
) -> list[str]:
    """A table in at most `width` columns.

    Columns without any content are left out. Columns that do not fit beside the others, from the right, and cells that
    are too long, stand below their row with their name.

    Args:
        head: names of the columns; the first is always shown.
        rows: cells as text, one for each name.
        width: columns of the page.
    """
    cells = [[neutral(c) for c in row] for row in rows]
    used = [i for i in range(len(head)) if i == 0 or any(row[i] for row in cells)]
    sizes = {
        i: max(
            [
                columns(head[i]),
                *(columns(r[i]) for r in cells if columns(r[i]) <= (WIDEST if i else min(2 * WIDEST, width))),
            ],
            default=0,
        )
        for i in used
    }
    beside: list[int] = []
    total = 0
    for i in used:
        if beside and total + GAP + sizes[i] > width:
            break
        total += sizes[i] + (GAP if beside else 0)
        beside.append(i)
    below = [i for i in used if i not in beside]
    lines = [_row([head[i] for i in beside], [sizes[i] for i in beside])]
    for row in cells:
        fits = [row[i] if columns(row[i]) <= sizes[i] else "" for i in beside]
        if row[0] and not fits[0]:
            lines += wrap(row[0], width)
            lines.append(_row(["", *fits[1:]], [sizes[i] for i in beside]))
        else:
            lines.append(_row(fits, [sizes[i] for i in beside]))
        rest = [i for i in beside[1:] if columns(row[i]) > sizes[i]] + [i for i in below if row[i]]
        text = "; ".join(f"{head[i]}: {row[i]}" for i in rest)
        if text:
            lines += [" " * BELOW + line for line in wrap(text, width - BELOW)]
    return [line.rstrip() for line in lines if line.strip()]


def _row(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return (" " * GAP).join(cell + " " * (size - columns(cell)) for cell, size in zip(cells, sizes, strict=True))


def separated(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """CSV with a head, commas and plain newlines; truth is told as yes or no, and a text that a spreadsheet could take for a formula stands behind an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_safe(cell) for cell in row])
    return out.getvalue()


def _safe(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return str(cell)
    text = neutral(cell)
    return f"'{text}" if _FORMULA.search(text) else text
