"""Holds the answers of all engines against each other, on any folders of cases: they have to be the same, byte for byte.

    python bench/quality/same_answer.py tests/cases tests/generated

Each case is a folder with its logs in `logs/`. Ends with 1 where two answers differ.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import distributed
import msgspec

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions


def main(roots: list[str]) -> int:
    """Prints a line for each case that differs, and the time of each engine."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        engines = ["inline", "processes", f"dask:{cluster.scheduler_address}"]
        took = dict.fromkeys(engines, 0.0)
        cases = [case for root in roots for case in sorted(Path(root).glob("*/logs"))]
        differ = 0
        for case in cases:
            answers = []
            for engine in engines:
                begun = time.perf_counter()
                answers.append(msgspec.json.encode(diagnose([case], DiagnoseOptions(engine=engine))))
                took[engine] += time.perf_counter() - begun
            if len(set(answers)) > 1:
                differ += 1
                print("differs:", case)
        for engine, seconds in took.items():
            print(f"{engine.partition(':')[0]:10} {seconds:7.1f} s")
        print(f"{len(cases)} cases, {differ} with different answers")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["tests/cases"]))
