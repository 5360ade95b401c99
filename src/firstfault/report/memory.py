"""The memory of devices as text: what explains the failed request, sums, and the places that held the most.

Must not infer anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.wording import size_text
from firstfault.i18n import messages
from firstfault.model.words import CoverageState
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap
from firstfault.report.viewed import foot_of, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.views import MemoryPlace, MemoryRow, MemoryTable
    from firstfault.redact import Redacted

PLACES = 8
"""Places shown of a device unless all are asked for."""


def render_memory(safe: Redacted[MemoryTable], *, width: int = 100, every: bool = False, language: str = "en") -> str:
    """The memory for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether all places are shown.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    table, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = head_of(table, say, width)
    if not table.rows:
        damaged = any(row.state is CoverageState.DAMAGED for row in table.coverage)
        lines += ["", *wrap(say["memory.unread" if damaged else "memory.none"], width)]
    for row in table.rows:
        lines += ["", *_device(row, say, width, every=every)]
    lines += ["", *foot_of(table, say, width, ())]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _device(row: MemoryRow, say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    who = row.file if row.rank is None else f"{say['memory.rank'].format(rank=row.rank)} ({row.file})"
    lines = wrap(neutral(say["memory.of"].format(device=row.device, who=who)), width)
    lines += wrap(neutral(" ".join(row.sentences)), width)
    sums = say["memory.sums"].format(
        held=size_text(row.held),
        reserved=size_text(row.reserved),
        inactive=size_text(row.inactive),
        largest=size_text(row.largest_inactive),
    )
    if row.pool_reserved:
        pools = {"reserved": size_text(row.pool_reserved), "inactive": size_text(row.pool_inactive)}
        sums = f"{sums}; {say['memory.pools'].format(**pools)}"
    lines += wrap(sums, width)
    for step in row.steps:
        lines += wrap(neutral(say["memory.next"].format(step=step)), width)
    if not row.places:
        return lines
    shown = row.places if every else row.places[:PLACES]
    lines += ["", say["memory.then" if row.at_oom else "memory.now"]]
    head = [say[f"column.{name}"] for name in ("bytes", "share", "blocks", "place")]
    lines += aligned(head, [_cells(place, row, say) for place in shown], width)
    rest = row.places[len(shown) :]
    if rest:
        lines.append(say["memory.more"].format(n=len(rest), size=size_text(sum(p.bytes for p in rest))))
    return lines


def _cells(place: MemoryPlace, row: MemoryRow, say: Mapping[str, str]) -> list[str]:
    text = place.place
    if place.part and place.line:
        text += f" [{place.part}]"
    if place.through and place.line:
        text += f" < {place.through}"
    if place.steady:
        text += f"; {say['memory.grows']}"
    return [size_text(place.bytes), f"{100 * place.bytes / max(row.held, 1):.0f} %", f"{place.blocks:,}", text]
