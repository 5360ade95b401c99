"""Injected faults are found at their step, and healthy courses raise no alarm; the truth is the injection.

Seeds here are none of those on which the thresholds were set; `bench/metrics/quality.py` measures many more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from step_series import FAULTS, FOUND_AS, Course, course, odd_course

from firstfault.metrics.points import Point, alarms, find_points
from firstfault.metrics.read import read_source_steps
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.metrics.steps import Steps

SEEDS = range(9000, 9006)


def tables_of(run: Course, folder: Path) -> list[Steps]:
    for name, text in run.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with open_inputs([folder]) as opened:
        return [t for s in opened.sources if (t := read_source_steps(opened.store, s, workers=1)) is not None]


def is_found(run: Course, points: list[Point]) -> bool:
    kinds = FOUND_AS.get(str(run.fault), {run.fault})
    return any(
        p.kind.value in kinds
        and p.step is not None
        and run.step is not None
        and abs(p.step - run.step) <= 2 * run.interval
        and (run.rank is None or p.rank == run.rank)
        for p in points
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_injected_faults_are_found_at_their_step(fault: str, tmp_path: Path) -> None:
    found = 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = course(seed, fault)
        found += is_found(run, find_points(tables_of(run, folder)))
    assert found >= len(SEEDS) - 1


@pytest.mark.parametrize("seed", range(9100, 9130))
def test_healthy_courses_raise_no_alarm(seed: int, tmp_path: Path) -> None:
    assert alarms(find_points(tables_of(course(seed, None), tmp_path))) == []


@pytest.mark.parametrize("seed", range(9200, 9212))
def test_healthy_courses_in_awkward_forms_raise_no_alarm(seed: int, tmp_path: Path) -> None:
    assert alarms(find_points(tables_of(odd_course(seed, None), tmp_path))) == []


@pytest.mark.parametrize("fault", ["nan", "loss_rise", "grad_spike", "throughput_drop"])
def test_faults_in_awkward_forms_are_found(fault: str, tmp_path: Path) -> None:
    found = 0
    for seed in range(9300, 9304):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = odd_course(seed, fault)
        found += is_found(run, find_points(tables_of(run, folder)))
    assert found >= 3


def lines(tmp_path: Path, text: str, name: str = "train.log") -> list[Point]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with open_inputs([tmp_path]) as opened:
        return find_points(
            [t for s in opened.sources if (t := read_source_steps(opened.store, s, workers=1)) is not None]
        )


def test_the_line_of_a_nan_and_what_came_before(tmp_path: Path) -> None:
    rows = [f"step {i} loss: {2 + i % 3 / 100:.3f} grad_norm: {0.5 + i % 5 / 100:.3f}" for i in range(1, 91)]
    rows += [f"step {i} loss: 2.100 grad_norm: {i - 80}.000" for i in range(91, 95)]
    rows += [f"step {i} loss: nan grad_norm: nan" for i in range(95, 110)]
    points = lines(tmp_path, "\n".join(["start", *rows]) + "\n")
    (nan,) = [p for p in points if p.kind.value == "nan" and p.column == "loss"]
    assert (nan.step, nan.line, nan.lasts) == (95, 96, True)
    assert nan.before == ("gradient norm up to 14, usually 0.52",)


def test_single_overflows_of_a_dynamic_scale_are_no_alarm(tmp_path: Path) -> None:
    rows, scale = [], 65536
    for i in range(1, 400):
        skip = i in {3, 60, 61, 200, 333}
        scale = scale // 2 if skip else scale * 2 if i % 100 == 0 and scale < 65536 else scale
        norm = "inf" if skip else "0.800"
        rows.append(f"step {i} | loss: 2.{i % 7}00 | grad_norm: {norm} | loss_scale: {scale} | skipped: {int(skip)}")
    assert alarms(lines(tmp_path, "\n".join(rows) + "\n")) == []


def test_a_batch_that_grows_by_plan_is_no_slower_step(tmp_path: Path) -> None:
    rows = [
        f"step {i} | loss: 2.{i % 10} | global_batch_size: {64 if i < 150 else 256} | step_time: {(1 if i < 150 else 4) + i % 5 / 50:.3f}"
        for i in range(1, 300)
    ]
    assert alarms(lines(tmp_path, "\n".join(rows) + "\n")) == []


def test_pauses_at_regular_steps_are_planned_and_a_single_one_is_not(tmp_path: Path) -> None:
    times = dict.fromkeys(range(100, 600, 100), 90.0) | {444: 400.0}
    rows = [f"step {i} | loss: 2.{i % 10} | step_time: {times.get(i, 1 + i % 5 / 50):.3f}" for i in range(1, 600)]
    points = lines(tmp_path, "\n".join(rows) + "\n")
    assert [(p.kind.value, p.step) for p in points] == [("checkpoint_pause", 100), ("stall", 444)]


def test_a_rank_is_named_only_where_three_can_be_compared(tmp_path: Path) -> None:
    for rank in range(2):
        rows = [
            f"step: {i}, loss: 2.0, step_time: 1.0, data_time: {0.9 if rank and i > 50 else 0.01}"
            for i in range(1, 120)
        ]
        (tmp_path / f"rank{rank}.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with open_inputs([tmp_path]) as opened:
        tables = [t for s in opened.sources if (t := read_source_steps(opened.store, s, workers=1)) is not None]
    assert "slow_rank" not in {p.kind.value for p in find_points(tables)}


@pytest.mark.parametrize(("odd", "every", "told"), [((200,), 1, True), ((90, 200, 310), 1, False), ((90, 200, 310), 10, True)])  # fmt: skip
def test_single_batches_unlike_others_are_no_spike_where_they_come_again(
    tmp_path: Path, odd: tuple[int, ...], every: int, *, told: bool
) -> None:
    """Of a log of every step three such batches are how its data is; the mean over ten steps does not jump so."""
    rows = [
        f"step:{n * every}/9000 train_loss:{(6.2 if n in odd else 3.2) + n % 7 / 50:.4f} train_time:{n * 130}ms"
        for n in range(1, 400)
    ]
    points = lines(tmp_path, "\n".join(rows) + "\n")
    assert bool([p for p in points if p.kind.value == "loss_spike"]) is told


def test_losses_of_single_batches_spread_over_powers_of_ten_near_their_end(tmp_path: Path) -> None:
    """Fine-tuning that has learned its data by heart: the next batch may be a hundred times the last, and means nothing."""
    rows = [f"step {n} loss {10.0 ** (-3 + n * 7919 % 100 / 60):.6f}" for n in range(1, 400)]
    assert lines(tmp_path, "\n".join(rows) + "\n") == []
