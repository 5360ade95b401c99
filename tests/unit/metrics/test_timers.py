"""Timer blocks of Megatron-LM: every rank's times, and the longest over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.metrics.points import Kind, find_points
from firstfault.metrics.read import read_source_steps
from firstfault.metrics.timers import read_timers
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.metrics.steps import Steps


def iteration(step: int, prefix: str = "") -> str:
    return f"{prefix} iteration {step:8d}/   50000 | elapsed time per iteration (ms): 4100.0 | lm loss: 2.29E+00 |\n"


def ranks(times: dict[str, list[float]], prefix: str = "") -> str:
    text = f"{prefix}times across ranks (ms):\n"
    for name, values in times.items():
        text += f"{prefix}    {name}:\n" + "".join(f"{prefix}     rank {n:2d}: {v:.2f}\n" for n, v in enumerate(values))
    return text


def tables(folder: Path, text: str) -> list[Steps]:
    (folder / "train.log").write_text(text, encoding="utf-8")
    with open_inputs([folder]) as opened:
        (source,) = opened.sources
        read = (read_source_steps(opened.store, source), read_timers(opened.store, source))
    return [t for t in read if t is not None]


@pytest.mark.parametrize("prefix", ["", "7: ", "[default7]:"])
def test_times_of_every_rank(tmp_path: Path, prefix: str) -> None:
    text = iteration(100, prefix) + ranks({"forward-compute": [10, 20, 30], "optimizer": [1, 2, 3.5]}, prefix)
    _, timers = tables(tmp_path, text)
    assert timers.values("rank").tolist() == [0, 1, 2]
    assert timers.values("step").tolist() == [100] * 3
    assert timers.values("forward_time").tolist() == pytest.approx([0.01, 0.02, 0.03])
    assert timers.values("optimizer_time").tolist() == pytest.approx([0.001, 0.002, 0.0035])
    assert timers.line.tolist() == [4, 5, 6]


def test_the_longest_of_all_ranks(tmp_path: Path) -> None:
    text = (
        iteration(100)
        + "(min, max) time across ranks (ms):\n"
        + "    forward-compute ................................: (12.34, 56.78)\n"
        + "    backward-compute ...............................: (20.00, 60.00)\n"
        + "    params-all-gather ..............................: (0.10, 0.20)\n"
        + iteration(200)
        + "max time across ranks (ms):\n    forward-compute ................................: 57.00\n"
    )
    _, timers = tables(tmp_path, text)
    assert "rank" not in timers.columns
    assert timers.values("step").tolist() == [100, 200]
    assert timers.values("forward_time").tolist() == pytest.approx([0.05678, 0.057])
    assert timers.columns["backward_time"].there.tolist() == [True, False]


@pytest.mark.parametrize("phase", ["forward-compute", "backward-compute", "optimizer", "batch-generator"])
def test_a_slow_rank_in_few_blocks(tmp_path: Path, phase: str) -> None:
    """Rank 5 takes three times as long from step 500 to the end, in four blocks."""
    text = ""
    for n, step in enumerate(range(100, 900, 100)):
        base = {"forward-compute": 900.0, "backward-compute": 1800.0, "optimizer": 600.0, "batch-generator": 500.0}
        times = {name: [v + (n * 7 + r * 3) % 11 for r in range(8)] for name, v in base.items()}
        if step >= 500:
            times[phase][5] *= 3
        text += iteration(step) + ranks(times)
    points = [p for p in find_points(tables(tmp_path, text)) if p.kind is Kind.SLOW_RANK]
    assert [(p.rank, p.step) for p in points] == [(5, 500)]
    assert points[0].column == {"forward-compute": "forward_time", "backward-compute": "backward_time", "optimizer": "optimizer_time", "batch-generator": "data_time"}[phase]  # fmt: skip


def test_ranks_of_a_sound_run_are_none_slow(tmp_path: Path) -> None:
    text = ""
    for n, step in enumerate(range(100, 1300, 100)):
        text += iteration(step) + ranks({"forward-compute": [900.0 + (n * 7 + r * 13) % 40 for r in range(8)]})
    assert not [p for p in find_points(tables(tmp_path, text)) if p.kind is Kind.SLOW_RANK]


def test_a_log_without_timers_has_no_table_of_them(tmp_path: Path) -> None:
    assert len(tables(tmp_path, "".join(iteration(n) for n in range(1, 30)))) == 1
