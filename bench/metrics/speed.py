"""How fast step lines become a table: 10 million lines of Megatron-LM (3.6 GB), and 400,000 each of other formats.

python bench/metrics/speed.py            # makes its files in a temporary folder and removes them
python bench/metrics/speed.py FILE…      # reads these
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src")]

from firstfault.metrics.read import read_source_steps  # noqa: E402
from firstfault.readers.open import open_inputs  # noqa: E402

OTHERS = {
    "nemo": "Training epoch 0, iteration {i}/999999 | lr: 0.0001758 | global_batch_size: 32 | global_step: {i} | reduced_train_loss: 2.{f} | train_step_timing in s: 2.{f} | tokens_per_sec_per_gpu: 6.859e+03 | consumed_samples: {n}\n",
    "plain-bars": "step {i} | loss: 3.{f} | lr: 1.0e-04 | grad_norm: 0.9{f} | dt: 410.{f}ms | tok/sec: 12345.6 |\n",
    "deepspeed": "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=0, lr=[1.0e-05], mom=[(0.9, 0.95)]\n",
    "titan": "[titan] 2026-05-09 21:41:33,123 - root - INFO - step: {i}  loss:  7.{f}  grad_norm:  1.{f}  memory: 40.21GiB(50.80%)  tps: 6,012  tflops: 350.1  mfu: 35.4%\n",
    "hf": "{{'loss': 3.{f}, 'grad_norm': 1.{f}, 'learning_rate': 2.04e-06, 'epoch': 0.{f}}}\n",
    "jsonl": '{{"step": {i}, "train/loss": 2.{f}, "grad_norm": 0.{f}, "lr": 1.0e-04}}\n',
    "funasr": "rank: 3, epoch: 1/10, total step: {i}, (loss_avg_rank: 0.{f}), (lr: 1.2e-05), {{'data_load': '0.001', 'forward_time': '0.2{f}', 'backward_time': '0.3{f}', 'optim_time': '0.05', 'total_time': '0.6{f}'}}\n",
    "tqdm": "{p:3d}%|#####     | {i}/400001 [10:00<10:00, 26.{g}it/s, loss=3.{g}]\r",
    "csv": "{i},2.{f},0.{f},1.0e-04,0.4{f}\n",
}  # fmt: skip
MEGATRON = (
    " [2026-08-{d:02d} {h:02d}:{m:02d}:{s:02d}.123456] iteration {i:8d}/10000000 | consumed samples: {n:12d} | elapsed time per iteration (ms): 12{g}.{g} | "
    "throughput per GPU (TFLOP/s/GPU): 4{g}.{g} | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 2.{f}E+00 | loss scale: 1.0 | grad norm: 0.{g}7 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def write(path, form, count):
    with path.open("w", encoding="utf-8", buffering=1 << 22) as file:
        if form == "csv":
            file.write("step,loss,grad_norm,lr,step_time\n")
        line = MEGATRON if form == "megatron" else OTHERS[form]
        for i in range(1, count + 1):
            file.write(
                line.format(
                    i=i, n=i * 256, f=f"{i * 7919 % 1000000:06d}", g=f"{i % 90 + 10}", p=i * 100 // count, d=1 + i // 86400 % 28,
                    h=i // 3600 % 24, m=i // 60 % 60, s=i % 60,
                )
            )  # fmt: skip


def measure(path, name):
    wall, cpu = time.perf_counter(), _cpu()
    with open_inputs([path]) as opened:
        rows = sum(t.height for s in opened.sources if (t := read_source_steps(opened.store, s)) is not None)
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    peak = sum(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6
    print(
        f"{name:12} {rows:>11,} rows  {wall:6.2f} s wall  {cpu:6.2f} s CPU  {rows / wall / 1e6:5.2f} M/s  {rows / cpu / 1e6:5.2f} M per CPU s  peak {peak:.2f} GB"
    )


def _cpu():
    return sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main():
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            measure(name, Path(name).name)
        return
    with tempfile.TemporaryDirectory() as folder:
        for form, count in [*((f, 400_000) for f in OTHERS), ("megatron", 10_000_000)]:
            path = Path(folder) / (
                f"{form}.jsonl" if form == "jsonl" else "metrics.csv" if form == "csv" else f"{form}.log"
            )
            write(path, form, count)
            measure(path, form)
            path.unlink()


if __name__ == "__main__":
    main()
