"""How many trainers word a step: each number goes to its own column, and a total, a mean or a part of an epoch is no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.metrics.blocks import Shapes, read_block
from firstfault.pipelines.metrics import opened_tables
from firstfault.readers.steplines import EVALUATION, TRAINING, read_progress

if TYPE_CHECKING:
    from pathlib import Path

WORDINGS = {
    "LLaMA-Factory": (
        '{"current_steps": 10, "total_steps": 375, "loss": 1.2345, "lr": 4.9e-05, "epoch": 0.08, "percentage": 2.67, "elapsed_time": "0:01:02", "throughput": 1234.5}',
        {"step": 10, "loss": 1.2345, "lr": 4.9e-5, "epoch": 0.08, "throughput": 1234.5}, 10,
    ),
    "torchtune": (
        "Step 10 | loss:1.25 lr:2e-05 tokens_per_second_per_gpu:523.4 grad_norm:1.5 peak_memory_active:15.2 peak_memory_reserved:18.9 ",
        {"step": 10, "loss": 1.25, "lr": 2e-5, "throughput": 523.4, "grad_norm": 1.5, "memory": 15.2, "memory_reserved": 18.9}, 10,
    ),
    "nanotron": (
        "iteration: 10 / 500 | consumed_tokens: 10.5M | elapsed_time_per_iteration_ms: 1.23K | tokens_per_sec: 852K | tokens_per_sec_per_gpu: 106K | global_batch_size: 512 | lm_loss: 9.34 | lr: 0.000123 | model_tflops_per_gpu: 312 | grad_norm: 1.23",
        {"step": 10, "step_time": 1.23, "throughput": 106_000, "batch_size": 512, "loss": 9.34, "lr": 0.000123, "tflops": 312, "grad_norm": 1.23}, 10,
    ),
    "nanotron, fewer": (
        "iteration: 10 / 500 | elapsed_time_per_iteration_ms: 987 | tokens_per_sec_per_gpu: 1.06M | lm_loss: 9.34",
        {"step": 10, "step_time": 0.987, "throughput": 1_060_000, "loss": 9.34}, 10,
    ),
    "OpenCLIP": (
        "2023-06-29,15:45:36 | INFO | Train Epoch: 0 [  6464/109468 (3%)] Loss: 0.97884 (1.023) Data (t): 0.158 Batch (t): 0.559, 36.0876/s LR: 0.000001 Logit Scale: 99.995 - V4",
        {"epoch": 0, "step": 6464, "loss": 0.97884, "data_time": 0.158, "step_time": 0.559, "lr": 1e-6}, 6464,
    ),
    "MLX": (
        "Iter 30: Train loss 2.710, Learning Rate 1.000e-05, It/sec 4.000, Tokens/sec 1699.733, Trained Tokens 2768, Peak mem 1.437 GB",
        {"step": 30, "loss": 2.71, "lr": 1e-5, "step_time": 0.25, "throughput": 1699.733, "memory": 1.437}, 30,
    ),
    "epoch seconds": (
        '{"step": 40, "train/loss": 2.5, "_timestamp": 1741050000.5, "_runtime": 12.0}',
        {"step": 40, "loss": 2.5, "time": 1741050000.5}, 40,
    ),
    "LitGPT": (
        "Epoch 1 | iter 100 step 50 | loss train: 1.234, val: n/a | iter time: 123.45 ms (step) remaining time: 2:30:00",
        {"epoch": 1, "step": 100, "loss": 1.234, "step_time": 0.12345}, 100,
    ),
    "nanoGPT": ("iter 100: loss 4.125, time 123.45ms, mfu 35.12%", {"step": 100, "loss": 4.125, "step_time": 0.12345}, 100),
    "time since the start": ("step 100: loss 4.125, time: 3600.5", {"step": 100, "loss": 4.125}, 100),
    "time of day": ("step 100 data: 0.1 loss: 4.125 time: 12:30:11", {"step": 100, "loss": 4.125, "data_time": 0.1}, 100),
    "PaddleNLP": (
        "loss: 10.125, learning_rate: 1e-05, global_step: 10, max_memory_allocated: 20.1, interval_runtime: 2.1234, interval_samples_per_second: 15.07",
        {"loss": 10.125, "lr": 1e-5, "step": 10, "memory": 20.1, "throughput": 15.07}, 10,
    ),
    "MindFormers": (
        "INFO - { Epoch:[  1/  2], step:[   10/  100], loss: 9.345, per_step_time: 1234ms, lr: 1e-05, overflow cond: False, loss_scale: 65536.0, global_norm: [1.25], train_throughput_per_npu: 123.4T",
        {"epoch": 1, "step": 10, "loss": 9.345, "step_time": 1.234, "lr": 1e-5, "loss_scale": 65536, "grad_norm": 1.25, "tflops": 123.4}, 10,
    ),
    "verl": (
        "step:10 - actor/pg_loss:0.012 - actor/grad_norm:0.456 - actor/lr:0.001 - timing_s/step:45.678 - perf/throughput:1234.5",
        {"step": 10, "loss": 0.012, "grad_norm": 0.456, "lr": 0.001, "step_time": 45.678, "throughput": 1234.5}, 10,
    ),
    "timm": (
        "Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.512s, 2000.12/s  (0.530s, 1932.11/s)  LR: 1.000e-05  Data: 0.012 (0.034)",
        {"step": 50, "loss": 6.94, "step_time": 0.512, "lr": 1e-5, "data_time": 0.012}, 50,
    ),
    "ImageNet of the examples": (
        "Epoch: [0][  10/5005]\tTime  0.512 (  0.987)\tData  0.012 (  0.345)\tLoss 6.9876e+00 (7.0123e+00)\tAcc@1   0.00 (  0.12)",
        {"epoch": 0, "step": 10, "step_time": 0.512, "data_time": 0.012, "loss": 6.9876}, 10,
    ),
    "detectron2": (
        "[05/11 10:11:12 d2.utils.events]:  eta: 0:10:12  iter: 19  total_loss: 1.234  loss_cls: 0.345  time: 0.3123  last_time: 0.2987  data_time: 0.0123  last_data_time: 0.0034   lr: 1.6068e-05  max_mem: 2048M",
        {"step": 19, "loss": 1.234, "step_time": 0.3123, "data_time": 0.0123, "lr": 1.6068e-5, "memory": 2}, 19,
    ),
    "OpenMMLab, iterations": (
        "INFO - Iter(train) [   50/160000]  lr: 6.0000e-05  eta: 20:10:10  time: 0.4521  data_time: 0.0101  memory: 5120  loss: 2.3456",
        {"step": 50, "lr": 6e-5, "step_time": 0.4521, "data_time": 0.0101, "memory": 5, "loss": 2.3456}, 50,
    ),
    "ESPnet": (
        "[node01:0/8] 2024-05-11 10:11:12,345 (trainer:762) INFO: 1epoch:train:1-100batch: iter_time=0.012, forward_time=0.234, loss_ctc=123.4, loss=106.1, backward_time=0.345, grad_norm=12.3, loss_scale=1.0, optim_step_time=0.056, optim0_lr0=1.2e-05, train_time=0.789",
        {"epoch": 1, "step": 100, "data_time": 0.012, "forward_time": 0.234, "loss": 106.1, "backward_time": 0.345, "grad_norm": 12.3, "loss_scale": 1, "optimizer_time": 0.056, "lr": 1.2e-5, "step_time": 0.789, "time": 1715422272.345}, 100,
    ),
    "WeNet": (
        "DEBUG TRAIN Batch 2/100 loss 12.345678 loss_att 10.123 lr 0.00001234 rank 3",
        {"epoch": 2, "step": 100, "loss": 12.345678, "lr": 0.00001234, "rank": 3}, 100,
    ),
    "WeNet, pace": (
        "DEBUG TRAIN | steps/sec 1.234| Batch 0/100 loss 12.345678 lr 0.00001234 rank 3",
        {"epoch": 0, "step": 100, "loss": 12.345678, "lr": 0.00001234, "rank": 3}, 100,
    ),
    "Megatron, several losses": (
        " iteration      100/  500000 | elapsed time per iteration (ms): 1234.5 | mtp_1 loss: 3.1E+00 | lm loss: 2.345678E+00 | load_balancing_loss: 1.0E+00 | grad norm: 0.987 |",
        {"step": 100, "step_time": 1.2345, "loss": 2.345678, "grad_norm": 0.987}, 100,
    ),
    "Megatron-DeepSpeed": (
        " iteration      100/  500000 | consumed tokens:     52428800 | elapsed time per iteration (s): 1.23 | learning rate: 1.500E-04 | lm loss: 2.345678E+00 | samples per second: 208.1 | TFLOPs: 123.4 |",
        {"step": 100, "step_time": 1.23, "lr": 1.5e-4, "loss": 2.345678, "throughput": 208.1, "tflops": 123.4}, 100,
    ),
    "diffusers": (
        "Steps:   1%|          | 100/10000 [01:23<2:17:30,  1.25it/s, lr=1e-5, step_loss=0.125]",
        {"step": 100, "step_time": 0.8, "lr": 1e-5, "loss": 0.125}, 100,
    ),
    "fairseq, JSON": (
        '2024-05-11 10:11:12 | INFO | train_inner | {"epoch": 1, "update": 0.02, "loss": "12.345", "ppl": "3812", "wps": "65432", "num_updates": "100", "lr": "1.25e-05", "gnorm": "2.345"}',
        {"epoch": 1, "step": 100, "loss": 12.345, "throughput": 65432, "lr": 1.25e-5, "grad_norm": 2.345, "time": 1715422272}, 100,
    ),
    "ms-swift": (
        "{'loss': 1.2345, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'memory(GiB)': 23.4, 'train_speed(iter/s)': 0.123, 'epoch': 0.01, 'global_step/max_steps': '10/936', 'percentage': '1.07%'}",
        {"step": 10, "loss": 1.2345, "grad_norm": 1.25, "lr": 1e-5, "memory": 23.4, "throughput": 0.123, "epoch": 0.01}, None,
    ),
    "axolotl": (
        "{'loss': 1.2345, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'memory/max_mem_active(gib)': 23.4, 'memory/device_mem_reserved(gib)': 30.1, 'epoch': 0.01}",
        {"loss": 1.2345, "grad_norm": 1.25, "lr": 1e-5, "memory": 23.4, "memory_reserved": 30.1, "epoch": 0.01}, None,
    ),
    "DeepSpeed, old timer": (
        "[Rank 0] 0/100, RunningAvgSamplesPerSec=12.34, CurrSamplesPerSec=12.56, MemAllocated=10.2GB, MaxMemAllocated=30.1GB",
        {"rank": 0, "throughput": 12.56, "memory": 30.1}, None,
    ),
    "OLMo": (
        "[step=100/739328,epoch=0] optim/total_grad_norm=1.25 train/CrossEntropyLoss=10.12 train/Perplexity=24,832 throughput/total_tokens=4,194,304 throughput/device/tokens_per_second=11,234",
        {"step": 100, "epoch": 0, "grad_norm": 1.25, "loss": 10.12, "throughput": 11234}, 100,
    ),
    "InternLM": (
        "tflops=189.3,step=7,loss=11.6418,tgs (tokens/gpu/second)=3786.4,lr=4.0e-07,loss_scale=65536.0,grad_norm=63.67,micro_num=4,num_consumed_tokens=131072",
        {"tflops": 189.3, "step": 7, "loss": 11.6418, "throughput": 3786.4, "lr": 4e-7, "loss_scale": 65536, "grad_norm": 63.67}, 7,
    ),
    "MaxText": (
        "completed step: 100, seconds: 1.234, TFLOP/s/device: 312.345, Tokens/s/device: 6012.3, total_weights: 65536, loss: 7.125",
        {"step": 100, "step_time": 1.234, "tflops": 312.345, "throughput": 6012.3, "loss": 7.125}, 100,
    ),
    "Rich": (
        "Epoch 0/4  ━━━━━━━━━━━━━━━━━━━━ 100/400 0:00:12 • 0:00:36 8.00it/s v_num: 0.000 train_loss: 0.588",
        {"epoch": 0, "step": 100, "step_time": 0.125, "loss": 0.588}, 100,
    ),
    "Keras 3, coloured": (
        "\x1b[1m100/2000\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m1:10\x1b[0m 38ms/step - accuracy: 0.3121 - loss: 0.588",
        {"step": 100, "loss": 0.588}, 100,
    ),
    "MLPerf": (
        '0: :::MLLOG {"namespace": "", "time_ms": 1775725581676, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 11.846, "metadata": {"samples_count": 5120, "lr": 3.125e-06}}',
        {"step": 5120, "loss": 11.846, "lr": 3.125e-06, "samples": 5120, "time": 1775725581.676}, None,
    ),
    "MLPerf, statistics": (
        ':::MLLOG {"namespace": "", "time_ms": 1775725581676, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": {"train_step_time": 0.75, "reduced_train_loss": 7.25}, "metadata": {"file": "/work/callbacks.py", "lineno": 277, "step": 100}}',
        {"step": 100, "loss": 7.25, "step_time": 0.75, "time": 1775725581.676}, 100,
    ),
    "slashed names of a logger": (
        '{"step": 100, "train/loss": 7.125, "perf/step_time": 0.75, "train/tokens_per_sec": 8123.5}',
        {"step": 100, "loss": 7.125, "step_time": 0.75, "throughput": 8123.5}, 100,
    ),
    "a rate behind its name": ("step 100 | loss 7.125 | tokens/s 8123", {"step": 100, "loss": 7.125, "throughput": 8123}, 100),
    "a rate before its name": ("step 100 | loss 7.125 | 8123 tokens/s 12 samples/s", {"step": 100, "loss": 7.125}, 100),
    "Levanter": (
        "2026-05-09T21:41:33 - 0 - tqdm_loggable.tqdm_logging - tqdm_logging.py:145 - INFO :: Progress on:train 1.25kit/10.0kit rate:1.2s/it remaining:2:55:00 elapsed:00:25:00 postfix:loss=2.34",
        {"step": 1250, "loss": 2.34, "throughput": 1 / 1.2, "time": 1778362893.0}, 1250,
    ),
    "a step time behind its name": (
        "[2026-05-09 21:41:33] step 100/4000 loss 7.125 step_time 11.9s lr 1.5e-04",
        {"step": 100, "loss": 7.125, "step_time": 11.9, "lr": 1.5e-4, "time": 1778362893.0}, 100,
    ),
    "decimal commas": (
        "Step 100 | loss: 7,1250 | grad_norm: 0,5 | lr: 0,00015",
        {"step": 100, "loss": 7.125, "grad_norm": 0.5, "lr": 1.5e-4}, 100,
    ),
    "Chinese": (
        "2026-05-09 21:41:33 训练 步数: 100/4000 损失: 7.125 学习率: 1.5e-04 梯度范数: 0.5 每步耗时: 0.75s",
        {"step": 100, "loss": 7.125, "lr": 1.5e-4, "grad_norm": 0.5, "step_time": 0.75, "time": 1778362893.0}, 100,
    ),
    "Chinese, marks of the full width": (
        "[2026-05-09 21:41:33] 第 100 步，损失：7.125，学习率：1.5e-04",
        {"step": 100, "loss": 7.125, "lr": 1.5e-4, "time": 1778362893.0}, 100,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDINGS)
def test_each_number_has_its_own_column(name: str) -> None:
    line, wanted, step = WORDINGS[name]
    for count, fast in ((1, False), (1, True), (200, True)):
        parts = read_block(f"{line}\n".encode() * count, 1, Shapes(), fast=fast)
        assert sum(len(p.line) for p in parts) == count
        for part in parts:
            assert {n: float(v[-1]) for n, v in part.columns.items()} == pytest.approx(wanted, rel=1e-9)
    if step is not None:
        shape = read_progress(line.encode())
        assert shape is not None
        assert (shape.kind, shape.step) == (TRAINING, step)


SEVERAL = {
    "Megatron-Bridge": (
        "Step Time : 5.39s GPU utilization: 447.0MODEL_TFLOP/s/GPU\n [2026-05-09 21:41:33.123] iteration      100/    4000 | consumed samples:        25600 | elapsed time per iteration (ms): 5390.0 | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 7.125000E+00 | loss scale: 1.0 | grad norm: 0.500 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        {"step": 100, "loss": 7.125, "lr": 1.5e-4, "grad_norm": 0.5, "step_time": 5.39},
    ),
    "a table below its step": (
        "----------------------------------------\n| train/                  |              |\n|    global_step          | 100          |\n|    learning_rate        | 0.00015      |\n|    loss                 | 7.125        |\n----------------------------------------",
        {"step": 100, "loss": 7.125, "lr": 1.5e-4},
    ),
    "a drawn table": (
        "┏━━━━━━━━┳━━━━━━━━━┓\n┃ Metric ┃ Value   ┃\n┡━━━━━━━━╇━━━━━━━━━┩\n│ step   │     100 │\n│ loss   │  7.1250 │\n│ grad_norm │  0.5 │\n└────────┴─────────┘",
        {"step": 100, "loss": 7.125, "grad_norm": 0.5},
    ),
    "a line wrapped by Rich": (
        "21:41:33 INFO     step 100/4000 | loss 7.125 | grad_norm 0.5 |     train.py:112\n                  lr 1.500e-04 | step_time 0.750 s",
        {"step": 100, "loss": 7.125, "grad_norm": 0.5, "lr": 1.5e-4, "step_time": 0.75},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
def test_what_several_lines_tell_of_a_step_is_one_row(name: str, tmp_path: Path) -> None:
    lines, wanted = SEVERAL[name]
    (tmp_path / "train.log").write_text(
        "".join(f"{lines}\n".replace("100", str(step)) for step in range(100, 300)), encoding="utf-8"
    )
    with opened_tables([str(tmp_path)]) as (_, (table,), _):
        assert table.columns["step"].values[-200:].tolist() == list(range(100, 300))
        for column, value in wanted.items():
            if column != "step":
                assert table.columns[column].there[-200:].all()
                assert table.columns[column].values[-1] == pytest.approx(value)


@pytest.mark.parametrize("text", ["7,1250", "0,713", "12,5"])
def test_commas_part_thousands_or_stand_for_points_by_the_line(text: str) -> None:
    (part,) = read_block(f"step 6,012 | loss: {text} | tps: 6,012\n".encode(), 1, Shapes())
    assert part.columns["loss"].tolist() == [float(text.replace(",", "."))]
    (part,) = read_block(b"step: 10 | loss: 2.125 | tps: 6,012\n", 1, Shapes())
    assert part.columns["throughput"].tolist() == [6012.0]


def test_lists_and_the_words_of_other_metrics_are_no_loss() -> None:
    (part,) = read_block(b"step 7 | loss=[1,2] | lr=[1e-4]\n", 1, Shapes())
    assert part.columns["step"].tolist() == [7.0]
    for line in ("步数: 7 辅助损失: 0.25", "步数: 7 奖励: 0.25", "| steps | 4000 |", "| lr_decay_steps | 4000 |"):
        assert read_block(f"{line}\n".encode(), 1, Shapes()) == []


def test_lines_of_other_chinese_words_are_of_another_shape() -> None:
    data = "".join(f"步数: {i} 损失: {i}.5 学习率: 0.25\n步数: {i} 奖励: {i}.5 轮次长: 0.25\n" for i in range(1, 200))
    parts = read_block(data.encode(), 1, Shapes())
    assert sum(len(p.line) for p in parts) == 199
    assert all("loss" in p.columns for p in parts)


@pytest.mark.parametrize(
    "line",
    [
        "2024-05-11 10:11:12,345 (trainer:762) INFO: 1epoch:valid:1-100batch: iter_time=0.012, loss=106.1, train_time=0.789",
        "DEBUG CV Batch 2/100 loss 12.345678 history loss 11.2 rank 3",
        "INFO - Iter(val) [   50/100]  eta: 0:10:10  time: 0.4521  data_time: 0.0101  memory: 5120",
    ],
)
def test_evaluation_is_no_training(line: str) -> None:
    for part in read_block(f"{line}\n".encode(), 1, Shapes()):
        assert "loss" not in part.columns
        assert "step" not in part.columns
    shape = read_progress(line.encode())
    assert shape is None or shape.kind == EVALUATION


def test_what_stands_below_a_batch_is_of_it(tmp_path: Path) -> None:
    lines = [f"[batch={i}/400]:\n\t Train time/batch: {i - 1}\n\t Train loss/train/total: {i / 100:.4f}\n\t Train metrics/train/Perplexity: 12.5\n" for i in range(1, 200)]  # fmt: skip
    (tmp_path / "train.log").write_text("".join(lines), encoding="utf-8")
    with opened_tables([str(tmp_path)]) as (_, (table,), _):
        assert table.columns["step"].values.tolist() == list(range(1, 200))
        assert table.columns["loss"].values.tolist() == pytest.approx([i / 100 for i in range(1, 200)])
        assert set(table.columns) == {"step", "loss"}
    shape = read_progress(b"[batch=10/400]:")
    assert shape is not None
    assert (shape.kind, shape.step, shape.total) == (TRAINING, 10, 400)


def test_a_total_is_no_progress() -> None:
    for line in ('{"total_steps": 375, "loss": 1.2}', "total steps: 375, lr: 1e-4", "loss 1.2 total_steps=375"):
        assert read_progress(line.encode()) is None
        assert all("step" not in part.columns for part in read_block(f"{line}\n".encode(), 1, Shapes()))


@pytest.mark.parametrize("count", [1, 3, 50, 500])
def test_lines_that_tell_words_alone_are_read(count: int) -> None:
    parts = read_block(b"loss: nan grad_norm: nan\n" * count + b"loss: inf | grad_norm: nan | a\n" * count, 1, Shapes())
    assert sum(len(part.line) for part in parts) == 2 * count
    assert all(not np.isfinite(column).any() for part in parts for column in part.columns.values())
