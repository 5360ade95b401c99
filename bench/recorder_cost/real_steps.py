"""What the recorder costs a real training step of torch of 5 ms: loader, forward, backward, all-reduces and optimizer, on one thread.

    python bench/recorder_cost/real_steps.py [--runs 30] [--steps 200]

Needs torch. Each pair is one step with the hooks in place and one in which they are taken out of torch, in an order drawn by lot,
in one thread on one processor whose own time is counted. Steps are short here: batches are timed in one run of ten, as in one
stretch of ten. The bound is that of `run.py`. As many pairs in which nothing is put in on either side stand between them: what is
found there is the instrument's own, and no bound can be lower than its width. What the recorder's thread takes, once a
second and beside the steps, is measured apart: one look is timed at its place behind a step, when the caches are the program's.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "src")]

WIDTH, BATCH = 256, 32
BUCKETS = 4
WARM = 50
"""Steps that are not timed yet: the first ones of a model take twice as long as all others."""


def training(torch, layers: int, hooks: Hooks):
    """One step of a small model with a loader that never ends, and with the calls of torch.distributed that DDP would make."""
    dist = torch.distributed
    model = torch.nn.Sequential(
        *(m for _ in range(layers) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())), torch.nn.Linear(WIDTH, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    data = torch.utils.data.TensorDataset(torch.randn(BATCH * 1_000_000, 1).expand(-1, WIDTH))
    batches = iter(torch.utils.data.DataLoader(data, batch_size=BATCH))
    bucket = torch.zeros(1024)

    def step() -> None:
        (batch,) = hooks.next(batches)
        model(batch).square().mean().backward()
        for _ in range(BUCKETS):
            dist.all_reduce(bucket)
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--steps", type=int, default=200)
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=memory) as local:
        os.environ.update(RANK="0", WORLD_SIZE="1", FIRSTFAULT_RECORD_DIR=folder, FIRSTFAULT_RECORD_LOCAL=local, FIRSTFAULT_RECORD_MONITOR="0")  # fmt: skip
        from run import STEP_S, bound, paired

        from firstfault.recorder import api
        from firstfault.recorder.hooks.timing import SAMPLED, SHORT_NS
        from firstfault.recorder.listener import LOOK_S
        from firstfault.recorder.ring import LIVE

        api.start()
        import torch

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        recorder, layers, spent, hooks = api.current(), 1, 0.0, Hooks()
        while spent < STEP_S:
            layers += 1
            step = training(torch, layers, hooks)
            spent = usual(step)
        LIVE.owner = None  # the optimizers of smaller models are gone
        before = recorder.ring.beats
        assert spent * 1e9 < SHORT_NS
        # To go through all that torch has imported takes as long as ten steps, and falls on one of two by chance.
        gc.collect()
        gc.freeze()
        shares, nothing = [], []
        for number in range(chosen.runs):
            hooks.clocks = number % SAMPLED == 0  # whole runs: what is seldom would fall to the cut at the ends of one
            shares.append(paired(step, hooks.put, chosen.steps, number))
            nothing.append(paired(step, hooks.put_nothing, chosen.steps, number))
        done = recorder.ring.beats - before
        hooks.put(on=False)
        spent = (spent + usual(step)) / 2
        print(
            f"torch {torch.__version__}, {layers} layers, {spent * 1000:.1f} ms a step, {done} steps were counted with it on"
        )
        for name, found in (("paired", shares), ("nothing on either side", nothing)):
            mean, error = statistics.fmean(found), statistics.stdev(found) / len(found) ** 0.5
            print(
                f"  {name}, {len(found)} runs of {chosen.steps}: mean {mean:+.3f} %, upper 95 % bound {mean + bound(len(found)) * error:+.3f} %"
            )
        timed = statistics.fmean(shares[::SAMPLED])
        print(f"  of them with clocks around each batch, one in {SAMPLED}: mean {timed:+.3f} %")
        hooks.put(on=True)
        looks = [looked(step, recorder) for _ in range(100)]
        print(f"  a look: {statistics.median(looks) / 1000:.0f} us of the interpreter, once in {LOOK_S:.0f} s: {statistics.median(looks) / LOOK_S / 1e7:.4f} %")  # fmt: skip


class Hooks:
    """The hooks that a step meets, which can be taken out of torch and put in again."""

    def __init__(self) -> None:
        from firstfault.recorder.hooks.timing import timing

        # Called as the class would: to change a class at each step would cost more than what is measured.
        self._base = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter  # noqa: SLF001 - where the hook sits
        self._clocked = self._base.__next__
        self._plain = self.next = self._clocked.__wrapped__
        self.clocks = True
        """Whether batches are timed while the hooks are in; short steps have it in one stretch of so many."""
        self._after = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks  # noqa: SLF001
        self._hooks = dict(self._after)
        assert self._hooks
        timing.look = lambda *_, **__: None  # the lot decides here

    def put(self, *, on: bool) -> None:
        """Puts all in, or takes all out."""
        self.next = self._clocked if on and self.clocks else self._plain
        self._after.clear()
        if on:
            self._after.update(self._hooks)

    def put_nothing(self, *, on: bool) -> None:
        """Does what `put` does, and leaves nothing in."""
        self.put(on=on)
        self.put(on=False)


def usual(step) -> float:
    """Seconds of this thread that a step takes once it has been done some times."""
    for _ in range(WARM):
        step()
    begin = time.thread_time()
    for _ in range(WARM):
        step()
    return (time.thread_time() - begin) / WARM


def looked(step, recorder) -> int:
    """ns of one look behind a step."""
    step()
    begin = time.monotonic_ns()
    recorder.looker.look()
    return time.monotonic_ns() - begin


if __name__ == "__main__":
    main()
