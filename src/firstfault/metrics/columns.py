"""What a step table holds: its columns, their units, and the names under which trainers print them.

Must not read a line or a file.
"""

from __future__ import annotations

from firstfault.readers.step_forms import CHINESE_STEPS

STEP, LINE, RANK, TIME = "step", "line", "rank", "time"
UNITS: dict[str, str] = {
    "source": "shown path",
    "line": "1-based",
    "rank": "global rank that the line names",
    "attempt": "starts of the run in this source, from 1: the step went back",
    "time": "seconds since the epoch of the clock's own wall time",
    "step": "as printed",
    "epoch": "as printed; may be a fraction",
    "loss": "of training",
    "val_loss": "of an evaluation",
    "grad_norm": "",
    "lr": "",
    "loss_scale": "",
    "step_time": "s",
    "throughput": "as printed: samples, tokens or steps a second; compare within one source only",
    "tflops": "TFLOP/s for each GPU",
    "memory": "GiB in use, the peak where both are printed",
    "memory_reserved": "GiB that the allocator holds",
    "data_time": "s of the step spent waiting for data",
    "forward_time": "s",
    "backward_time": "s",
    "optimizer_time": "s",
    "queue": "batches ready in the loader",
    "batch_size": "samples of one step over all ranks",
    "samples": "samples seen so far",
    "skipped": "steps that were skipped since the last line",
    "nan_steps": "steps with a NaN since the last line",
}
"""Every column in order -> its unit; each but `source`, `line` and `attempt` may be null."""
NUMBERS = tuple(name for name in UNITS if name not in {"source", "line", "attempt"})
"""Columns that are read from a line."""

