"""The view of flight-recorder dumps as text: a row for each process group that is stuck, and what differs.

Must not infer anything; what came from a dump is made neutral.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages, translator
from firstfault.model.words import CoverageState
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.phrases import names, runs
from firstfault.report.text import columns, wrap
from firstfault.report.viewed import foot_of, head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from firstfault.model.views import GroupRow, RecorderView
    from firstfault.redact import Redacted

HEAD = ("group", "ranks", "issued", "stuck_at", "inside", "waits_for")
WIDEST = (40, 5, 15, 28, 14, 18)
NARROWEST = 12
"""Columns of the name of a group, at least."""
ORDER = ("absent", "frozen", "unseen", "unpaired", "busy")
GROUPS = 40
"""Rows shown at most."""
ODD = 8
"""Files with remarks that are named at most."""


def render_recorder(
    safe: Redacted[RecorderView], *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """The view for a terminal or a pipe: verdict, table of groups, first difference, entries that show it.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether groups with nothing unfinished are shown too.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    view, say, width = localised(safe, language).content, messages(language), max(width, 40)
    tell = translator(language)
    lines = [*head_of(view, say, width), "", *_table(view.groups, width, say, tell, every=every)]
    lines += _difference(view, width, say, tell)
    lines += _entries(view, width, say)
    lines += ["", *foot_of(view, say, width, map(tell, _remarks(view, say)))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(
    groups: Sequence[GroupRow], width: int, say: Mapping[str, str], tell: Callable[[str], str], *, every: bool
) -> list[str]:
    shown = [g for g in groups if every or g.stuck is not None or g.behind or g.without_dump or not g.states]
    quiet = len(groups) - len(shown)
    shown.sort(key=_order)
    most = len(shown) if every else GROUPS
    rows = [_row(g, say) for g in shown[:most]]
    head = tuple(say[f"recorder.{name}"] for name in HEAD)
    lines = []
    if rows:
        sizes = [min(size, max(columns(row[i]) for row in (head, *rows))) for i, size in enumerate(WIDEST)]
        sizes[0] = max(NARROWEST, min(sizes[0], width - sum(sizes[1:]) - 2 * (len(sizes) - 1)))
        for row in (head, *rows):
            cells = [shorten(c, s) + " " * (s - columns(shorten(c, s))) for c, s in zip(row, sizes, strict=True)]
            line = "  ".join(cells).rstrip()
            lines += [line] if columns(line) <= width else wrap(line, width)
    rest = []
    if len(shown) > most:
        rest.append(f"{len(shown) - most} more stuck groups")
    if quiet:
        rest.append(f"{quiet} group{'s' if quiet > 1 else ''} with nothing unfinished")
    if rest:
        lines.append(f"… {say['value.and']}{say['mark.comma'].join(map(tell, rest))} (`--all`)")
    return lines or [tell("no process group is in the dumps")]


def _order(group: GroupRow) -> tuple[int, bool]:
    """Groups in which somebody is waited for come first."""
    why = None if group.stuck is None else group.stuck.why
    return (ORDER.index(why) if why in ORDER else len(ORDER), group.stuck is None)


def _row(group: GroupRow, say: Mapping[str, str]) -> tuple[str, ...]:
    name = group.name if not group.description else f"{group.name} {group.description}"
    issued = "?" if group.issued_least is None else str(group.issued_least)
    if group.issued_most != group.issued_least:
        issued += f"-{group.issued_most}"
    stuck = group.stuck
    if stuck is None:
        return neutral(name), str(len(group.members)), issued, "" if group.states else say["recorder.not_told"], "", ""
    awaited = (
        f"{runs(stuck.awaited, say, most=4)} ({say.get(f'awaited.{stuck.why}', stuck.why)})"
        if stuck.awaited
        else say["recorder.nobody"]
    )
    inside = runs(stuck.waiting, say, most=3)
    return neutral(name), str(len(group.members)), issued, neutral(f"{stuck.op} {stuck.number}"), inside, awaited


def _difference(view: RecorderView, width: int, say: Mapping[str, str], tell: Callable[[str], str]) -> list[str]:
    found = view.difference
    if found is None:
        return []
    first = tell(f"First difference: number {found.number} of {found.group}, in {found.kind}")
    lines = ["", *wrap(neutral(first), width)]
    for side in found.sides:
        odd = " (odd)" if set(side.ranks) <= set(found.odd) else ""
        place = f", at {side.place}" if side.place else ""
        told = tell(f"{side.what} by rank {runs(side.ranks, say)}{odd}{place}")
        lines += ["  " + line for line in wrap(neutral(told), width - 2)]
    return lines


def _entries(view: RecorderView, width: int, say: Mapping[str, str]) -> list[str]:
    if not view.key_entries:
        return []
    lines = ["", say["recorder.entries"]]
    for entry in view.key_entries:
        text = neutral(f"{entry.file}: {entry.text}")
        lines += ["  " + line for line in wrap(shorten(text, 3 * width), width - 2)]
    return lines


def _remarks(view: RecorderView, say: Mapping[str, str]) -> list[str]:
    """Who left a dump, and what was odd about files that were read."""
    total = len(view.expected) if view.told else f"at least {len(view.expected)}"
    parts = [f"{len(view.dumps)} of {total} ranks left a dump"]
    if view.missing:
        parts.append(f"no dump of rank {runs(view.missing, say)}")
    if view.earlier:
        parts.append(
            f"left out, as they ended before the others began (an earlier start, or clocks apart): {names(view.earlier, say, most=ODD)}"
        )
    odd = [c for c in view.coverage if c.reason and c.state is CoverageState.READ]
    parts += [f"{c.file}: {c.reason}" for c in odd[:ODD]]
    if len(odd) > ODD:
        parts.append(f"and {len(odd) - ODD} more files with remarks")
    return parts
