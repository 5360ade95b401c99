"""Curves of training metrics as a picture, by matplotlib (an extra). Must not be imported where no picture is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from firstfault.report.neutral import neutral

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.metrics import MetricsView
    from firstfault.redact import Redacted

MOST_PANELS = 12
PLANNED = frozenset({"checkpoint_pause", "evaluation_pause"})


def draw_metrics(safe: Redacted[MetricsView], path: Path) -> None:
    """One panel for each column, a line for each file and rank, and a mark at the first step of each abnormal point.

    Args:
        safe: what went through the door.
        path: of the picture; its end tells the form.
    """
    view = safe.content
    columns = list(dict.fromkeys(c.column for c in view.curves))[:MOST_PANELS]
    # Same input, same bytes: no date, and names of elements that do not change.
    with mpl.rc_context({"svg.hashsalt": "firstfault", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(10, max(2.2, 2.2 * len(columns))), layout="constrained")
        panels = figure.subplots(max(len(columns), 1), 1, squeeze=False)[:, 0]
        for panel, column in zip(panels, columns, strict=False):
            for curve in (c for c in view.curves if c.column == column):
                rank = "" if curve.rank is None else f" rank {curve.rank}"
                y = [float("nan") if v is None else v for v in curve.y]
                panel.plot(curve.x, y, linewidth=0.9, label=neutral(f"{curve.file}{rank}"))
            for point in view.points:
                if point.column == column and point.step is not None and point.kind not in PLANNED:
                    panel.axvline(point.step, color="red", linewidth=0.8, linestyle="--")
                    panel.annotate(
                        point.kind,
                        (point.step, 1.0),
                        xycoords=("data", "axes fraction"),
                        fontsize=7,
                        color="red",
                        va="bottom",
                    )
            panel.set_ylabel(column)
            if len(view.curves) > len(columns) and len(panel.get_lines()) <= 10:
                panel.legend(fontsize=7, loc="upper right")
        panels[-1].set_xlabel("step")
        figure.savefig(
            path, metadata={"Date": None} if path.suffix.lower() == ".svg" else {"Software": "firstfault"}, dpi=110
        )
