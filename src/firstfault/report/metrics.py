"""Training metrics as text: what begins to go wrong, what it means together, curves as sparklines, tables that were read.

Must not infer anything; log text is made neutral.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report import phrases
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.model.metrics import Curve, MetricFinding, MetricPoint, MetricsView, RunComparison
    from firstfault.redact import Redacted

BARS = "▁▂▃▄▅▆▇█"
GAP_MARK = "×"
"""Stands for values that are no number."""
CURVES, POINTS, EXPECTED = 12, 12, 4
"""Shown unless all are asked for."""
PLANNED = frozenset({"checkpoint_pause", "evaluation_pause"})


def render_metrics(safe: Redacted[MetricsView], *, width: int = 100, every: bool = False, language: str = "en") -> str:
    """The metrics for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether all points and curves are shown.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    view, say, width = localised(safe, language).content, messages(language), max(width, 40)
    if not view.tables:
        return "\n".join(wrap(say["metrics.none"], width)) + "\n"
    alarms = [p for p in view.points if p.kind not in PLANNED]
    head = "metrics.well" if not alarms else "metrics.wrong_one" if len(alarms) == 1 else "metrics.wrong"
    lines = wrap(say[head].format(n=len(alarms)), width)
    if view.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    shown = alarms if every else alarms[:POINTS]
    for point in shown:
        lines += ["", *_point(point, width)]
    if len(shown) < len(alarms):
        lines += ["", say["metrics.more"].format(n=len(alarms) - len(shown))]
    for finding in view.findings:
        lines += ["", *_finding(finding, say, width)]
    planned = [p for p in view.points if p.kind in PLANNED]
    if planned:
        lines += ["", *(line for p in planned[:EXPECTED] for line in wrap(neutral(p.summary), width))]
        if len(planned) > EXPECTED:
            lines.append(say["value.more"].format(n=len(planned) - EXPECTED))
    lines += _curves(view, say, width, every=every)
    lines += ["", *_tables(view, say, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _point(point: MetricPoint, width: int) -> list[str]:
    lines = wrap(neutral(point.summary), width)
    if point.before:
        lines += ["  " + line for line in wrap(neutral("; ".join(point.before)), width - 2)]
    lines.append("  " + neutral(phrases.place(point.evidence)))
    return lines + [
        "    " + line for line in wrap(shorten(neutral(point.evidence.text), max(40, 2 * width)), width - 4)
    ]


def _finding(finding: MetricFinding, say: Mapping[str, str], width: int) -> list[str]:
    lines = wrap(neutral(f"{finding.claim} ({finding.strength})"), width)
    for key, texts in (
        ("metrics.for", finding.supports),
        ("metrics.against", finding.against),
        ("metrics.next", finding.next),
    ):
        for text in texts:
            first, *rest = wrap(neutral(f"{say[key]} {text}"), width - 4)
            lines += ["  " + first, *("    " + line for line in rest)]
    return lines


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Values as one row of bars, the highest of each stretch; `×` where one is no number."""
    if not values:
        return ""
    width = min(width, len(values))
    cells = [
        values[i * len(values) // width : max((i + 1) * len(values) // width, i * len(values) // width + 1)]
        for i in range(width)
    ]
    # The first steps of a run are slow and its first loss is high: they would flatten all that follows.
    known = [v for v in values[len(values) // 20 :] if v is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    span = (high - low) or 1.0
    drawn = []
    for cell in cells:
        told = [v for v in cell if v is not None]
        drawn.append(GAP_MARK if len(told) < len(cell) else BARS[max(0, min(7, int((max(told) - low) / span * 8)))])
    return "".join(drawn)


def _curves(view: MetricsView, say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    curves = [c for c in view.curves if len(c.x) > 2]
    shown = curves if every else _telling(curves, view)[:CURVES]
    if not shown:
        return []
    several = len(view.tables) > 1
    rows = [[_name(c, several=several), *_ends(c), sparkline(c.y, max(16, width - 58))] for c in shown]
    head = [say[f"metrics.{n}"] for n in ("curve", "lowest", "highest", "course")]
    lines = ["", *(line for line in _plain(head, rows, width))]
    if len(shown) < len(curves):
        lines.append(say["metrics.more_curves"].format(n=len(curves) - len(shown)))
    return lines


def _telling(curves: Sequence[Curve], view: MetricsView) -> list[Curve]:
    """Curves in which something is abnormal first."""
    bad = {(p.evidence.file, p.column, p.rank) for p in view.points if p.kind not in PLANNED}
    return sorted(curves, key=lambda c: (c.file, c.column, c.rank) not in bad)


def _name(curve: Curve, *, several: bool) -> str:
    rank = "" if curve.rank is None else f" {curve.rank}"
    return neutral(f"{curve.column}{rank}" + (f" {curve.file[-24:]}" if several else ""))


def _ends(curve: Curve) -> tuple[str, str]:
    known = [v for v in curve.y if v is not None]
    return (f"{min(known):.4g}", f"{max(known):.4g}") if known else ("", "")


def _plain(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    sizes = [max(len(r[i]) for r in [head, *rows]) for i in range(3)]
    return ["  ".join([*(c.ljust(s) for c, s in zip(r, sizes, strict=False)), r[3]])[:width] for r in [head, *rows]]


def _tables(view: MetricsView, say: Mapping[str, str], width: int) -> list[str]:
    head = [say[f"metrics.{n}"] for n in ("file", "rows", "ranks", "starts", "steps", "columns")]
    rows = []
    for t in view.tables[:20]:
        ranks = (
            say["metrics.unnamed"].format(n=t.unnamed)
            if t.unnamed
            else ""
            if not t.ranks
            else f"{t.ranks[0]}"
            if len(t.ranks) == 1
            else f"{t.ranks[0]} … {t.ranks[-1]}"
        )
        steps = "" if t.first_step is None else f"{t.first_step:g}-{t.last_step:g}"
        rows.append([t.file, f"{t.rows:,}", ranks, str(t.attempts), steps, ", ".join(t.columns)])
    lines = aligned(head, rows, width)
    rest = len(view.tables) - len(rows)
    mixed = [t for t in view.tables if t.unnamed]
    if mixed:
        lines += ["", *wrap(neutral(say["metrics.mixed"].format(file=mixed[0].file, n=mixed[0].unnamed)), width)]
    return [*lines, say["value.more"].format(n=rest)] if rest else lines


def render_run_comparison(safe: Redacted[RunComparison], *, width: int = 100, language: str = "en") -> str:
    """Two runs side by side: what differs first, then all differences by area.

    Args:
        safe: what went through the door.
        width: columns.
        language: of the fixed words.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(found.summary), width)
    area = ""
    for difference in found.differences:
        if difference.area != area:
            area = difference.area
            lines += ["", say[f"compare.{area}"]]
        text = f"{difference.what}: {difference.first or say['diff.none']} -> {difference.second or say['diff.none']}"
        first, *rest = wrap(neutral(text), width - 4)
        lines += ["  " + first, *("    " + line for line in rest)]
    if found.missing:
        lines += [
            "",
            say["compare.missing"],
            *("  " + line for m in found.missing for line in wrap(neutral(m), width - 2)),
        ]
    return "\n".join(line.rstrip() for line in lines) + "\n"