_S, _MS = 1.0, 0.001
ALIASES: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("iteration", "iter", "step", "steps", "global_step", "global step", "globalstep", "_step", "num_updates", "train_step", "total step", "total_step", "current_steps", "global_step/max_steps", "completed steps", "trainer/global_step", "train/global_step", "training_iteration", "training step", "train step", "update"), ("step", 1.0)),
    **dict.fromkeys(("epoch", "train/epoch", "current_epoch"), ("epoch", 1.0)),
    **dict.fromkeys(("loss", "lm loss", "lm_loss", "train_loss", "train loss", "training loss", "training_loss", "train/loss", "reduced_train_loss", "total_loss", "train/total_loss", "loss/train", "loss_step", "train_loss_step", "loss_avg_rank", "loss_metrics/global_avg_loss", "loss_total", "train-loss", "nll_loss", "batch_loss", "lm-loss-training/lm loss", "train/ce loss", "train/crossentropyloss", "loss/train/total", "loss train", "step_loss", "actor/loss", "actor/pg_loss", "train/ce_loss", "mean_loss"), ("loss", 1.0)),
    **dict.fromkeys(("val_loss", "val loss", "valid_loss", "valid loss", "validation loss", "validation_loss", "eval_loss", "eval loss", "eval/loss", "val/loss", "lm loss value", "test_loss", "validation/loss", "loss/val"), ("val_loss", 1.0)),
    **dict.fromkeys(("grad_norm", "grad norm", "gnorm", "gradient norm", "gradient_norm", "global_norm", "global_grad_norm", "train/grad_norm", "grad-norm", "total_norm", "optim/total_grad_norm", "optim/total grad norm", "l2_norm/grad/global", "actor/grad_norm", "actor/gradnorm", "gradnorm", "norm"), ("grad_norm", 1.0)),
    **dict.fromkeys(("learning_rate", "learning rate", "lr", "train/learning_rate", "train/lr", "lr-adam", "lr-adamw", "optim/lr", "optim0_lr0", "optim/lr (group 0)", "actor/lr", "learning-rate", "base_lr"), ("lr", 1.0)),
    **dict.fromkeys(("loss scale", "loss_scale", "loss-scale", "grad_scale", "train/loss_scale", "scale", "scaler_scale"), ("loss_scale", 1.0)),
    **dict.fromkeys(("elapsed time per iteration", "step_time", "step time", "iteration_time", "iter_time", "train_step_timing", "train_step_timing in s", "time_per_step", "time/step", "sec/step", "time per step", "s/step", "total_time", "iteration-time", "step_time_s", "iter time", "per_step_time", "train_time", "timing_s/step", "time", "seconds", "time_metrics/end_to_end", "dt", "train_step_time", "perf/time_per_step", "perf/step_time", "time/step_time", "timing/step_time", "train/step_time", "perf/iteration_time", "timing/iteration_time", "train/iteration_time", "timing/train_step_timing", "batch (t)"), ("step_time", _S)),
    **dict.fromkeys(("it/sec", "iter/sec", "iters/sec"), ("step_time", 0.0)),
    **dict.fromkeys(("step_time_ms", "iter_ms", "step_ms", "elapsed_time_per_iteration_ms", "iter_time_ms"), ("step_time", _MS)),
    **dict.fromkeys(("tokens_per_sec_per_gpu", "tokens_per_sec", "tokens_per_second", "tokens/s", "tok/s", "tok/sec", "tps", "wps", "throughput", "samples/s", "samples_per_second", "samples/sec", "samples_per_sec", "currsamplespersec", "throughput(tps)", "train_samples_per_second", "tokens/sec", "throughput/device/tokens_per_sec", "tokens_per_second_per_gpu", "interval_samples_per_second", "interval_tokens_per_second_per_device", "throughput/device/tokens_per_second", "throughput/device/tps", "perf/throughput", "throughput/batches_per_sec", "tgs", "tokens/s/device", "train_speed", "samples per second", "speed", "ups", "throughput/samples_per_sec", "throughput/tokens_per_sec", "throughput/device/samples_per_sec", "perf/tokens_per_sec", "perf/tokens_per_second", "train/tokens_per_sec", "train/tokens_per_second", "perf/samples_per_sec", "train/throughput", "train/samples_per_sec"), ("throughput", 1.0)),
    **dict.fromkeys(("throughput per gpu", "tflops", "tflops_per_gpu", "tflops per gpu", "tflop/s/gpu", "model_tflops_per_gpu", "approx flops per gpu", "tflop/s/device", "train_throughput_per_npu", "model_tflops", "train/tflops"), ("tflops", 1.0)),
    **dict.fromkeys(("memory", "peak_memory_usage", "max_memory", "max_memory_allocated", "maxmemallocated", "max mem", "mem", "peak_memory", "memory_gb", "max_mem", "memory/max_active(gib)", "mem-max-allocated-bytes", "gpu_mem", "gb", "memory_gib", "mem_gib", "mem_gb", "peak_memory_active", "peak_memory_alloc", "memory/max_mem_active", "memory/max_active", "memory/max_mem_allocated", "perf/max_memory_allocated_gb", "max_memory_allocated_gb", "memory/peak_allocated_mem", "max_memory_gib", "peak_memory_gib", "peak mem", "system/peak gpu memory"), ("memory", 1.0)),
    **dict.fromkeys(("memallocated", "memory_allocated", "mem_allocated", "cuda_memory_allocated", "memory_allocated_gib", "mem_allocated_gib"), ("memory", 1.0)),
    **dict.fromkeys(("memory_reserved", "memory_reserved_gib", "max_memory_reserved", "max_memory_reserved_gib", "reserved_gib", "mem_reserved_gib", "memory_reserved_gb", "peak_memory_reserved", "memory/device_mem_reserved", "memory/device_reserved", "cuda_max_memory_reserved", "reserved", "memory/max_reserved(gib)", "perf/max_memory_reserved_gb", "max_memory_reserved_gb"), ("memory_reserved", 1.0)),
    **dict.fromkeys(("data_time", "data time", "data", "data_load_time", "data_load", "dataloader_time", "load_time", "data_loading", "time_metrics/data_loading(s)", "batch-generator", "data_wait", "data_s", "load_data"), ("data_time", _S)),
    **dict.fromkeys(("fwd", "forward", "forward_time", "forward-compute", "forward_time_s", "fwd_time"), ("forward_time", _S)),
    **dict.fromkeys(("bwd", "backward", "backward_time", "backward_and_allreaduce_time", "backward_and_allreduce_time", "backward-compute", "backward_time_s", "bwd_time"), ("backward_time", _S)),
    **dict.fromkeys(("optimizer_time", "optimizer", "optim_time", "optim", "step_microstep", "optimizer_step", "optim_step_time", "opt_time", "optimizer_time_s"), ("optimizer_time", _S)),
    **dict.fromkeys(("queue", "queue_depth", "queue depth", "prefetch_queue", "qsize"), ("queue", 1.0)),
    **dict.fromkeys(("global batch size", "global_batch_size", "batch_size", "global_bs", "bsz", "total_batch_size"), ("batch_size", 1.0)),
    **dict.fromkeys(("consumed samples", "consumed_samples", "samples", "samples_seen", "num_samples", "samples_count"), ("samples", 1.0)),
    **dict.fromkeys(("number of skipped iterations", "skipped", "skipped_iterations", "skipped_steps"), ("skipped", 1.0)),
    **dict.fromkeys(("number of nan iterations", "nan_iterations"), ("nan_steps", 1.0)),
    **dict.fromkeys(("_timestamp", "timestamp", "unix_time"), ("time", 1.0)),
    **dict.fromkeys(("global_rank", "rank"), ("rank", 1.0)),
    **dict.fromkeys(CHINESE_STEPS, ("step", 1.0)),
    **dict.fromkeys(("轮次", "训练轮次", "当前轮次", "轮数", "训练轮数"), ("epoch", 1.0)),
    **dict.fromkeys(("损失", "训练损失", "平均损失", "总损失", "损失值", "训练loss"), ("loss", 1.0)),
    **dict.fromkeys(("验证损失", "测试损失", "评估损失"), ("val_loss", 1.0)),
    **dict.fromkeys(("梯度范数", "梯度", "全局梯度范数"), ("grad_norm", 1.0)),
    **dict.fromkeys(("学习率", "当前学习率"), ("lr", 1.0)),
    **dict.fromkeys(("损失缩放", "损失缩放系数", "缩放因子"), ("loss_scale", 1.0)),
    **dict.fromkeys(("每步耗时", "单步耗时", "步耗时", "单步时间", "每步时间", "迭代耗时", "每步用时", "单步用时"), ("step_time", _S)),
    **dict.fromkeys(("吞吐", "吞吐量", "吞吐率", "训练吞吐"), ("throughput", 1.0)),
    **dict.fromkeys(("显存", "显存占用", "峰值显存", "最大显存", "显存峰值"), ("memory", 1.0)),
    **dict.fromkeys(("数据耗时", "数据加载耗时", "数据时间", "数据加载时间", "取数耗时"), ("data_time", _S)),
    **dict.fromkeys(("前向耗时", "前向时间"), ("forward_time", _S)),
    **dict.fromkeys(("反向耗时", "反向时间"), ("backward_time", _S)),
    **dict.fromkeys(("优化器耗时", "优化器时间"), ("optimizer_time", _S)),
}  # fmt: skip
"""Name as printed, in lower case -> column and factor to its unit."""
PREFERRED: dict[str, tuple[str, ...]] = {
    "step": ("current_steps", "total step", "total_step", "trainer/global_step", "train/global_step", "global_step", "global step", "globalstep", "_step", "num_updates"),
    "memory": ("maxmemallocated", "max_memory_allocated", "max_memory", "max_mem"),
    "throughput": ("currsamplespersec", "tokens_per_sec_per_gpu", "tokens_per_second"),
    "loss": ("loss", "reduced_train_loss"),
}  # fmt: skip
"""Names that win where a line holds several for one column."""
RECIPROCAL = 0.0
"""Factor of a rate whose reciprocal is wanted; no other is 0."""
LAST = frozenset({"update"})
"""Names that count only where a line holds no other for their column."""
MEMORY_UNITS = {
    "gib": 1.0, "gb": 1.0, "g": 1.0, "mib": 1 / 1024, "mb": 1 / 1024, "m": 1 / 1024, "kb": 1 / 1024**2, "b": 1 / 1024**3,
}  # fmt: skip
"""Unit behind a number of memory -> GiB; decimal units are what programs call binary ones."""
