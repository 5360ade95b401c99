"""What is drawn of a run stays small however long or wide it is, and nothing that stands out is lost in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from firstfault.metrics.plots import LINES, NAMED, plots_of
from firstfault.metrics.steps import Column, Steps
from firstfault.pipelines.page import page

if TYPE_CHECKING:
    from pathlib import Path


def table(values: dict[str, np.ndarray], *, rank: int | None = None, source: str = "a.log") -> Steps:
    count = len(next(iter(values.values())))
    if rank is not None:
        values = {**values, "rank": np.full(count, float(rank))}
    columns = {n: Column(v, np.ones(count, dtype=bool)) for n, v in values.items()}
    return Steps(source, np.arange(1, count + 1), np.ones(count, np.int64), columns)


def test_a_long_run_is_small_and_keeps_its_spike_and_its_end() -> None:
    count = 2_000_000
    loss = 2.0 + np.arange(count) % 97 / 1000
    loss[1_234_567] = 31.5
    loss[-1] = 0.125
    (plot,) = plots_of([table({"step": np.arange(1.0, count + 1), "loss": loss})], [])
    (line,) = plot.lines
    assert len(msgspec.json.encode(plot)) < 20_000
    assert dict(zip(line.x, line.y, strict=True))[1_234_568.0] == 31.5
    assert (line.x[0], line.x[-1], line.y[-1]) == (1.0, count, 0.125)
    assert (plot.low, plot.high) == (0.125, 31.5)


def test_many_ranks_are_one_spread_with_lines_of_those_that_are_named() -> None:
    steps = np.arange(1.0, 41)
    tables = [
        table({"step": steps, "step_time": np.full(40, 1.0 + (n == 777))}, rank=n, source=f"{n}.log")
        for n in range(1000)
    ]
    (plot,) = plots_of(tables, [], ranks={777, *range(20)})
    assert len(plot.lines) == NAMED
    assert plot.courses == 1000
    assert plot.spread is not None
    assert (plot.spread.low[5], plot.spread.middle[5], plot.spread.high[5]) == (1.0, 1.0, 2.0)
    assert len(msgspec.json.encode(plot)) < 20_000
    assert plots_of(tables[:LINES], [])[0].spread is None


def test_each_start_of_a_run_is_a_line_of_its_own() -> None:
    steps = np.concatenate([np.arange(1.0, 101), np.arange(80.0, 161)])
    again = table({"step": steps, "loss": np.linspace(3, 2, len(steps))})
    attempt = np.where(np.arange(len(steps)) < 100, 1, 2)
    (plot,) = plots_of([again._replace(attempt=attempt)], [])
    assert [(line.attempt, line.x[0], line.x[-1]) for line in plot.lines] == [(1, 1.0, 100.0), (2, 80.0, 160.0)]
    assert all(x == sorted(x) for x in (line.x for line in plot.lines))


def test_a_page_marks_the_first_bad_step_with_its_line(tmp_path: Path) -> None:
    bad = 150
    lines = [f"step {n} | loss: {'nan' if n >= bad else 2 + n % 7 / 100} | lr: 1e-4 |" for n in range(1, 201)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shown = page([tmp_path]).plots
    assert shown is not None
    (mark,) = next(p for p in shown.plots if p.column == "loss").marks
    assert (mark.kind, mark.x, mark.evidence.line, mark.evidence.text) == ("nan", bad, bad, lines[bad - 1])


def test_a_page_without_metrics_has_no_plots(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("RuntimeError: no kernel image is available\n", encoding="utf-8")
    assert page([tmp_path]).plots is None
