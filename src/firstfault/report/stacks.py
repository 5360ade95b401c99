"""Stacks of all ranks as text: where they stood, the odd ones first, and one tree of all main threads.

Must not infer anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report import phrases
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap
from firstfault.report.viewed import foot_of, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.model.views import StackNode, StackPlace, StackTable, StackThreads
    from firstfault.redact import Redacted

DEEPEST = 40
"""Columns of indent at most; deeper frames stand no further right."""
MOST_THREADS = 12
"""Lines of further threads unless all are asked for; the rarest first."""
MOST_ROWS = 60
"""Rows of the tree that are shown unless all are asked for."""


def render_stacks(safe: Redacted[StackTable], *, width: int = 100, every: bool = False, language: str = "en") -> str:
    """The stacks for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether runs of frames that nobody leaves are shown whole.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    table, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = head_of(table, say, width)
    if not table.places:
        lines += ["", *wrap(say["stacks.none"], width), "", *foot_of(table, say, width, ())]
        return "\n".join(lines) + "\n"
    seen = "stacks.seen_some" if table.expected is None else "stacks.seen"
    lines += wrap(say[seen].format(n=table.processes, all=table.expected, dumps=table.dumps), width)
    lines.append("")
    head = [say[f"column.{name}"] for name in ("who", "doing", "call", "from", "line")]
    lines += aligned(head, [_cells(p, say) for p in table.places], width)
    lines += ["", say["stacks.tree"]]
    nodes = table.tree if every else _short(table.tree)
    lines += [_branch(node, width, say) for node in nodes[: None if every else MOST_ROWS]]
    if not every and len(nodes) > MOST_ROWS:
        lines.append("  … " + say["checkpoint.more"].format(n=len(nodes) - MOST_ROWS, option="`--all`"))
    lines += _threads(table.threads, say, width, every=every)
    lines.append("")
    silent = [say["stacks.refused"].format(list=phrases.runs(table.refused, say))] if table.refused else []
    lines += foot_of(table, say, width, silent)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _threads(rows: Sequence[StackThreads], say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    """Threads beside the main ones, a line for all that are alike."""
    if not rows:
        return []
    shown = rows if every else rows[:MOST_THREADS]
    lines = ["", say["stacks.threads"]]
    for row in shown:
        who = _who(row.ranks, row.others, say)
        name = f"{row.name}: " if row.name else ""
        many = f" ({row.threads})" if row.threads > 1 else ""
        room = max(12, width - len(who) - len(many) - 5)
        lines.append(f"  {shorten(neutral(f'{name}{row.call}'), room)}{many}  [{neutral(who)}]")
    if len(rows) > len(shown):
        lines.append(say["stacks.more_threads"].format(n=len(rows) - len(shown)))
    return lines


def _cells(place: StackPlace, say: Mapping[str, str]) -> list[str]:
    proof = place.evidence[0] if place.evidence else None
    call = place.call if not place.also else f"{place.call}; {say['stacks.also'].format(list=', '.join(place.also))}"
    who = _who(place.ranks, place.others, say)
    return [
        f"{who} {say['stacks.odd']}" if place.odd else who,
        say.get(f"doing.{place.doing}", place.doing),
        call,
        place.called_from or "",
        "" if proof is None else f"{proof.file}:{proof.line}",
    ]


def _who(ranks: Sequence[int], others: Sequence[str], say: Mapping[str, str]) -> str:
    parts = [phrases.runs(ranks, say, most=8)] if ranks else []
    parts += list(others[:3])
    if len(others) > 3:
        parts.append(f"+{len(others) - 3}")
    return ", ".join(parts)


def _short(tree: Sequence[StackNode]) -> list[StackNode]:
    """Without frames in which everybody of the frame above stands too, except the first and the last of such a run."""
    kept: list[StackNode] = []
    for number, node in enumerate(tree):
        above = tree[number - 1] if number else None
        below = tree[number + 1] if number + 1 < len(tree) else None
        same_above = above is not None and above.depth == node.depth - 1 and _same(above, node)
        same_below = below is not None and below.depth == node.depth + 1 and _same(below, node)
        if not (same_above and same_below):
            kept.append(node)
    return kept


def _same(one: StackNode, other: StackNode) -> bool:
    return one.ranks == other.ranks and one.others == other.others


def _branch(node: StackNode, width: int, say: Mapping[str, str]) -> str:
    who = _who(node.ranks, node.others, say)
    indent = " " * min(2 + 2 * node.depth, DEEPEST)
    room = max(12, width - len(indent) - len(who) - 3)
    return f"{indent}{shorten(neutral(node.frame), room)}  [{neutral(who)}]"
