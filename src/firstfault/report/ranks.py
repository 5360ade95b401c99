"""The table of ranks as text and as CSV.

Folds ranks that ended alike; must not infer anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.i18n import messages
from firstfault.report import phrases
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.tabular import aligned, separated
from firstfault.report.text import wrap
from firstfault.report.viewed import foot_of, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.model.views import GroupCell, Proof, RankLine, RankTable
    from firstfault.redact import Redacted
    from firstfault.report.tabular import Cell

FOLD_FROM = 9
"""Ranks from which on equal ones share a row."""
PLACE = 32
"""Characters of a file and line in a row; `--evidence` shows it whole."""
HOSTS = 4
"""Hosts named in one folded row; of more their number is said."""
STEPS = 4
"""Different last steps up to which ranks of different ones have rows of their own."""
_COMPARED = ("group", "last_enqueued", "last_completed", "op", "seq", "numel_in", "numel_out", "in_flight")
CSV_HEAD = (
    "rank", "local_rank", "node_rank", "host", "state", "part", "outlier", "group", "last_enqueued", "last_completed",
    "op", "seq", "numel_in", "numel_out", "timeout_ms", "ran_ms", "in_flight", "last_step", "phase", "note", "file", "line",
)  # fmt: skip
"""Columns of the CSV; a rank that is stuck in several groups has one row for each."""


class Shown(NamedTuple):
    """One row of the text: ranks that ended alike."""

    lines: tuple[RankLine, ...]

    @property
    def first(self) -> RankLine:
        """The rank whose lines are quoted."""
        return self.lines[0]


def render_ranks(
    safe: Redacted[RankTable],
    *,
    width: int = 100,
    every: bool = False,
    evidence: bool = False,
    language: str = "en",
) -> str:
    """The table of ranks for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether each rank has a row of its own, however many there are.
        evidence: whether the lines behind each row stand below it.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    table, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = head_of(table, say, width)
    lines += wrap(neutral(_completeness(table, say)), width)
    if table.left_out:
        told = say["ranks.left_out"].format(n=table.left_out, all=table.left_out + len(table.ranks))
        lines += wrap(told, width)
    rows = folded(table.ranks) if len(table.ranks) >= FOLD_FROM and not every else [Shown((r,)) for r in table.ranks]
    lines.append("")
    if not rows:
        lines.append(say["ranks.none"])
    elif evidence:
        for row in rows:
            lines += aligned(_head(say), _cells(row, say), width)
            lines += [line for proof in row.first.proof for line in _quote(proof, say, width)]
    else:
        lines += aligned(_head(say), [cells for row in rows for cells in _cells(row, say)], width)
    lines.append("")
    lines += [line for text in _legend(table, say) for line in wrap(neutral(text), width)]
    lines += foot_of(table, say, width, _remarks(table, rows, say))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def folded(ranks: Sequence[RankLine]) -> list[Shown]:
    """Ranks that ended alike as one row each, in the order of their first one; host, local rank and line may differ."""
    found: dict[tuple[object, ...], list[RankLine]] = {}
    few = len({r.last_step for r in ranks}) <= STEPS
    for rank in ranks:
        cells = tuple(tuple(getattr(g, f) for f in _COMPARED) for g in rank.groups)
        step = rank.last_step if few else rank.last_step is None
        key = (rank.state, rank.part, rank.outlier, cells, rank.phase, rank.note, step)
        found.setdefault(key, []).append(rank)
    return [Shown(tuple(lines)) for lines in found.values()]


def _head(say: Mapping[str, str]) -> list[str]:
    names = ("rank", "local", "host", "state", "group", "counters", "stuck", "elements", "step", "phase", "note", "line")  # fmt: skip
    return [say[f"column.{name}"] for name in names]


_GROUP = ("group", "counters", "stuck", "elements")


def _cells(row: Shown, say: Mapping[str, str]) -> list[list[str]]:
    """A row as text cells; further groups of it on lines of their own."""
    first = row.first
    one = len(row.lines) == 1
    ranks = str(first.rank) if one else f"{phrases.runs((r.rank for r in row.lines), say, most=8)} ({len(row.lines)})"
    before = [
        ranks,
        str(first.local_rank) if one and first.local_rank is not None else "",
        _hosts(row, say),
        _state(first),
    ]
    behind = [_steps(row), "" if first.phase is None else str(first.phase), first.note, _place(first)]
    groups = [_group(g) for g in first.groups] or [[""] * len(_GROUP)]
    lines = [[*before, *groups[0], *behind]]
    lines += [[""] * len(before) + more + [""] * len(behind) for more in groups[1:]]
    return lines


def _group(cell: GroupCell) -> list[str]:
    stuck = " ".join(str(x) for x in (cell.op, cell.seq) if x is not None)
    sizes = [str(n) for n in dict.fromkeys((cell.numel_in, cell.numel_out)) if n is not None]
    counters = ["?" if n is None else str(n) for n in (cell.last_enqueued, cell.last_completed)]
    return [_short(cell.group), "" if counters == ["?", "?"] else "/".join(counters), stuck, "/".join(sizes)]


