"""How many injected faults are found at the right step, and how many healthy runs raise an alarm, by kind of point.

    python bench/metrics/quality.py --seeds 5000-5100

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

from step_series import FAULTS, FOUND_AS, course  # noqa: E402

from firstfault.metrics.points import alarms, find_points  # noqa: E402
from firstfault.metrics.read import read_source_steps  # noqa: E402
from firstfault.readers.open import open_inputs  # noqa: E402


def points_of(run):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in run.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with open_inputs([folder]) as opened:
            tables = [t for s in opened.sources if (t := read_source_steps(opened.store, s, workers=1)) is not None]
    return find_points(tables)


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
    parser.add_argument("-v", action="store_true")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    total = good = 0
    for fault in asked.fault or FAULTS:
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
    print(f"{'all':22} {good}/{total} = {good / max(total, 1):.3f}")
    count = asked.healthy if asked.healthy is not None else 5 * (last - first)
    false, kinds = 0, Counter()
    for seed in range(first, first + count):
        run = course(seed, None)
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
    print(f"{'false alarms':22} {false}/{count} {dict(kinds)}")


if __name__ == "__main__":
    main()
