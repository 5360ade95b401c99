"""Which long steps are planned: those beside their own words in time, or at regular steps."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path


def kinds(folder: Path, text: str, name: str = "train.log") -> list[tuple[str, float | None]]:
    (folder / name).write_text(text, encoding="utf-8")
    return [(p.kind, p.step) for p in metrics_of([folder]).view.points]


def timed(stall: float, words: dict[int, list[tuple[float, str]]]) -> str:
    """Steps of a second, one of them long; words stand behind a step, so many seconds after it."""
    now, rows = dt.datetime(2026, 9, 3, 8, 0, 0, tzinfo=dt.timezone.utc), []
    for i in range(1, 301):
        now += dt.timedelta(seconds=1.0 + i % 5 / 50 + (stall if i == 160 else 0))
        rows.append(f"{now:%Y-%m-%d %H:%M:%S} step {i} | loss: 2.{i % 10} | step_time: {1 + i % 5 / 50:.2f}")
        rows += [f"{now + dt.timedelta(seconds=s):%Y-%m-%d %H:%M:%S} {word}" for s, word in words.get(i, [])]
    return "\n".join(rows) + "\n"


SAVING, SAVED = (
    "saving checkpoint at iteration 159 to /ckpt",
    "successfully saved checkpoint from iteration 159 to /ckpt",
)


def test_a_checkpoint_that_was_over_long_before_is_no_reason(tmp_path: Path) -> None:
    assert kinds(tmp_path, timed(600, {130: [(0, SAVING), (1, SAVED)]})) == [("stall", 160)]


def test_what_stands_still_after_the_checkpoint_was_saved_is_a_stall(tmp_path: Path) -> None:
    assert kinds(tmp_path, timed(600, {159: [(0, SAVING), (20, SAVED)]})) == [("stall", 160)]


@pytest.mark.parametrize("words", [[(0.0, SAVING)], [(0.0, SAVING), (590.0, SAVED)]])
def test_a_checkpoint_that_takes_the_whole_pause_is_planned(tmp_path: Path, words: list[tuple[float, str]]) -> None:
    assert kinds(tmp_path, timed(600, {159: words})) == [("checkpoint_pause", 160)]


def table(long: dict[int, float]) -> str:
    rows = [f"{i},{2 + i % 10 / 50},{long.get(i, 1 + i % 5 / 50)}" for i in range(1, 700)]
    return "\n".join(["step,loss,step_time", *rows]) + "\n"


def test_two_waits_for_one_timeout_are_no_plan(tmp_path: Path) -> None:
    assert kinds(tmp_path, table({217: 300.0, 431: 300.0}), "m.csv") == [("stall", 217), ("stall", 431)]


def test_two_as_long_at_round_steps_are_a_plan(tmp_path: Path) -> None:
    assert [k for k, _ in kinds(tmp_path, table({250: 300.0, 500: 303.0}), "m.csv")] == ["checkpoint_pause"]


def rounded(stall: float) -> str:
    """A bar that a logger writes once a minute, its count rounded to tens: every fifth step takes a minute by the clock."""
    at, lines = dt.datetime(2026, 5, 9, 3, tzinfo=dt.timezone.utc), []
    for i in range(1, 401):
        step = 5 * i
        at += dt.timedelta(seconds=45 + (stall if i == 300 else 0))
        count = f"{step}it" if step < 1000 else f"{step // 10 / 100:.2f}kit"
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S} - INFO - Progress on:train {count}/2.00kit rate:1.1it/s postfix:loss={3 - i / 500:.3f}\n")  # fmt: skip
    return "".join(lines)


def test_a_count_that_is_rounded_is_no_stall(tmp_path: Path) -> None:
    assert kinds(tmp_path, rounded(0)) == []


def test_a_stall_under_a_rounded_count_is_told(tmp_path: Path) -> None:
    ((kind, step),) = kinds(tmp_path, rounded(3000))
    assert kind == "stall"
    assert step is not None
    assert abs(step - 1500) <= 10
