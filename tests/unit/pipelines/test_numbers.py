"""What the metrics tell beside a time limit or a hang: it is said, and changes neither category nor culprits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault import diagnose

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = "slurmstepd: error: *** JOB 4711 ON node-01 CANCELLED AT 2026-08-22T20:00:00 DUE TO TIME LIMIT ***\n"


def steps(*, slow_from: int = 10**6, nan_from: int = 10**6, well_again: int = 10**6, until: int = 200) -> str:
    text, clock = "", 0.0
    for n in range(1, until + 1):
        seconds = 12.0 if slow_from <= n < well_again else 3.0 + n % 5 / 100
        clock += seconds
        loss = "nan" if nan_from <= n < well_again else f"{2 + n % 7 / 100:.4f}"
        stamp = f"2026-08-22 {10 + int(clock) // 3600:02d}:{int(clock) // 60 % 60:02d}:{int(clock) % 60:02d}"
        text += f"[{stamp}] step {n} | loss: {loss} | grad_norm: 0.5 | step_time: {seconds:.3f} |\n"
    return text


def told(folder: Path, text: str, *, apart: bool = False) -> tuple[str, str]:
    if apart:
        (folder / "job.out").write_text(text, encoding="utf-8")
        (folder / "job.err").write_text(LIMIT, encoding="utf-8")
    else:
        (folder / "job.log").write_text(text + LIMIT, encoding="utf-8")
    verdict = diagnose(folder).verdict
    assert not verdict.culprits.ranks
    return str(verdict.category.value if hasattr(verdict.category, "value") else verdict.category), verdict.summary


@pytest.mark.parametrize("apart", [False, True])
def test_a_slow_window_before_a_time_limit(tmp_path: Path, *, apart: bool) -> None:
    category, summary = told(tmp_path, steps(slow_from=120), apart=apart)
    assert category == "infrastructure"
    assert "from step 120 on" in summary


@pytest.mark.parametrize("apart", [False, True])
def test_no_numbers_before_a_time_limit(tmp_path: Path, *, apart: bool) -> None:
    category, summary = told(tmp_path, steps(nan_from=90), apart=apart)
    assert category == "infrastructure"
    assert "is no number from step 90 on" in summary


@pytest.mark.parametrize("course", [{}, {"slow_from": 60, "well_again": 90}, {"nan_from": 60, "well_again": 62}])
def test_what_was_well_at_the_end_is_not_told(tmp_path: Path, course: dict[str, int]) -> None:
    category, summary = told(tmp_path, steps(**course))
    assert category == "infrastructure"
    assert "Before that" not in summary
