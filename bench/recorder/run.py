"""Times `firstfault flight-recorder` against `torchfrtrace` on the same dumps, interleaved, with memory of all processes.

    python bench/recorder/run.py FOLDER [--rounds 3] [--culprit 37] [--rival /path/to/torchfrtrace]

Checks first that firstfault names the culprit and nobody else. Make the dumps with `bench/recorder/make.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from watched import memory

EVERY = 0.1
"""Seconds between looks at the memory."""


def timed(command: list[str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and peak bytes of a command."""
    before = os.times()
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            time.sleep(EVERY)
    wall = time.perf_counter() - start
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used, peak


def main() -> int:
    """Checks the answer, then times both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--culprit", type=int, default=37)
    parser.add_argument("--rival", default="", help="command; the folder is added")
    asked = parser.parse_args()
    own = [sys.executable, "-m", "firstfault", "flight-recorder", str(asked.folder)]
    said = subprocess.run([*own, "--format", "json"], capture_output=True, check=False)
    named = json.loads(said.stdout)["verdict"]["culprits"]["ranks"]
    if named != [asked.culprit]:
        print(f"wrong: rank {asked.culprit} is at fault, named {named}")
        return 1
    commands = {"firstfault": own}
    if asked.rival:
        commands["torchfrtrace"] = [*shlex.split(asked.rival), str(asked.folder), "-p", "nccl_trace_rank_"]
    rows: dict[str, list[tuple[float, float, int]]] = {name: [] for name in commands}
    for _ in range(asked.rounds):
        for name, command in commands.items():
            rows[name].append(timed(command))
    for name, runs in rows.items():
        walls = [r[0] for r in runs]
        print(
            f"{name}: {statistics.median(walls):.2f} s ({', '.join(f'{w:.2f}' for w in walls)}), "
            f"processor {statistics.median(r[1] for r in runs):.2f} s, peak {max(r[2] for r in runs) / 1e6:.0f} MB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
