"""What several points mean together, by runs whose cause is known because it was put there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.pipelines.metrics import metrics_of

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.metrics import MetricFinding


def stamp(second: int) -> str:
    return f"2026-08-22 {10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def run(
    folder: Path, *, data: bool = False, wait: bool | None = None, hot: bool = False, idle: bool = False
) -> list[MetricFinding]:
    """600 steps of a second each; from step 300 on they take two, for a reason."""
    rows, smi, clock = (
        [],
        ["timestamp, index, utilization.gpu [%], memory.used [MiB], temperature.gpu, clocks.sm [MHz]"],
        0,
    )
    slow = data or wait is not None or hot
    for i in range(1, 601):
        late = i >= 300 and slow
        clock += 2 if late else 1
        waited = "" if wait is False else f" data_time: {1.05 if late and data else 0.02 + i % 4 / 1000:.3f} |"
        rows.append(
            f"{stamp(clock)} step {i} | loss: 2.{i % 10} | step_time: {(2 if late else 1) + i % 5 / 100:.3f} |{waited}"
        )
        use = 45 if late and not hot else 97
        smi.append(
            f"{stamp(clock).replace('-', '/')}.000, 0, {use} %, 61000 MiB, {88 if late and hot else 66}, {1100 if late and hot else 1980} MHz"
        )
    if idle:
        smi += [f"{stamp(clock + i).replace('-', '/')}.000, 0, 0 %, 61000 MiB, 40, 1980 MHz" for i in range(1, 200)]
    (folder / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "smi.csv").write_text("\n".join(smi) + "\n", encoding="utf-8")
    return metrics_of([folder]).view.findings


def test_waiting_for_data(tmp_path: Path) -> None:
    (found,) = run(tmp_path, data=True)
    assert (found.claim, found.strength, found.step) == ("The steps wait for data.", "supported", 300)


def test_idle_gpus_without_a_wait_for_data(tmp_path: Path) -> None:
    (found,) = run(tmp_path, wait=True)
    assert found.claim == "The GPUs wait: for communication, or for the host."
    assert found.strength == "possible"


def test_idle_gpus_where_data_time_is_not_logged(tmp_path: Path) -> None:
    (found,) = run(tmp_path, wait=False)
    assert found.claim == "The GPUs wait: for communication or for data."
    assert found.against == ["the time spent waiting for data is not logged"]


def test_heat(tmp_path: Path) -> None:
    (found,) = run(tmp_path, hot=True)
    assert (found.claim, found.strength) == ("The GPUs run slower because of heat.", "supported")
    assert found.supports[0] == "clock 1980 MHz before, 1100 MHz after"


def test_a_hang(tmp_path: Path) -> None:
    (found,) = run(tmp_path, idle=True)
    assert (found.claim, found.strength, found.step) == ("The processes live and do nothing: a hang.", "supported", 600)


def test_nothing_where_all_is_well(tmp_path: Path) -> None:
    assert run(tmp_path) == []


def test_a_bad_loss_behind_a_restart(tmp_path: Path) -> None:
    rows = [f"step {i} | loss: 2.{i % 10:02d} | lr: 1e-4" for i in range(1, 200)]
    rows += [f"step {i} | loss: 5.{i % 10:02d} | lr: 1e-4" for i in range(150, 300)]
    (tmp_path / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    view = metrics_of([tmp_path]).view
    assert [(p.kind, p.step, p.attempt) for p in view.points] == [("loss_rise", 150, 2)]
    assert view.findings[0].claim.startswith("The loss is bad since the run started again")
    assert view.findings[0].strength == "supported"


def test_reserved_memory_that_is_not_used(tmp_path: Path) -> None:
    rows = [
        f"step {i} | loss: 2.{i % 10} | memory: 40.{i % 3}GB | memory_reserved: {42 + i * 0.05:.2f}GB"
        for i in range(1, 600)
    ]
    (tmp_path / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert [f.claim for f in metrics_of([tmp_path]).view.findings] == [
        "Memory is reserved and not used: fragmentation."
    ]


def test_a_long_step_behind_a_word_of_a_checkpoint_is_planned(tmp_path: Path) -> None:
    rows = []
    for i in range(1, 200):
        if i == 120:
            rows.append("saving checkpoint at iteration 119 to /ckpt in torch_dist format")
        rows.append(f"step {i} | loss: 2.{i % 10} | step_time: {300 if i == 120 else 1 + i % 5 / 50}")
    (tmp_path / "train.log").write_text("\n".join(rows) + "\n", encoding="utf-8")
    view = metrics_of([tmp_path]).view
    assert [p.kind for p in view.points] == ["checkpoint_pause"]
    assert not view.is_abnormal
