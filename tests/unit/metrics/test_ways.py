"""The fast ways of reading step lines give what reading every line by itself gives."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from firstfault.metrics.blocks import Shapes, read_block

FORMS = {
    "megatron": " [2026-08-{d:02d} {h:02d}:59:{m:02d}.{f:06d}] iteration {i:8d}/ 500000 | consumed samples: {n:12d} | elapsed time per iteration (ms): {x:.1f} | learning rate: {y:.6E} | lm loss: {y:.6E} | loss scale: 1.0 | grad norm: {z:.3f} | number of skipped iterations: {k:3d} |",
    "nemo": "Training epoch 0, iteration {i}/999999 | lr: {y:.4g} | global_step: {i} | reduced_train_loss: {z:.4g} | train_step_timing in s: {x:.4g}",
    "deepspeed": "[2026-08-{d:02d} {h:02d}:19:{m:02d},{k:03d}] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped={k}, lr=[{y:.1e}], mom=[(0.9, 0.95)]",
    "titan": "[titan] 2026-05-09 {h:02d}:41:33,123 - root - INFO - step: {i:2d}  loss: {z:7.4f}  grad_norm: {s:7.4f}  memory: {x:5.2f}GiB(50.80%)  tps: {n:,}",
    "titan, coloured": "[rank0]:[titan] 2026-05-09 {h:02d}:41:33,123 - root - INFO - \x1b[31mstep: {i:2d}  \x1b[38;2;18;6;0mloss: {z:8.5f}  \x1b[33mgrad_norm: {s:7.4f}  \x1b[36mmemory: {x:5.2f}GiB({z:.2f}%)  \x1b[34mtps: {n:,}  \x1b[36mtflops: {x:,.2f}\x1b[39m",
    "repr": "{{'loss': {z!r}, 'grad_norm': {x!r}, 'learning_rate': {y!r}, 'epoch': {z!r}}}",
    "strings": "{{'loss': '{z:.4g}', 'grad_norm': '{s:.4g}', 'learning_rate': '{y:.4g}', 'epoch': '{x:.4g}'}}",
    "jsonl": '{{"step": {i}, "loss": {s!r}, "grad_norm": {x}, "lr": {y}, "step_time": {z}}}',
    "signed": "step {i} | loss: {s: .4f} | reward {s:+.2f} | grad_norm: {x:8.3f}",
    "us_date": "{d:02d}/12/2026 {h:02d}:00:{m:02d} step {i} loss {z:.3f} lr {y:.2e}",
    "bar": " {k:2d}%|##   | {i}/500000 [10:00<10:00, {x:.2f}it/s, loss={z:.3g}]",
    "timers": "time (ms) | fwd: {x:.2f} | bwd: {z:.2f} | step: {y:.2f}",
}
OTHER = (
    "validation loss at iteration {i} | lm loss value: {z:.6E} | lm loss PPL: {x:.6E} |",
    "step {i} | loss: nan | grad_norm: inf",
    "saving checkpoint at iteration {i:7d} to /ckpt in torch_dist format",
    "", "-----", "step", "1-2 loss 3", "loss: 1e400 step: 12345678901234567890 lr 1.5e-320",
)  # fmt: skip


def lines_of(rng: np.random.Generator, forms: list[str], count: int) -> bytes:
    text = []
    at = int(rng.integers(1, 120_000))
    for n in range(count):
        form = forms[int(rng.integers(len(forms)))]
        scale = 10.0 ** int(rng.integers(-3, 4))
        z = float(np.float32(rng.random() * 9)) if rng.random() < 0.5 else round(float(rng.random() * 9), 4)
        text.append(
            form.format(
                i=at + n, n=(at + n) * 256, d=1 + n % 28, h=n % 24, m=n % 60, f=int(rng.integers(10**6)), k=n % 100,
                x=float(rng.random() * 1000 * scale), y=float(rng.random() * 10.0 ** int(rng.integers(-9, 3))), z=z,
                s=float(rng.normal() * 5),
            )
        )  # fmt: skip
    return ("\r" if rng.random() < 0.1 else "\n").join(text).encode() + b"\n"


def rows(data: bytes, *, fast: bool) -> list[tuple[int, list[tuple[str, bytes]]]]:
    """Every row with the bytes of its values: NaN is equal to itself, and -0.0 is not 0.0."""
    found = []
    for part in read_block(data, 7, Shapes(), fast=fast):
        for i, line in enumerate(part.line.tolist()):
            values = ((n, float(v[i])) for n, v in part.columns.items())
            found.append((line, sorted((n, struct.pack("<d", v) if v == v else b"nan") for n, v in values)))
    return sorted(found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", FORMS)
def test_lines_of_one_format(name: str, seed: int) -> None:
    data = lines_of(np.random.default_rng([seed, len(name)]), [FORMS[name]], 400)
    slow = rows(data, fast=False)
    assert len(slow) == 400
    assert rows(data, fast=True) == slow


@pytest.mark.parametrize("power", [-320, -30, -25, -18, -16, 16, 18, 30, 36, 300])
@pytest.mark.parametrize("form", ["step: {i:06d} loss: {x:.6e} lr: 1.0e-04", "step: {i} loss: {x:.6e} lr: {y:.3g}"])
def test_numbers_so_large_or_small_that_their_power_of_ten_is_no_exact_float(form: str, power: int) -> None:
    data = "".join(
        form.format(i=n, x=float(f"{1 + n / 997:.4f}e{power}"), y=n / 7) + "\n" for n in range(1, 300)
    ).encode()
    slow = rows(data, fast=False)
    assert len(slow) == 299
    assert rows(data, fast=True) == slow


@pytest.mark.parametrize("seed", range(30))
def test_lines_of_formats_that_take_turns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    forms = [str(f) for f in rng.choice([*FORMS.values(), *OTHER], size=int(rng.integers(2, 6)))]
    data = lines_of(rng, forms, 500)
    assert rows(data, fast=True) == rows(data, fast=False)


def test_words_that_differ_where_numbers_stand_at_the_same_places() -> None:
    """Every other line is of another metric, of the same length, and one line in a thousand of a third."""
    lines = [f"step {1000 + n} | {'eval' if n % 2 else 'loss'}: 2.{n % 90 + 10} | lr: 0.01" for n in range(2000)]
    lines[999] = lines[999].replace("eval", "frog").replace("loss", "frog")
    lines[1000] = lines[1000].replace("loss", "toad")
    data = "\n".join(lines).encode()
    found = rows(data, fast=True)
    assert found == rows(data, fast=False)
    with_loss = [line for line, values in found if any(n == "loss" for n, _ in values)]
    assert with_loss == [7 + n for n in range(0, 2000, 2) if n != 1000]