def _state(rank: RankLine) -> str:
    """How a rank ended; in a hang its part, which says more, and that it is the one that failed or came late."""
    if rank.part is None or rank.part == rank.state:
        return rank.state
    return f"{rank.state}, {rank.part}" if rank.state in {"failed", "late"} else rank.part


def _short(group: str) -> str:
    """A group's name without its description, which the legend gives."""
    return group.partition(" (")[0]


def _legend(table: RankTable, say: Mapping[str, str]) -> list[str]:
    """What the shown groups are called."""
    names = dict.fromkeys(g.group for r in table.ranks for g in r.groups if " (" in g.group)
    kinds: dict[str, list[str]] = {}
    for name in names:
        short, _, described = name.partition(" (")
        kinds.setdefault(described.removesuffix(")"), []).append(short)
    parts = [f"{phrases.names(sorted(shorts, key=_numbered), say, most=8)}: {kind}" for kind, shorts in kinds.items()]
    return [say["ranks.groups"].format(list=say["mark.and"].join(parts))] if parts else []


def _numbered(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (1 << 62, name)


def _hosts(row: Shown, say: Mapping[str, str]) -> str:
    hosts = list(dict.fromkeys(r.host for r in row.lines if r.host is not None))
    return ", ".join(hosts) if len(hosts) <= HOSTS else say["value.many_hosts"].format(n=len(hosts))


def _steps(row: Shown) -> str:
    steps = [r.last_step for r in row.lines if r.last_step is not None]
    if not steps:
        return ""
    return str(steps[0]) if min(steps) == max(steps) else f"{min(steps)}-{max(steps)}"


def _place(rank: RankLine) -> str:
    if not rank.proof:
        return ""
    where = phrases.place(rank.proof[0].evidence)
    return where if len(where) <= PLACE else "…" + where[1 - PLACE :]


def _quote(proof: Proof, say: Mapping[str, str], width: int) -> list[str]:
    """The cells that a line states, its place, and the line."""
    cells = list(dict.fromkeys(_cell_name(name, say) for name in proof.states))
    head = say["ranks.states"].format(cells=", ".join(cells), place=phrases.place(proof.evidence))
    text = shorten(neutral(proof.evidence.text).strip(), 2 * (width - 6))
    lines = ["    " + line for line in wrap(neutral(head), width - 4)]
    return [*lines, *("      " + line for line in wrap(text, width - 6))]


_COLUMN_OF = {
    "op": "stuck",
    "seq": "stuck",
    "numel_in": "elements",
    "numel_out": "elements",
    "timeout_ms": "timeout",
    "ran_ms": "ran",
    "in_flight": "stuck",
    "last_enqueued": "counters",
    "last_completed": "counters",
    "local_rank": "local",
    "node_rank": "node",
    "last_step": "step",
}
"""Cells of the published table -> the column in which the text shows them, where the two have different names."""


def _cell_name(cell: str, say: Mapping[str, str]) -> str:
    """The head of the column in which a cell of the published table stands: `groups.0.op` is `stuck in`."""
    name = cell.rpartition(".")[2]
    return say[f"column.{_COLUMN_OF.get(name, name)}"]


def _completeness(table: RankTable, say: Mapping[str, str]) -> str:
    """Which ranks were seen and which were not, as the diagnosis says it."""
    parts = phrases.present(table, say)
    if table.silent:
        parts.append(say["missing.silent"].format(list=phrases.who(table.silent, [], say)))
    return f"{say['label.seen_ranks']}{say['mark.colon']}{say['mark.and'].join(parts)}" if parts else ""


def _remarks(table: RankTable, rows: Sequence[Shown], say: Mapping[str, str]) -> list[str]:
    remarks = []
    if len(rows) < len(table.ranks):
        remarks.append(say["ranks.folded"].format(n=len(table.ranks), rows=len(rows)))
    return remarks


def render_ranks_csv(safe: Redacted[RankTable]) -> str:
    """The table of ranks as CSV: a row for each rank and group, the columns of `CSV_HEAD`, ending in a newline."""
    return separated(CSV_HEAD, (row for rank in safe.content.ranks for row in rank_rows(rank)))


def rank_rows(rank: RankLine) -> list[list[Cell]]:
    """The rows of one rank with the columns of `CSV_HEAD`: one for each process group in which it is stuck, else one."""
    place = rank.proof[0].evidence if rank.proof else None
    before: list[Cell] = [rank.rank, rank.local_rank, rank.node_rank, rank.host, rank.state, rank.part, rank.outlier]
    behind: list[Cell] = [rank.last_step, None if rank.phase is None else str(rank.phase), rank.note]
    behind += [None, None] if place is None else [place.file, place.line]
    inside: list[list[Cell]] = [
        [g.group, g.last_enqueued, g.last_completed, g.op, g.seq, g.numel_in, g.numel_out, g.timeout_ms, g.ran_ms, g.in_flight]
        for g in rank.groups
    ]  # fmt: skip
    return [[*before, *cells, *behind] for cells in inside or [[None] * 10]]
