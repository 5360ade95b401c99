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


def test_the_slow_window_stands_in_the_chain_with_its_line(tmp_path: Path) -> None:
    text = steps(slow_from=120)
    (tmp_path / "job.log").write_text(text + LIMIT, encoding="utf-8")
    found = diagnose(tmp_path)
    assert found.verdict.trigger is not None
    assert "TIME LIMIT" in found.verdict.trigger.text
    (link,) = [link for link in found.chain if "from step 120 on" in link.what]
    assert [(e.line, e.text) for e in link.evidence] == [(120, text.split("\n")[119])]
    assert "is not shown" in link.why


def slow_rank(folder: Path, *kernel: str) -> str:
    """Rank 2 on host n2 takes twice as long in its forward pass from step 60 on, then the time limit comes."""
    for rank in range(4):
        lines = [
            f"n{rank}:4711:4711 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank {rank} nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x77 - Init COMPLETE"
        ]
        for n in range(1, 201):
            own = 2.0 if n >= 60 and rank == 2 else 0.5
            lines.append(
                f"[2026-08-22 {10 + n // 60:02d}:{n % 60:02d}:00] rank: {rank}, step: {n}, loss: {2 + n % 7 / 100:.4f}, "
                f"step_time: {(3.6 if n >= 60 else 2.1) + n % 4 / 100:.3f}, forward_time: {own + (n * 3 + rank) % 5 / 100:.3f}"
            )
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "job.err").write_text(LIMIT, encoding="utf-8")
    if kernel:
        (folder / "kernel.log").write_text("\n".join(kernel) + "\n", encoding="utf-8")
    found = diagnose(folder)
    assert found.verdict.culprits.ranks == []
    return found.verdict.summary


def test_heat_of_another_machine_is_not_told_of_a_slow_rank(tmp_path: Path) -> None:
    hot = (
        "Aug 22 11:05:31 {} kernel: CPU12: Package temperature above threshold, cpu clock throttled (total events = 1)"
    )
    for name, host, told in (("own", "n2", True), ("other", "n1", False)):
        (tmp_path / name).mkdir()
        summary = slow_rank(tmp_path / name, hot.format(host))
        assert "Rank 2 is slower than the others from step 60 on" in summary
        assert ("slowed by heat" in summary) == told


SAMPLER = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0\n"


def bars(values: dict[int, str]) -> str:
    drawn = [f"Train epoch [1/5]:  {n:2d}%|{'#' * (n // 10):10}| {n}/80 [00:01<00:33,  2.33it/s, reward={v}]" for n, v in values.items()]  # fmt: skip
    return "\r".join(["Train epoch [1/5]:   0%|          | 0/80 [00:00<?, ?it/s]", *drawn]) + "\n"


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({1: "0.31", 2: "0.32", 3: "nan", 20: "nan"}, 3),
        ({1: "nan", 2: "nan", 3: "nan", 20: "nan"}, None),
        ({1: "0.31", 2: "nan", 3: "0.32", 20: "0.3"}, None),
    ],
)
def test_a_value_of_any_name_that_became_nan_for_good(tmp_path: Path, values: dict[int, str], step: int | None) -> None:
    (tmp_path / "train.log").write_text(bars(values) + SAMPLER, encoding="utf-8")
    verdict = diagnose(tmp_path).verdict
    assert verdict.category == "numerical"
    said = "First bad step 3 of 80 in the bar “Train epoch [1/5]”: reward is NaN from there on."
    assert (said in verdict.summary) is (step is not None)


@pytest.mark.parametrize("well", [False, True])
def test_the_first_bad_step_of_logs_that_are_not_cited(tmp_path: Path, *, well: bool) -> None:
    """The error stands in the launcher's log; a log that is well to its end may be the run that failed."""
    scales = [1.0, 1.0, 0.25, 0.0625, 0.002, 7e-6, 3e-8, 1e-10]
    for rank in range(3):
        own = [1.0] * 8 if well and rank == 2 else scales
        lines = [f"2024-01-14 00:{10 + n}:40,308 INFO [train.py:1072] ({rank}/3) Epoch 1, batch {n * 50}, loss[loss={3 - n / 9:.3f}, over 11576.00 frames. ], lr: 2.94e-02, grad_scale: {v}" for n, v in enumerate(own)]  # fmt: skip
        (tmp_path / f"log-train-2024-01-14-00-11-31-{rank}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    error = "RuntimeError: grad_scale is too small, exiting: 9.1e-13\n"
    (tmp_path / "console.txt").write_text("Traceback (most recent call last):\n" + error, encoding="utf-8")
    verdict = diagnose(tmp_path).verdict
    assert verdict.category == "numerical"
    assert ("First bad step 100: The loss scale falls from step 100" in verdict.summary) is not well
