"""How fast what trainers and monitors write becomes a table: 10 million lines of Megatron-LM (3.6 GB), and 400,000 each of other formats.

python bench/metrics/speed.py            # makes its files in a temporary folder and removes them
python bench/metrics/speed.py --only titan --only csv --count 60000
python bench/metrics/speed.py FILE…      # reads these
"""

from __future__ import annotations

import argparse
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src")]

from firstfault.pipelines.metrics import tables_of  # noqa: E402
from firstfault.readers.open import open_inputs  # noqa: E402

OTHERS = {
    "nemo": "Training epoch 0, iteration {i}/999999 | lr: 0.0001758 | global_batch_size: 32 | global_step: {i} | reduced_train_loss: 2.{f} | train_step_timing in s: 2.{f} | tokens_per_sec_per_gpu: 6.859e+03 | consumed_samples: {n}\n",
    "plain-bars": "step {i} | loss: 3.{f} | lr: 1.0e-04 | grad_norm: 0.9{f} | dt: 410.{f}ms | tok/sec: 12345.6 |\n",
    "deepspeed": "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=0, lr=[1.0e-05], mom=[(0.9, 0.95)]\n",
    "titan": "[titan] 2026-05-09 21:41:33,123 - root - INFO - step: {i}  loss:  7.{f}  grad_norm:  1.{f}  memory: 40.21GiB(50.80%)  tps: 6,012  tflops: 350.1  mfu: 35.4%\n",
    "titan-colours": "[rank0]:[titan] 2026-05-09 21:41:33,123 - root - INFO - \x1b[31mstep: {i:2d}  \x1b[38;2;180;60;0mloss:  7.{f}  \x1b[33mgrad_norm:  1.{f}  \x1b[36mmemory: 40.21GiB(50.80%)  \x1b[34mtps: {v:,}  \x1b[36mtflops: {w:,.2f}  \x1b[35mmfu: {g}.40%\x1b[39m\n",
    "lightning": "Epoch 1: {p:3d}%|#####     | {i}/400001 [10:00<10:00, 26.{g}it/s, v_num=0, train_loss=0.{f}]\r",
    "nemo-1": "Epoch 0: {p:3d}%|#####     | {i}/400001 [6:28:43<94:39:17,  1.{g}it/s, loss=2.6, v_num=95nc, reduced_train_loss=2.{g}0, global_step={i}.0, consumed_samples=2.56e+7]\r",
    "k2": "2026-01-14 00:59:40,308 INFO [train.py:1072] (0/4) Epoch 2, batch {i}, loss[loss=1.{g}, simple_loss=1.{g}9, over 115{g}.00 frames. ], tot_loss[loss=1.{g}6, over 2349439.00 frames. ], batch size: {g}, lr: 2.94e-02, grad_scale: 0.25\n",
    "hf-5": "{{'loss': '3.{g}3', 'grad_norm': '1.{f}', 'learning_rate': '2.04e-06', 'epoch': '0.{f}'}}\n",
    "hf": "{{'loss': 3.{f}, 'grad_norm': 1.{f}, 'learning_rate': 2.04e-06, 'epoch': 0.{f}}}\n",
    "jsonl": '{{"step": {i}, "train/loss": 2.{f}, "grad_norm": 0.{f}, "lr": 1.0e-04}}\n',
    "funasr": "rank: 3, epoch: 1/10, total step: {i}, (loss_avg_rank: 0.{f}), (lr: 1.2e-05), {{'data_load': '0.001', 'forward_time': '0.2{f}', 'backward_time': '0.3{f}', 'optim_time': '0.05', 'total_time': '0.6{f}'}}\n",
    "tqdm": "{p:3d}%|#####     | {i}/400001 [10:00<10:00, 26.{g}it/s, loss=3.{g}]\r",
    "csv": "{i},2.{f},0.{f},1.0e-04,0.4{f}\n",
    "nvidia-smi": "2026/05/09 21:{m:02d}:{s:02d}.123, {q}, {g}, {w}, {g}, 1980\n",
    "dcgm": "GPU {q}    {g}     {w}     {g}     1980\n",
    "black-box": '{{"firstfault":"record/1","kind":"heartbeat","time":"2026-05-09T21:{m:02d}:{s:02d}.123+00:00","host":"node-01","pid":4711,"rank":{q},"local_rank":{q},"step":{i},"phase":"forward"}}\n',
}  # fmt: skip
HEADERS = {
    "csv": "step,loss,grad_norm,lr,step_time\n",
    "nvidia-smi": "timestamp, index, utilization.gpu [%], memory.used [MiB], temperature.gpu, clocks.sm [MHz]\n",
    "dcgm": "#Entity   GPUTL   FBUSD   TMPTR   SMCLK\n",
}
NAMES = {"jsonl": "metrics.jsonl", "csv": "metrics.csv", "nvidia-smi": "smi.csv", "dcgm": "dcgmi-dmon.log", "black-box": "heartbeat.jsonl", "tensorboard": "events.out.tfevents.1778362893.node-01.4711.0"}  # fmt: skip
TAGS = ("train/loss", "train/grad_norm", "train/lr", "time_metrics/end_to_end(s)")
MEGATRON = (
    " [2026-08-{d:02d} {h:02d}:{m:02d}:{s:02d}.123456] iteration {i:8d}/10000000 | consumed samples: {n:12d} | elapsed time per iteration (ms): 12{g}.{g} | "
    "throughput per GPU (TFLOP/s/GPU): 4{g}.{g} | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 2.{f}E+00 | loss scale: 1.0 | grad norm: 0.{g}7 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def write(path, form, count):
    with path.open("w", encoding="utf-8", buffering=1 << 22) as file:
        file.write(HEADERS.get(form, ""))
        line = MEGATRON if form == "megatron" else OTHERS[form]
        for i in range(1, count + 1):
            file.write(
                line.format(
                    i=i, n=i * 256, f=f"{i * 7919 % 1000000:06d}", g=f"{i % 90 + 10}", p=i * 100 // count, d=1 + i // 86400 % 28,
                    h=i // 3600 % 24, m=i // 60 % 60, s=i % 60, q=i % 8, v=9000 + i * 31 % 3000, w=900 + i * 17 % 200,
                )
            )  # fmt: skip


def write_events(path, count):
    """An event file of TensorBoard with a record for each scalar, as its writers make one."""
    with path.open("wb", buffering=1 << 22) as file:
        file.write(_record(b"\x09" + struct.pack("<d", 1778362893.5) + b"\x1a\x0dbrain.Event:2"))
        for i in range(count):
            tag = TAGS[i % len(TAGS)].encode()
            value = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", 2 + i * 7919 % 1000 / 999)
            summary = b"\x0a" + bytes([len(value)]) + value
            step, at = b"", i // len(TAGS) + 1
            while at > 127:
                step, at = step + bytes([at & 127 | 128]), at >> 7
            event = b"\x09" + struct.pack("<d", 1778362893.5 + i) + b"\x10" + step + bytes([at])
            file.write(_record(event + b"\x2a" + bytes([len(summary)]) + summary))


def _record(data):
    """With its length; the checksums, which no reader of ours compares, are left at zero."""
    return struct.pack("<QI", len(data), 0) + data + bytes(4)


def measure(path, name, count=None):
    wall, cpu = time.perf_counter(), _cpu()
    with open_inputs([path]) as opened:
        tables, devices = tables_of(opened.store, opened.sources)
        rows = sum(t.height for t in tables) + sum(len(d.line) for d in devices)
    if name == "tensorboard":
        rows *= len(TAGS)  # a record for each scalar, a row for each step
    if count is not None and rows != count:
        print(f"{name}: {rows} rows of {count}")
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
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--only", action="append")
    parser.add_argument("--count", type=int, default=400_000)
    asked = parser.parse_args()
    for name in asked.files:
        measure(name, Path(name).name)
    if asked.files:
        return
    forms = [*((f, asked.count) for f in (*OTHERS, "tensorboard")), ("megatron", asked.count * 25)]
    for form, count in [f for f in forms if asked.only is None or f[0] in asked.only]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / NAMES.get(form, f"{form}.log")
            write_events(path, count) if form == "tensorboard" else write(path, form, count)
            measure(path, form, count)


if __name__ == "__main__":
    main()
