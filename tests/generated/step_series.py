"""Healthy and faulty courses of training, written as trainers print them; the truth is what was injected, never what was found.

A healthy course has noise with heavy tails, a warm-up, slow first steps, and by chance restarts, a batch that grows by plan, longer
sequences by plan, pauses for checkpoints and evaluations, a dynamic loss scale that searches, and logging intervals.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass, field

import numpy as np

FAULTS = (
    "nan", "nan_after_gradients", "loss_spike", "loss_rise", "grad_spike", "loss_scale_floor", "skipped_steps",
    "step_time_shift", "step_time_tail", "throughput_drop", "stall", "slow_rank", "ranks_differ", "memory_leak",
    "memory_jump", "data_share",
)  # fmt: skip
FOUND_AS = {
    "nan": {"nan"}, "nan_after_gradients": {"nan", "grad_spike"}, "throughput_drop": {"throughput_drop", "step_time_shift"},
    "step_time_shift": {"step_time_shift", "throughput_drop"}, "data_share": {"data_share", "step_time_shift"},
}  # fmt: skip
FORMATS = ("megatron", "titan", "jsonl", "csv", "plain", "nemo")
ODD = ("bar", "resume", "zeros", "speakers")
COLUMNS = (
    "loss",
    "grad_norm",
    "lr",
    "loss_scale",
    "step_time",
    "tps",
    "memory",
    "data",
    "fwd",
    "opt",
    "batch",
    "skipped",
)


@dataclass
class Course:
    """One run as text, and what was done to it."""

    files: dict[str, str]
    fault: str | None
    step: int | None
    """First abnormal step."""
    interval: int
    rank: int | None = None
    told: dict[str, object] = field(default_factory=dict)


def course(seed: int, fault: str | None) -> Course:
    """A run of a seed, healthy or with one fault in it."""
    rng = np.random.default_rng([seed, 0 if fault is None else 1 + FAULTS.index(fault)])
    interval = int(rng.choice([1, 1, 5, 10, 50]))
    rows = int(rng.integers(300, 1500))
    if fault in {"slow_rank", "ranks_differ"}:
        return _ranks(rng, fault, interval, rows // 3)
    form = str(rng.choice(FORMATS))
    steps = np.arange(1, rows + 1) * interval
    data, told = _healthy(rng, steps, fault)
    at = None if fault is None else int(rng.integers(int(rows * 0.3), int(rows * 0.8)))
    if at is not None:
        _inject(rng, data, at, str(fault), steps)
        if fault == "memory_leak" and told["restart"] is not None:
            told["restart"] = int(at * 0.8)  # a restart frees what leaked before it
    text = _write(form, steps, data, told, rng)
    name = {"jsonl": "metrics.jsonl", "csv": "metrics.csv"}.get(form, "train.log")
    return Course({name: text}, fault, None if at is None else int(steps[at]), interval, told={"form": form, **told})


def odd_course(seed: int, fault: str | None) -> Course:
    """A run of a seed in an awkward form, healthy or with one fault in it.

    One of: a bar redrawn on one line, a resume that goes back by 100 to 500 rows, zeros where a step measured nothing, and
    processes that write into one log without their ranks.
    """
    rng = np.random.default_rng([seed, 2000 if fault is None else 2001 + FAULTS.index(fault)])
    interval, rows = int(rng.choice([1, 1, 5, 10, 50])), int(rng.integers(500, 1500))
    odd, form = str(rng.choice(ODD)), str(rng.choice(FORMATS))
    steps = np.arange(1, rows + 1) * interval
    data, told = _healthy(rng, steps, fault)
    at = None if fault is None else int(rng.integers(int(rows * 0.3), int(rows * 0.8)))
    told |= {"form": form, "odd": odd, "restart": None}
    if at is not None:
        _inject(rng, data, at, str(fault), steps)
    if odd == "resume":
        # Behind the fault, or long before it: what a resume leaves of a fault at its own step is another question.
        restart = int(rng.integers(rows // 8, rows // 4)) if at is not None else int(rng.integers(150, rows))
        told |= {"restart": restart, "back": int(rng.integers(100, 500))}
    elif odd == "zeros":
        well = np.arange(rows) < (rows if at is None else at - 5)
        data["grad_norm"][rng.choice(np.flatnonzero(well), 3)] = 0.0
        data["tps"][rng.choice(np.flatnonzero(well), 1)] = 0.0
    elif odd == "bar":
        form = "bar"
    text = _write(form, steps, data, told, rng)
    if odd == "speakers":
        form = told["form"] = str(rng.choice(("titan", "jsonl", "plain")))
        text = _spoken(_write(form, steps, data, told, rng), rng)
    name = {"jsonl": "metrics.jsonl", "csv": "metrics.csv"}.get(form, "train.log")
    return Course({name: text}, fault, None if at is None else int(steps[at]), interval, told=told)


def _spoken(text, rng):
    """The lines of a run as several processes write them, each with a loss of its own, not always in order."""
    told = []
    for n, line in enumerate(text.splitlines()):
        for _ in range(3):
            own = re.sub(
                r"(loss\"?: {0,2})(\d\S*?)(?=[ ,])",
                lambda m: f"{m[1]}{float(m[2]) * (1 + 0.003 * rng.normal()):.5f}",
                line,
                count=1,
            )
            told.append((n + rng.random() * 1.3, own))
    return "".join(f"{line}\n" for _, line in sorted(told))


def sound_ranks(seed: int) -> Course:
    """A healthy run of a seed of which every rank writes its own file."""
    rng = np.random.default_rng([seed, 1000])
    run = _ranks(rng, "", int(rng.choice([1, 1, 5, 10, 50])), int(rng.integers(100, 500)))
    run.fault = run.step = run.rank = None
    return run


def _noise(rng, n):
    """Normal noise in which one value in 300 comes from a distribution four times as wide."""
    return rng.normal(size=n) * np.where(rng.random(n) < 1 / 300, 2.5, 1.0)


def _healthy(rng, steps, fault):
    n = len(steps)
    told = {"fp16": bool(rng.random() < 0.4) or fault in {"loss_scale_floor", "skipped_steps"}}
    progress = np.arange(n) / n
    loss = 1.8 + 8.5 * np.exp(-progress * rng.uniform(5, 30)) + 0.4 * (1 - progress)
    loss *= 1 + _noise(rng, n) * rng.uniform(0.003, 0.03)
    norm = (0.4 + 3 * np.exp(-progress * 20)) * np.exp(_noise(rng, n) * rng.uniform(0.05, 0.25))
    warm = max(1, n // 20)
    lr = 3e-4 * np.minimum(1, (np.arange(n) + 1) / warm) * (0.55 + 0.45 * np.cos(np.pi * progress))
    base = float(rng.uniform(0.3, 8))
    jitter = rng.uniform(0.005, 0.05)
    seconds = base * (1 + np.abs(_noise(rng, n)) * jitter)
    batch = np.full(n, 256.0)
    if rng.random() < 0.25:  # the batch grows by plan
        batch = 64.0 * 2 ** np.minimum(2, np.arange(n) * 5 // n)
        seconds *= batch / batch[0]
        told["ramp"] = True
    sequence = np.ones(n)
    if rng.random() < 0.2:  # sequences become longer by plan
        sequence = np.where(np.arange(n) < n * rng.uniform(0.2, 0.7), 1.0, 2.0)
        seconds *= sequence
        told["curriculum"] = True
    seconds[:2] *= rng.uniform(2, 20)
    memory = np.full(n, float(rng.uniform(20, 70)))
    memory *= 1 + 0.002 * np.minimum(1, np.arange(n) / max(10, n // 30))
    data = seconds * rng.uniform(0.005, 0.05) * np.exp(_noise(rng, n) * 0.2)
    scale, skipped = np.full(n, 1.0), np.zeros(n)
    if told["fp16"]:
        scale, skipped = _scaled(rng, n)
    restart = int(n * rng.uniform(0.2, 0.9)) if rng.random() < 0.3 else None
    told["restart"] = restart
    every = int(rng.choice([50, 100, 200])) if rng.random() < 0.5 else 0
    told["pause"] = every
    pause = np.zeros(n)
    if every:
        pause[every - 1 :: every] = rng.uniform(3, 60)
    told["eval"] = bool(rng.random() < 0.3)
    tokens = batch * 2048 * sequence / seconds
    return {
        "loss": loss, "grad_norm": norm, "lr": lr, "loss_scale": scale, "step_time": seconds, "tps": tokens, "memory": memory,
        "data": data, "fwd": seconds * 0.3, "opt": seconds * 0.05, "batch": batch, "skipped": skipped, "pause": pause,
        "sequence": sequence,
    }, told  # fmt: skip


def _scaled(rng, n):
    scale, skipped, value = np.empty(n), np.zeros(n), 2.0**16
    good = 0
    for i in range(n):
        good += 1
        if value > 2**12 and rng.random() < (0.5 if i < 6 else 0.004):
            value /= 2
            skipped[i] = 1
            good = 0
        elif good > 80 and value < 2**16:
            value *= 2
            good = 0
        scale[i] = value
    return scale, skipped


def _inject(rng, d, at, fault, steps):
    n = len(steps)
    if fault == "nan":
        d["loss"][at:] = np.nan
        d["grad_norm"][at:] = np.nan
    elif fault == "nan_after_gradients":
        grow = min(8, n - at - 4)
        d["grad_norm"][at : at + grow] *= 6 * np.arange(1, grow + 1)
        d["loss"][at + grow :] = np.nan
    elif fault == "loss_spike":
        length = int(rng.integers(1, 5))
        d["loss"][at : at + length] *= rng.uniform(1.6, 4)
    elif fault == "loss_rise":
        d["loss"][at:] *= rng.uniform(1.25, 2.5)
    elif fault == "grad_spike":
        d["grad_norm"][at : at + int(rng.integers(1, 4))] *= rng.uniform(8, 60)
    elif fault == "loss_scale_floor":
        value = d["loss_scale"][at - 1]
        for i in range(at, n):
            value = max(value / 2, 1.0 if rng.random() < 0.5 else 0.5)
            d["loss_scale"][i], d["skipped"][i] = value, 1
    elif fault == "skipped_steps":
        d["skipped"][at : at + 40] = 1
    elif fault in {"step_time_shift", "throughput_drop"}:
        slower = rng.uniform(1.3, 2.5)
        d["step_time"][at:] *= slower
        d["tps"][at:] /= slower
    elif fault == "step_time_tail":
        slow = (rng.random(n - at) < 0.2) * rng.uniform(1, 4, n - at)
        slow[0] = 2.0
        d["step_time"][at:] *= 1 + slow
    elif fault == "stall":
        d["pause"][at] = max(60.0, 15 * d["step_time"][at] * (steps[1] - steps[0]))
    elif fault == "memory_leak":
        d["memory"][at:] *= 1 + np.linspace(0, rng.uniform(0.15, 0.6), n - at)
    elif fault == "memory_jump":
        d["memory"][at:] *= rng.uniform(1.2, 1.6)
    elif fault == "data_share":
        waits = d["step_time"][at:] * rng.uniform(0.4, 1.5)
        d["data"][at:] += waits
        d["step_time"][at:] += waits
        d["tps"][at:] = d["batch"][at:] * 2048 * d["sequence"][at:] / d["step_time"][at:]


def _write(form, steps, d, told, rng):
    """The rows in one format; a restart repeats some steps, as a run from a checkpoint does."""
    order = list(range(len(steps)))
    if told["restart"] is not None:
        back = max(0, told["restart"] - int(told.get("back") or rng.integers(5, 40)))
        order = [*range(told["restart"]), *range(back, len(steps))]
    interval = int(steps[1] - steps[0])
    clock = 1_780_000_000.0
    lines = []
    if form == "csv":
        lines.append(
            "step,loss,grad_norm,lr,loss_scale,step_time,tokens_per_second,memory_gb,data_time,batch_size,skipped,timestamp"
        )
    for n, i in enumerate(order):
        seconds = d["step_time"][i]
        if told["restart"] is not None and n == told["restart"]:
            clock += 600
            seconds *= 4
        # A logger counts the mean over its interval; a pause falls into the row after it.
        seconds += d["pause"][i] / interval
        clock += seconds * interval
        lines.append(_line(form, int(steps[i]), {k: float(v[i]) for k, v in d.items()}, seconds, clock, steps))
        if told["eval"] and i % 150 == 149:
            if form == "megatron":
                lines += [
                    "-" * 60,
                    f" validation loss at iteration {steps[i]} | lm loss value: {d['loss'][i] * 1.02:.6E} | lm loss PPL: 1.0E+01 | ",
                ]
            clock += 15
    return ("\r" if form == "bar" else "\n").join(lines) + "\n"


def _line(form, step, v, seconds, clock, steps):
    stamp = dt.datetime.fromtimestamp(clock, dt.timezone.utc)
    if form == "megatron":
        loss = f"{v['loss']:.6E}" if np.isfinite(v["loss"]) else "NAN"
        norm = f" grad norm: {v['grad_norm']:.3f} |" if np.isfinite(v["grad_norm"]) else ""
        return (
            f" [{stamp:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/{steps[-1]:8d} | consumed samples: {step * 256:12d} | "
            f"elapsed time per iteration (ms): {seconds * 1000:.1f} | throughput per GPU (TFLOP/s/GPU): {v['tps'] / 4000 * v['step_time'] / seconds:.1f} | "
            f"learning rate: {v['lr']:.6E} | global batch size: {int(v['batch']):5d} | lm loss: {loss} | loss scale: {v['loss_scale']:.1f} |{norm} "
            f"number of skipped iterations: {int(v['skipped']):3d} | number of nan iterations:   0 |\n"
            f"mem info | step {step} | max_memory_allocated: {v['memory']:.3f} GB | data_time: {v['data']:.5f} s |"
        )
    if form == "titan":
        return (
            f"[titan] {stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03d} - root - INFO - step: {step:2d}  loss: {v['loss']:7.4f}  grad_norm: {v['grad_norm']:7.4f}  "
            f"memory: {v['memory']:5.2f}GiB(50.80%)  tps: {round(v['tps'] * v['step_time'] / seconds):,}  lr: {v['lr']:.3e}  loss_scale: {v['loss_scale']:g}  step_time: {seconds:.4f}  "
            f"data_time: {v['data']:.5f}  batch_size: {int(v['batch'])}  skipped: {int(v['skipped'])}"
        )
    if form == "nemo":
        return (
            f"Training epoch 0, iteration {step}/{steps[-1]} | lr: {v['lr']:.4g} | global_batch_size: {int(v['batch'])} | global_step: {step} | reduced_train_loss: {v['loss']:.4g} | "
            f"grad_norm: {v['grad_norm']:.4g} | train_step_timing in s: {seconds:.4g} | tokens_per_sec_per_gpu: {v['tps'] * v['step_time'] / seconds:.4g} | peak_memory_usage: {v['memory']:.4g} | "
            f"data_time: {v['data']:.4g} | loss_scale: {v['loss_scale']:g} | skipped: {int(v['skipped'])}"
        )
    row = {
        "step": step, "loss": v["loss"], "grad_norm": v["grad_norm"], "lr": v["lr"], "loss_scale": v["loss_scale"], "step_time": seconds,
        "tokens_per_second": v["tps"] * v["step_time"] / seconds, "memory_gb": v["memory"], "data_time": v["data"], "batch_size": int(v["batch"]),
        "skipped": int(v["skipped"]),
    }  # fmt: skip
    if form == "jsonl":
        return json.dumps({"_timestamp": clock, **row})
    if form == "csv":
        return ",".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in row.values()) + f",{clock:.3f}"
    if form == "bar":
        told = ", ".join(f"{k}={x:.5g}" for k, x in row.items() if k not in {"step", "step_time"})
        return f" {100 * step // steps[-1]:2d}%|###   | {step}/{steps[-1]} [01:00<10:00, {seconds:.4f}s/it, {told}]"
    return " | ".join([f"step {step}", *(f"{k}: {x:.5g}" for k, x in row.items() if k != "step")])


def _ranks(rng, fault, interval, rows):
    """Each rank writes its own file; loss and gradient norm are those of all."""
    world = int(rng.choice([4, 8, 16]))
    steps = np.arange(1, rows + 1) * interval
    at = int(rng.integers(int(rows * 0.3), int(rows * 0.8)))
    bad = int(rng.integers(0, world))
    shared, _ = _healthy(rng, steps, fault)
    if not fault:
        # These lines tell neither batch nor throughput: growth by plan would be a slowdown to everyone who reads them.
        grown = shared["sequence"] * shared["batch"] / shared["batch"][0]
        shared |= {name: shared[name] / grown for name in ("step_time", "data", "fwd", "opt")}
    phase = str(rng.choice(["data", "fwd", "opt"]))
    files = {}
    extra = shared["step_time"] * rng.uniform(0.25, 1.0)
    for rank in range(world):
        own = {k: v.copy() for k, v in shared.items()}
        for name in ("data", "fwd", "opt"):
            own[name] = shared[name] * (1 + np.abs(_noise(rng, rows)) * 0.04)
        if fault == "slow_rank":
            own["step_time"][at:] = shared["step_time"][at:] + extra[at:]
            if rank == bad:
                own[phase][at:] += extra[at:]
        elif fault == "ranks_differ" and rank == bad:
            own["grad_norm"][at:] *= 1 + 0.05 * rng.random(rows - at)
        lines = [
            f"rank: {rank}, step: {s}, loss: {own['loss'][i]:.6f}, grad_norm: {own['grad_norm'][i]:.6f}, step_time: {own['step_time'][i]:.4f}, "
            f"{{'data_time': '{own['data'][i]:.4f}', 'forward_time': '{own['fwd'][i]:.4f}', 'optim_time': '{own['opt'][i]:.4f}'}}"
            for i, s in enumerate(steps)
        ]
        files[f"rank{rank}.log"] = "\n".join(lines) + "\n"
    return Course(files, fault, int(steps[at]), interval, rank=bad, told={"phase": phase})
