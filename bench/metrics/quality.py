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

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "generated")]

from step_series import FAULTS, FOUND_AS, course, sound_ranks  # noqa: E402

from firstfault.metrics.points import alarms, find_points  # noqa: E402
from firstfault.metrics.read import read_source_steps  # noqa: E402
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
    parser.add_argument("-v", action="store_true")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    total = good = 0
    for fault in () if asked.margins else asked.fault or FAULTS:
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
        margins([tables_of(run) for _, run in sound])
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


THRESHOLDS = (
    "SPIKE_SIGMA", "SPIKE_SHARE", "RISE_SIGMA", "RISE_SHARE", "GRAD_SIGMA", "GRAD_RATIO", "SHIFT_SHARE", "SHIFT_SIGMA", "TAIL_RATIO",
    "TAIL_SHARE", "STALL_RATIO", "STALL_SECONDS", "SLOW_SHARE", "DIFFER", "LEAK_SHARE", "JUMP_SHARE", "DATA_SHARE", "DATA_TIMES",
)  # fmt: skip
FACTORS = (1.0, 0.75, 0.5, 0.25)


def margins(runs):
    """How many healthy runs raise an alarm when one threshold is lowered to a share of itself, the others as they are."""
    print(f"{len(runs)} healthy runs with an alarm, each threshold at {', '.join(map(str, FACTORS))} of itself")
    rooms = [m for name, m in sys.modules.items() if name.startswith("firstfault.metrics.")]
    for name in THRESHOLDS:
        usual = getattr(sys.modules["firstfault.metrics.kinds"], name)
        counts = []
        for factor in FACTORS:
            for room in rooms:
                if hasattr(room, name):
                    setattr(room, name, usual * factor)
            counts.append(sum(bool(alarms(find_points(tables))) for tables in runs))
        for room in rooms:
            if hasattr(room, name):
                setattr(room, name, usual)
        print(f"{name:14} {usual:8g}  {'  '.join(f'{n:4d}' for n in counts)}", flush=True)


if __name__ == "__main__":
    main()
