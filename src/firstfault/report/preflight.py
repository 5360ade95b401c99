"""The answer of the checks before a run, as text and as JUnit: what would stop the job first, then what to look at.

Must not judge anything or order checks anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.hostlist import compress
from firstfault.i18n import messages
from firstfault.preflight.job import spans
from firstfault.report.junit import Check, suite_of
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap, wrap_told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.checks import CheckResult, Preflight
    from firstfault.redact import Redacted

NODES = 16
"""Machines up to which they are listed unless all are asked for."""


def render_preflight(safe: Redacted[Preflight], *, width: int = 100, every: bool = False, language: str = "en") -> str:
    """The checks for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether what is in order, and why each check is made, is told too.
        language: of the sentences and fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(f"{say[f'preflight.{found.state}']}  {found.summary}"), width)
    if found.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    for state, title in (("fail", "preflight.fails"), ("warn", "preflight.warns")):
        shown = [c for c in found.checks if c.state == state]
        lines += ["", say[title]] if shown else []
        for one in shown:
            lines += _told(one, found, say, width, every=every)
    for state, title in (("not_checkable", "preflight.unchecked"), ("ok", "preflight.fine")):
        rest = [c for c in found.checks if c.state == state]
        if not rest:
            continue
        if every:
            lines += ["", say[title]]
            for one in rest:
                lines += _told(one, found, say, width, every=True)
        else:
            lines += ["", *_hung(f"{say[title]}: {', '.join(dict.fromkeys(c.id for c in rest))}", width, 0, 2)]
    lines += _nodes(found, say, width, every=every)
    if not every:
        lines += ["", *wrap_told(say["preflight.more"], width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _told(one: CheckResult, found: Preflight, say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    where = _where(one, found, say)
    lines = _hung(f"{one.id}  {one.seen}" + (f" ({where})" if where else ""), width, 2, 6)
    if one.fix:
        lines += [f"      {line}" for line in wrap_told(neutral(say["preflight.todo"].format(fix=one.fix)), width - 6)]
    if every or one.state == "fail":
        if one.why:
            lines += _hung(say["preflight.why"].format(why=one.why), width, 6, 8)
        if one.prevents:
            lines += _hung(say["preflight.prevents"].format(names=", ".join(one.prevents)), width, 6, 8)
    return lines


def _where(one: CheckResult, found: Preflight, say: Mapping[str, str]) -> str:
    """Of which machines and ranks it is true, where that is not all there are."""
    parts = []
    if one.hosts and 0 < len(one.hosts) < len(found.nodes):
        parts.append(say["preflight.on"].format(where=compress(one.hosts)))
    if one.ranks and one.state in {"warn", "fail"} and found.reported > 1:
        parts.append(say["preflight.ranks"].format(ranks=spans(one.ranks)))
    return ", ".join(parts)


def _hung(text: str, width: int, indent: int, more: int) -> list[str]:
    """A text indented, its later lines more."""
    first, *rest = wrap(neutral(text), width - more)
    return [" " * indent + first, *(" " * more + line for line in rest)]


def _nodes(found: Preflight, say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    if len(found.nodes) < 2 or (len(found.nodes) > NODES and not every):
        return []
    head = [say["column.host"], say["column.ranks"], say["column.clock"], say["column.zone"]]
    rows = [
        [n.host, spans(n.ranks) or "-", "-" if n.clock_s is None else f"{n.clock_s:+.1f} s", n.zone or "-"]
        for n in found.nodes
    ]
    return ["", say["preflight.nodes"], *aligned(head, rows, width)]


def render_preflight_junit(safe: Redacted[Preflight]) -> str:
    """The checks as one JUnit suite: one case a result; a warning passes and says so, what cannot be checked is skipped.

    Returns:
        XML of UTF-8, ending in a newline.
    """
    found = safe.content
    checks = []
    for one in found.checks:
        where = f" ({compress(one.hosts)})" if one.hosts and one.state != "ok" else ""
        group, _, name = one.id.partition(".")
        body = "\n".join(neutral(t) for t in (one.seen, one.fix, one.why, ", ".join(one.prevents)) if t)
        checks.append(Check(group, name + where, one.state, one.id, one.seen, body))
    return suite_of("firstfault.preflight", checks, found.redaction)
