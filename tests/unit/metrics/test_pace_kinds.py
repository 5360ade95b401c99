"""Paces that are how a run is, and those that became so: a level, a growth, a clock that stood still, a gap between epochs."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path


def kinds(folder: Path, lines: list[str]) -> list[tuple[str, float | None]]:
    (folder / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [(p.kind, p.step) for p in metrics_of([folder]).view.points]


def paced(seconds: np.ndarray) -> list[str]:
    return [f"step {i} | loss: {2 + i % 7 / 50:.3f} | step_time: {s:.3f}" for i, s in enumerate(seconds, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_slow_steps_from_the_start_are_no_growing_tail(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    two_lengths = np.where(rng.random(900) < 0.6, 1.0, 1.9) * (1 + 0.02 * np.abs(rng.normal(size=900)))
    for seconds in (two_lengths, np.exp(0.3 * rng.normal(size=900))):
        assert all(kind.endswith("_pause") for kind, _ in kinds(tmp_path, paced(seconds)))


@pytest.mark.parametrize("seed", range(4))
def test_steps_that_grow_bit_by_bit_are_told_from_where_it_begins(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grown = 1 + np.maximum(0, np.arange(900) - 300) / 600 * 0.8
    ((kind, step),) = kinds(tmp_path, paced(grown * (1 + 0.02 * np.abs(rng.normal(size=900)))))
    assert kind == "step_time_shift"
    assert step == pytest.approx(300, abs=40)


@pytest.mark.parametrize("seed", range(4))
def test_a_growth_that_is_small_is_none(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grown = 1 + np.arange(900) / 900 * 0.08
    assert kinds(tmp_path, paced(grown * (1 + 0.02 * np.abs(rng.normal(size=900))))) == []


def test_a_level_that_a_resume_goes_back_over_is_no_tail(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    level = np.where(np.arange(1, 900) > 200, 2.0, 1.0) * (1 + 0.02 * np.abs(rng.normal(size=899)))
    first = [f"{line} | tok/sec: {8000 * (1 + (i > 199)) / level[i]:.1f}" for i, line in enumerate(paced(level))]
    assert kinds(tmp_path, [*first[:258], *first]) == []


def clocked(
    epochs: int, gap: float, stall: dict[tuple[int, int], float] | None = None, *, whole: bool = False
) -> list[str]:
    """Batches of an epoch, the time of each in its line and nowhere else."""
    now, lines = dt.datetime(2026, 9, 3, 8, 0, 0, tzinfo=dt.timezone.utc), []
    for epoch in range(1, epochs + 1):
        now += dt.timedelta(seconds=gap)
        for batch in range(0, 10000, 50):
            now += dt.timedelta(seconds=45 + batch % 7 + (stall or {}).get((epoch, batch), 0.0))
            stamp = f"{now:%Y-%m-%d %H:%M:%S}" + ("" if whole else f",{batch % 1000:03d}")
            lines.append(f"{stamp} INFO [train.py:1072] (0/4) Epoch {epoch}, batch {batch}, loss[loss={2 + batch % 7 / 50:.3f}, over 18000.00 frames. ], lr: 2.9e-02")  # fmt: skip
    return lines


@pytest.mark.parametrize(("epochs", "gap"), [(4, 90.0), (4, 1500.0), (2, 2000.0)])
def test_the_gap_before_an_epoch_is_no_stall(tmp_path: Path, epochs: int, gap: float) -> None:
    assert all(kind.endswith("_pause") for kind, _ in kinds(tmp_path, clocked(epochs, gap)))


@pytest.mark.parametrize("whole", [False, True])
def test_what_stands_still_by_the_clock_alone_is_told(tmp_path: Path, whole: bool) -> None:
    found = kinds(tmp_path, clocked(4, 300.0, {(2, 6000): 3000.0}, whole=whole))
    assert ("stall", 6000.0) in found
    assert [kind for kind, _ in found if not kind.endswith("_pause")] == ["stall"]


def test_the_time_between_two_starts_is_no_stall(tmp_path: Path) -> None:
    def start(begin: int, hour: int) -> list[str]:
        at = dt.datetime(2026, 9, 3, hour, tzinfo=dt.timezone.utc)
        stamps = (at + dt.timedelta(seconds=2 * i) for i in range(200))
        return [
            f"{stamp:%Y-%m-%d %H:%M:%S} step {begin + i} | loss: {2 + i % 7 / 50:.3f} | tps: 6012"
            for i, stamp in enumerate(stamps)
        ]

    assert kinds(tmp_path, [*start(1, 8), *start(150, 11)]) == []


@pytest.mark.parametrize(("seconds", "found"), [(60.0, "checkpoint_pause"), (3000.0, "stall")])
def test_one_pause_at_a_round_step_is_a_checkpoint_while_it_is_short(
    tmp_path: Path, seconds: float, found: str
) -> None:
    pace = np.full(350, 1.0)
    pace[199] = seconds
    assert kinds(tmp_path, paced(pace)) == [(found, 200.0)]
