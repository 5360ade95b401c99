"""How many injected faults are found at the right step, and how many healthy runs raise an alarm, by kind of point.

    python bench/metrics/quality.py --seeds 5000-5100
    python bench/metrics/quality.py --seeds 5000-5100 --margins

The thresholds were set on seeds below 1000; a figure is worth something only on others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "generated")]

from step_series import FAULTS, FOUND_AS, odd_course, sound_ranks  # noqa: E402
from step_series import course as plain_course  # noqa: E402

from firstfault.metrics.pace import Pace  # noqa: E402
from firstfault.metrics.points import alarms, find_points  # noqa: E402
from firstfault.metrics.ranks import between_ranks  # noqa: E402
from firstfault.metrics.read import read_source_steps  # noqa: E402
from firstfault.metrics.steps import by_rank  # noqa: E402
from firstfault.metrics.usage import Usage  # noqa: E402
from firstfault.metrics.values import Values  # noqa: E402
from firstfault.readers.open import open_inputs  # noqa: E402


def tables_of(run):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in run.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with open_inputs([folder]) as opened:
            return [t for s in opened.sources if (t := read_source_steps(opened.store, s, workers=1)) is not None]


def points_of(run):
    return find_points(tables_of(run))


def is_found(run, points):
    """Whether one of the kinds of an injected fault is told within two logging intervals of its first step, and on its rank."""
    kinds = FOUND_AS.get(run.fault, {run.fault})
    return any(
        p.kind.value in kinds
        and p.step is not None
        and abs(p.step - run.step) <= 2 * run.interval
        and (run.rank is None or p.rank == run.rank)
        for p in points
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0-20")
    parser.add_argument("--fault", action="append")
    parser.add_argument(
        "--healthy", type=int, default=None, help="healthy runs; as many as seeds times 5 where not given"
    )
    parser.add_argument("--margins", action="store_true", help="healthy runs only, with each threshold lowered in turn")
    parser.add_argument("--only", help="with --margins: these thresholds, parted by commas")
    parser.add_argument("-v", action="store_true")
    parser.add_argument(
        "--odd", action="store_true", help="awkward forms: redrawn bars, long resumes, zeros, processes without ranks"
    )
    asked = parser.parse_args()
    course = odd_course if asked.odd else plain_course
    first, last = map(int, asked.seeds.split("-"))
    total = good = 0
    faults = [f for f in FAULTS if not asked.odd or f not in {"slow_rank", "ranks_differ"}]
    for fault in () if asked.margins else asked.fault or faults:
        found = 0
        for seed in range(first, last):
            run = course(seed, fault)
            points = points_of(run)
            ok = is_found(run, points)
            found += ok
            if asked.v and not ok:
                print(
                    "  missed",
                    fault,
                    seed,
                    run.step,
                    run.interval,
                    run.rank,
                    run.told,
                    [(p.kind.value, p.step, p.rank) for p in points],
                )
        total, good = total + last - first, good + found
        print(f"{fault:22} {found}/{last - first}")
    if total:
        print(f"{'all':22} {good}/{total} = {good / total:.3f}")
    count = asked.healthy if asked.healthy is not None else 5 * (last - first)
    sound = [(seed, course(seed, None)) for seed in range(first, first + count)]
    sound += [(seed, sound_ranks(seed)) for seed in range(first, first + count // 4)]
    if asked.margins:
        margins([tables_of(run) for _, run in sound], None if asked.only is None else asked.only.split(","))
        return
    false, kinds = 0, Counter()
    for seed, run in sound:
        raised = alarms(points_of(run))
        false += bool(raised)
        kinds.update({p.kind.value for p in raised})
        if asked.v and raised:
            print(
                "  false",
                seed,
                run.interval,
                run.told,
                [(p.kind.value, p.column, p.step, round(p.usual, 3), round(p.value, 3)) for p in raised],
            )
    print(f"{'false alarms':22} {false}/{len(sound)} {dict(kinds)}")


GUARDS = {
    "SPIKE_SIGMA": (Values, "loss_spike"), "SPIKE_SHARE": (Values, "loss_spike"), "SKEW_SIGMA": (Values, "loss_spike"), "BRIEF_SHARE": (Values, "loss_spike"), "RISE_SIGMA": (Values, "loss_rise"),
    "RISE_SHARE": (Values, "loss_rise"), "GRAD_SIGMA": (Values, "grad_spike"), "GRAD_RATIO": (Values, "grad_spike"),
    "SHIFT_SHARE": (Pace, "step_time_shift throughput_drop"), "SHIFT_SIGMA": (Pace, "step_time_shift throughput_drop"),
    "GROWTH_SHARE": (Pace, "step_time_shift"), "TAIL_RATIO": (Pace, "step_time_tail"), "TAIL_SHARE": (Pace, "step_time_tail"), "TAIL_BEFORE": (Pace, "step_time_tail"), "STALL_RATIO": (Pace, "stall"),
    "STALL_SECONDS": (Pace, "stall"), "SLOW_SHARE": (None, "slow_rank"), "DIFFER": (None, "ranks_differ"),
    "LEAK_SHARE": (Usage, "memory_leak"), "JUMP_SHARE": (Usage, "memory_jump"), "DATA_SHARE": (Usage, "data_share"),
    "DATA_TIMES": (Usage, "data_share"), "PAUSE_RATIO": (Pace, "stall"), "ROUND_PAUSE": (Pace, "stall"), "EVEN_RATE": (Pace, "step_time_tail"),
    "WANDER_TIMES": (Pace, "throughput_drop"),
}  # fmt: skip
"""Threshold -> who uses it (None: the look between ranks), and the kinds of points that it lets through."""
FACTORS = (1.0, 0.75, 0.5, 0.25)
UPWARDS = {"EVEN_RATE"}
"""Thresholds that let more through the higher they are: these are divided by the share."""


def scattered(rng, seed, seconds):
    """Rates of steps that take so long, with texts of about one length, or, in two of three runs, of all lengths."""
    uneven = np.exp(rng.normal(0, (0.03, 0.25, 0.6)[seed % 3], len(seconds)))
    return uneven / np.where(seconds > 0, seconds, np.nan)


def drifting(rng, seed, seconds):
    """Rates by texts whose lengths follow each other: a level that comes back to its middle after 10, 33 or 100 rows, and goes 4, 8 or 15 % astray."""
    count = len(seconds)
    keep, astray = (0.9, 0.97, 0.99)[seed % 3], (0.04, 0.08, 0.15)[seed // 3 % 3]
    level = np.empty(count)
    level[0] = rng.normal(0, astray)
    for at, push in enumerate(rng.normal(0, astray * np.sqrt(1 - keep * keep), count - 1), 1):
        level[at] = keep * level[at - 1] + push
    return np.exp(level)


def by_rate(tables, seed, course=scattered):
    """A healthy run that prints a rate in the place of a step time."""
    found = []
    for table in tables:
        time = table.columns.get("step_time")
        if time is None:
            found.append(table)
            continue
        columns = {n: c for n, c in table.columns.items() if n not in {"step_time", "throughput", "tflops", "time"}}
        columns["throughput"] = time._replace(values=course(np.random.default_rng(seed), seed, time.values))
        found.append(table._replace(columns=columns))
    return found


RATES = {"EVEN_RATE": scattered, "WANDER_TIMES": drifting}
"""Thresholds of a rate alone -> how that of their healthy runs goes."""


def lowered(value, factor):
    """A threshold, or each of several, times a factor."""
    return {key: one * factor for key, one in value.items()} if isinstance(value, dict) else value * factor


def raised(tables, who, kinds):
    """Whether a healthy run raises an alarm of some kinds."""
    if who is None:
        points = between_ranks(tables)
    else:
        points = (p for table in tables for rank, steps in by_rank(table) for p in who(steps, rank).points())
    return any(p.kind.value in kinds.split() for p in points)


def margins(runs, only=None):
    """How many healthy runs raise an alarm of its kinds when one threshold is lowered to a share of itself, the others as they are."""
    alone = [tables for tables in runs if len(tables) == 1]
    many = [tables for tables in runs if len(tables) > 1]
    print(f"{len(alone)} healthy runs of one log, {len(many)} of a log for each rank")
    print(
        "| threshold | value | lets through | alarms as it is | at 0.75 | at 0.5 | at 0.25 |\n|---|---|---|---|---|---|---|"
    )
    rooms = [m for name, m in sys.modules.items() if name.startswith("firstfault.metrics.")]
    for name, (who, kinds) in GUARDS.items():
        if only is not None and name not in only:
            continue
        usual = getattr(sys.modules["firstfault.metrics.kinds"], name)
        among = many if who is None else alone
        if name in RATES:
            among = [by_rate(tables, seed, RATES[name]) for seed, tables in enumerate(alone)]
        counts = []
        for factor in FACTORS:
            for room in rooms:
                if hasattr(room, name):
                    setattr(room, name, lowered(usual, 1 / factor if name in UPWARDS else factor))
            counts.append(sum(raised(tables, who, kinds) for tables in among))
        for room in rooms:
            if hasattr(room, name):
                setattr(room, name, usual)
        shown = " | ".join(f"{n} of {len(among)}" for n in counts)
        told = " and ".join(f"{v:g}" for v in (usual.values() if isinstance(usual, dict) else [usual]))
        print(f"| `{name}` | {told} | `{kinds.replace(' ', '`, `')}` | {shown} |", flush=True)


if __name__ == "__main__":
    main()
