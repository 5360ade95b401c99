"""What the recorder costs a program: ns a call, share of a 5 ms step in paired stretches, memory, and growth over many steps.

    python bench/recorder_cost/run.py [--runs 30] [--steps 60]

A run is pairs of neighbouring steps, one with the calls that a rank with a loader makes and one without, in an order drawn by
lot, in one thread on one processor whose own time is counted: other load of the machine counts as little as can be. The bound
is that of a two-sided interval of 95 % over the runs. Needs nothing but this repository.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

STEP_S = 0.005


def resident_kb() -> int:
    """Memory of this process that is its own or shared, in KB."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def calibrated() -> int:
    """Rounds of the stand-in for a step that take 5 ms of this processor."""
    rounds, spent = 1000, 0.0
    while spent < STEP_S:
        rounds = int(rounds * 1.3)
        begin = time.process_time()
        work(rounds)
        spent = time.process_time() - begin
    return int(rounds * STEP_S / spent)


def work(rounds: int) -> int:
    """Plain work of the interpreter, which takes as much of a cache as anything else."""
    total = 0
    for n in range(rounds):
        total += n & 7
    return total


def per_call(call, count: int = 200_000) -> float:
    """ns of one call, the best of five."""
    best = float("inf")
    for _ in range(5):
        begin = time.process_time_ns()
        for _ in range(count):
            call()
        best = min(best, (time.process_time_ns() - begin) / count)
    return best


def paired(work: Callable[[], object], switched: Callable[..., None], pairs: int, seed: int) -> float:
    """Cost of the recorder in percent of a step: the middle of the differences of two neighbouring steps, one with it.

    Which of the two comes first is drawn by lot, so that nothing that goes up and down with time, and nothing that the first
    of two steps does for the second, falls on one side. A tenth at each end is cut off: there another process came between.
    """
    draw = random.Random(seed)
    differences, plain = [], []
    clock = time.thread_time_ns

    def one(*, on: bool) -> int:
        switched(on=on)
        begin = clock()
        work()
        return clock() - begin

    one(on=True)
    for _ in range(pairs):
        first = draw.random() < 0.5
        spent = {first: one(on=first)}
        spent[not first] = one(on=not first)
        differences.append(spent[True] - spent[False])
        plain.append(spent[False])
    return 100 * trimmed(differences) / trimmed(plain)


def trimmed(values: list[int]) -> float:
    """The mean without a tenth at each end."""
    cut = len(values) // 10
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def bound(runs: int) -> float:
    """How many standard errors above the mean a two-sided interval of 95 % ends: of Student's distribution, to three digits."""
    freedom = runs - 1
    return 1.96 + 2.37 / freedom + 2.8 / freedom**2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--steps", type=int, default=60)
    chosen = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import firstfault.recorder as r

    off = per_call(r.step)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=memory) as local:
        os.environ.update(RANK="0", WORLD_SIZE="1", FIRSTFAULT_RECORD_DIR=folder, FIRSTFAULT_RECORD_LOCAL=local, FIRSTFAULT_RECORD_MONITOR="0")  # fmt: skip
        before = resident_kb()
        begin = time.process_time()
        r.start()
        start_s = time.process_time() - begin
        started = resident_kb()
        from firstfault.recorder.api import current
        from firstfault.recorder.hooks.optimizer import after_step
        from firstfault.recorder.hooks.timing import clocked
        from firstfault.recorder.ring import LIVE

        class Batches:
            __next__ = clocked(lambda _batches: None)

        batches, optimizer = Batches(), Batches()
        LIVE.owner = optimizer._optimizer_step_post_hooks = {}  # noqa: SLF001 - as torch makes it
        print("ns a call (best of five)")
        print(f"  step(), off            {off:8.0f}")
        for name, call in (
            ("step()", r.step),
            ("phase(name)", lambda: r.phase("data")),
            ("metrics(loss=…)", lambda: r.metrics(loss=1.0)),
            ("item(path)", lambda: r.item("/data/set/shard-00017.tar")),
            ("a batch, asked and given", lambda: next(batches)),
            ("a step of an optimizer", lambda: after_step(optimizer, (), {})),
            ("a look, once a second", current().looker.look),
        ):
            print(f"  {name:<24}{per_call(call, 50_000):6.0f}")

        def recorded() -> None:
            """What a step tells that says all by itself: a batch, its step, a phase around each part, a metric."""
            next(batches)
            for name in ("forward", "backward", "optimizer"):
                r.phase(name)
            r.step()
            r.metrics(loss=1.0)

        rounds = calibrated()
        now = {"on": False}

        def step() -> None:
            work(rounds)
            if now["on"]:
                recorded()

        def switched(*, on: bool) -> None:
            now["on"] = on

        shares = [paired(step, switched, chosen.steps, number) for number in range(chosen.runs)]
        mean, error = statistics.fmean(shares), statistics.stdev(shares) / len(shares) ** 0.5
        told = per_call(recorded, 20_000)
        print(
            f"share of a step of {STEP_S * 1000:.0f} ms, {len(shares)} runs of {chosen.steps} pairs of neighbouring steps"
        )
        print(f"  paired: mean {mean:+.3f} %, upper 95 % bound {mean + bound(len(shares)) * error:+.3f} %")
        print(f"  by its calls alone: {told / 1000:.1f} us a step, {100 * told / 1e9 / STEP_S:.3f} %")
        warm = resident_kb()
        for _ in range(1_000_000):
            r.step()
        print(f"memory: {started - before} KB by start, {resident_kb() - warm:+d} KB by a million steps; start took {start_s:.3f} s of the processor")  # fmt: skip
        print(f"disk: {sum(f.stat().st_size for f in Path(folder).rglob('*') if f.is_file())} bytes")


if __name__ == "__main__":
    main()
