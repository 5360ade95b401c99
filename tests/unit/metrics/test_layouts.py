"""Each format of step lines gives the numbers that stand in it; all ways of reading a line agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firstfault.metrics.blocks import Shapes, read_block
from firstfault.metrics.layout import read_layout

FORMATS = {
    "megatron": (
        " [2026-08-22 15:22:22.123456] iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.987 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        {"step": 100, "samples": 25600, "step_time": 1.2345, "tflops": 412.3, "lr": 1.5e-4, "batch_size": 256, "loss": 2.345678, "loss_scale": 1, "grad_norm": 0.987, "skipped": 0, "nan_steps": 0, "time": 1787412142.123456},
    ),
    "megatron, old": (
        " iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration (ms): 1234.5 | learning rate: 1.500E-04 | global batch size:   256 | lm loss: 2.1E+00 | loss scale: 1.0 | number of skipped iterations:   1 |",
        {"step": 100, "samples": 25600, "step_time": 1.2345, "lr": 1.5e-4, "batch_size": 256, "loss": 2.1, "loss_scale": 1, "skipped": 1},
    ),
    "megatron, validation": (
        " validation loss at iteration 1000 | lm loss value: 2.1E+00 | lm loss PPL: 8.1E+00 | ",
        {"step": 1000, "val_loss": 2.1},
    ),
    "nemo 2": (
        "Training epoch 0, iteration 527/999 | lr: 0.0001758 | global_batch_size: 32 | global_step: 528 | reduced_train_loss: 2.792 | train_step_timing in s: 2.389 | tokens_per_sec_per_gpu: 6.859e+03 | consumed_samples: 16896 | val_loss: 3.624",
        {"epoch": 0, "step": 528, "lr": 0.0001758, "batch_size": 32, "loss": 2.792, "step_time": 2.389, "throughput": 6859, "samples": 16896, "val_loss": 3.624},
    ),
    "nemo 1": (
        "Epoch 0:   6%|▌  | 32040/500150 [6:28:43<94:39:17,  1.25it/s, loss=2.6, v_num=95nc, reduced_train_loss=2.590, global_step=3.2e+4, consumed_samples=2.56e+7]",
        {"epoch": 0, "step": 32040, "step_time": 0.8, "loss": 2.6, "samples": 2.56e7},
    ),
    "lightning": (
        "Epoch 1:  50%|█████     | 4/8 [00:00<00:00, 80.00it/s, v_num=0, train_loss=0.588]",
        {"epoch": 1, "step": 4, "step_time": 0.0125, "loss": 0.588},
    ),
    "deepspeed": (
        "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2, lr=[1e-05], mom=[(0.9, 0.95)]",
        {"rank": 0, "step": 10, "skipped": 2, "lr": 1e-5, "time": 1787401144.123},
    ),
    "deepspeed, timer": (
        "[2026-08-22 12:19:04,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, MemAllocated=10.2GB, MaxMemAllocated=30.1GB",
        {"epoch": 0, "step": 10, "throughput": 12.5, "memory": 30.1, "time": 1787401144.123},
    ),
    "deepspeed, phases": (
        "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 1.00 | bwd: 2.00 | step: 0.5",
        {"rank": 0, "forward_time": 0.001, "backward_time": 0.002, "optimizer_time": 0.0005, "time": 1787401144.123},
    ),
    "deepspeed, overflow": (
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        {"rank": 0, "loss_scale": 32768, "skipped": 1},
    ),
    "trainer 4": (
        "{'loss': 3.5534, 'grad_norm': 1.4142135381698608, 'learning_rate': 2.04e-06, 'epoch': 0.01}",
        {"loss": 3.5534, "grad_norm": 1.4142135381698608, "lr": 2.04e-6, "epoch": 0.01},
    ),
    "trainer 5": (
        "{'loss': '1.143', 'grad_norm': '1.931', 'learning_rate': '4e-05', 'epoch': '0.3125'}",
        {"loss": 1.143, "grad_norm": 1.931, "lr": 4e-5, "epoch": 0.3125},
    ),
    "trainer, nan": (
        "{'loss': nan, 'grad_norm': inf, 'learning_rate': 2.04e-06, 'epoch': 0.01}",
        {"loss": math.nan, "grad_norm": math.inf, "lr": 2.04e-6, "epoch": 0.01},
    ),
    "funasr": (
        "rank: 3, epoch: 1/10, data_slice: 0/1, step_in_slice: 40/100, step_in_epoch: 40, total step: 140, (loss_avg_rank: 0.532), (loss_avg_slice: 0.61), (lr: 1.2e-05), [('loss', 0.53), ('acc', 0.8)], {'data_load': '0.001', 'forward_time': '0.214', 'backward_time': '0.311', 'optim_time': '0.05', 'total_time': '0.61'}",
        {"rank": 3, "epoch": 1, "step": 140, "loss": 0.532, "lr": 1.2e-5, "data_time": 0.001, "forward_time": 0.214, "backward_time": 0.311, "optimizer_time": 0.05, "step_time": 0.61},
    ),
    "funasr, time of backward as it is spelt": (
        "rank: 5, epoch: 0/50, step_in_slice: 40/100, total step: 140, (loss_avg_rank: 2.551), (lr: 1.2e-05), {'data_load': '0.001', 'forward_time': '0.214', 'backward_and_AllReaduce_time': '0.311', 'optim_time': '0.05', 'total_time': '0.61'}",
        {"rank": 5, "epoch": 0, "step": 140, "loss": 2.551, "lr": 1.2e-5, "data_time": 0.001, "forward_time": 0.214, "backward_time": 0.311, "optimizer_time": 0.05, "step_time": 0.61},
    ),
    "a bar whose global step is rounded": (
        "Epoch 0:  20%|##   | 10050/50000 [07:23<94:39:17,  1.34it/s, v_num=95nc, reduced_train_loss=2.852, global_step=1.00e+04, consumed_samples=2.57e+06]",
        {"epoch": 0, "step": 10050, "loss": 2.852, "step_time": 1 / 1.34, "samples": 2.57e6},
    ),
    "a bar that counts batches of which four are a step": (
        "Epoch 0:  20%|##   | 10050/50000 [07:23<94:39:17,  1.34it/s, v_num=95nc, reduced_train_loss=2.852, global_step=2.51e+03, consumed_samples=2.57e+06]",
        {"epoch": 0, "step": 2510, "loss": 2.852, "step_time": 1 / 1.34, "samples": 2.57e6},
    ),
    "memory by its unit": (
        '{"step": 10, "loss": 10.28, "memory_gib": 41.214, "memory_reserved_gib": 45.014}',
        {"step": 10, "loss": 10.28, "memory": 41.214, "memory_reserved": 45.014},
    ),
    "torchtitan": (
        "[titan] 2026-05-09 21:41:33,123 - root - INFO - step: 10  loss:  7.1234  grad_norm:  1.2345  memory: 40.21GiB(50.80%)  tps: 6,012  tflops: 350.1  mfu: 35.4%",
        {"step": 10, "loss": 7.1234, "grad_norm": 1.2345, "memory": 40.21, "throughput": 6012, "tflops": 350.1, "time": 1778362893.123},
    ),
    "torchtitan, coloured": (
        "[rank0]:[titan] 2026-05-09 21:41:33,123 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.12345  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[36mmemory: 40.21GiB(50.80%)  \x1b[34mtps: 16,012  \x1b[36mtflops: 1,350.10  \x1b[35mmfu: 35.40%\x1b[39m",
        {"rank": 0, "step": 10, "loss": 7.12345, "grad_norm": 1.2345, "memory": 40.21, "throughput": 16012, "tflops": 1350.1, "time": 1778362893.123},
    ),
    "k2": (
        "2024-01-14 00:59:40,308 INFO [train.py:1072] (0/4) Epoch 2, batch 3050, loss[loss=1.356, simple_loss=1.179, over 11576.00 frames. ], tot_loss[loss=1.336, over 2349439.00 frames. ], batch size: 87, lr: 2.94e-02, grad_scale: 0.25",
        {"epoch": 2, "step": 3050, "loss": 1.356, "lr": 0.0294, "loss_scale": 0.25, "time": 1705193980.308, "rank": 0},
    ),
    "tqdm": (" 25%|██▌       | 5/20 [00:00<00:00, 20.00it/s]", {"step": 5, "step_time": 0.05}),
    "tqdm, slow": ("300it [07:24,  1.48s/it, loss=3.99]", {"step": 300, "step_time": 1.48, "loss": 3.99}),
    "json lines": (
        '{"_step": 12, "train/loss": 2.31, "train/grad_norm": NaN, "lr": 1e-4}',
        {"step": 12, "loss": 2.31, "grad_norm": math.nan, "lr": 1e-4},
    ),
    "plain": (
        "step 40 | loss 3.21 | lr 1e-4 | norm 0.91 | dt: 410.2ms | tok/sec: 12345.6",
        {"step": 40, "loss": 3.21, "lr": 1e-4, "grad_norm": 0.91, "step_time": 0.4102, "throughput": 12345.6},
    ),
    "fairseq": (
        "epoch 001:    100 / 4000 loss=8.1, ppl=300, wps=12345, num_updates=100, lr=1e-05, gnorm=1.2, loss_scale=128",
        {"epoch": 1, "step": 100, "loss": 8.1, "throughput": 12345, "lr": 1e-5, "grad_norm": 1.2, "loss_scale": 128},
    ),
    "openmmlab": (
        "Epoch(train) [1][  50/2000]  lr: 1.0e-02  time: 0.35  data_time: 0.012  memory: 3301  loss: 1.234",
        {"epoch": 1, "step": 50, "lr": 0.01, "step_time": 0.35, "data_time": 0.012, "memory": 3301 / 1024, "loss": 1.234},
    ),
}  # fmt: skip


def close(found: dict[str, float], wanted: dict[str, float]) -> bool:
    return found.keys() == wanted.keys() and all(
        (math.isnan(v) and math.isnan(found[k])) or found[k] == pytest.approx(v, rel=1e-9) for k, v in wanted.items()
    )


def read(lines: list[str], *, fast: bool) -> list[dict[str, float]]:
    data = "".join(f"{line}\n" for line in lines).encode()
    rows: dict[int, dict[str, float]] = {}
    for part in read_block(data, 1, Shapes(), fast=fast):
        for i, line in enumerate(part.line.tolist()):
            rows[line] = {k: float(v[i]) for k, v in part.columns.items()}
    return [rows[n] for n in sorted(rows)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_of_each_format(name: str) -> None:
    line, wanted = FORMATS[name]
    (found,) = read([line], fast=False)
    assert close(found, {k: float(v) for k, v in wanted.items()}), found


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_many_lines_are_read_as_one_is(name: str, *, fast: bool) -> None:
    if fast:
        pytest.importorskip("polars")
    line, wanted = FORMATS[name]
    for row in read([line] * 200, fast=fast):
        assert close(row, {k: float(v) for k, v in wanted.items()}), row


@pytest.mark.parametrize("fast", [False, True])
def test_values_of_a_long_uniform_block(*, fast: bool) -> None:
    if fast:
        pytest.importorskip("polars")
    line = FORMATS["megatron"][0]
    lines = [
        line.replace("100/", f"{i:3d}/")
        .replace("2.345678E+00", f"{1 + i / 1000:.6E}")
        .replace("22:22.1", f"22:{i % 60:02d}.1")
        for i in range(1, 900)
    ]
    rows = read(lines, fast=fast)
    assert [r["step"] for r in rows] == list(range(1, 900))
    assert np.allclose([r["loss"] for r in rows], [1 + i / 1000 for i in range(1, 900)])
    assert np.allclose(np.diff([r["time"] for r in rows])[:50], 1.0)


def test_lines_of_one_shape_with_numbers_joined_by_signs() -> None:
    lines = [f"step {i} loss 2.5 range {'1-2' if i % 3 else '12'}" for i in range(1, 50)]
    assert [r["step"] for r in read(lines, fast=False)] == list(range(1, 50))


def test_bars_redrawn_on_one_line_are_rows_of_that_line() -> None:
    data = "".join(f"\r {p}%|#  | {p}/100 [00:10<00:10, 10.00it/s, loss=1.{p:02d}]" for p in range(1, 100)).encode()
    parts = read_block(b"start\n" + data + b"\nend\n", 1, Shapes(), fast=False)
    steps = np.concatenate([p.columns["step"] for p in parts])
    assert sorted(steps.tolist()) == list(range(1, 100))
    assert all((p.line == 2).all() for p in parts)


@pytest.mark.parametrize(
    "line",
    [
        "saving checkpoint at iteration    1000 to /ckpt in torch_dist format",
        "warmup steps: 100, loss scale: 65536",
        "{'train_runtime': 300.1, 'train_steps_per_second': 0.1, 'train_loss': 0.4, 'epoch': 1.0}",
        "Loaded step 400 of 1000 files",
        "RuntimeError: step 4 failed",
        "",
    ],
)
def test_lines_that_tell_no_step_that_was_done(line: str) -> None:
    assert read_layout(line.encode()) is None
