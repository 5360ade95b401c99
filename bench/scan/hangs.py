"""Makes the log of a hang of a very large job and measures the whole command on it: wall, CPU, memory, and the answer.

    python bench/scan/hangs.py FOLDER [--world 16384] [--kind stall_loader] [--version 2.6] [--layout node] [--rounds 1]

FOLDER gets `logs/` and `truth.json` and is used again when it is there. Sixteen thousand ranks on 2,048 machines give about
90 MB with three or more lines of state a rank; making them takes a minute or two. CPU and memory count the children too.
Before each round a job of 16 ranks (`FOLDER/few`) is measured: what it costs has nothing to do with ranks, and what the large
one costs beyond it is the price of a rank. A machine that others use makes both dearer: the load is printed beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from run import Memory

FEW = 16
TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "generated")]


class Sampled(Memory):
    """Looks twice a second: over minutes, looking more often would cost more than it tells."""

    def run(self) -> None:
        while not self.done.wait(0.5):
            self.peak = max(self.peak, sum(map(self.of, self.tree(self.pid))))


def main() -> int:
    options = _options()
    few = options.folder / "few"
    for folder, world in ((options.folder, options.world), (few, FEW)):
        if not (folder / "truth.json").is_file():
            _make(options, folder, world)
    files = [file for file in (options.folder / "logs").rglob("*") if file.is_file()]
    truth = json.loads((options.folder / "truth.json").read_text(encoding="utf-8"))
    print(f"{len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")
    print(f"truth: {truth['category']}, ranks {truth['culprit_ranks']}, hosts {truth['culprit_hosts']}")
    right = True
    for _ in range(options.rounds):
        _, fixed = _measure(few / "logs")
        verdict, cost = _measure(options.folder / "logs")
        culprits = verdict["culprits"]
        print(
            f"said:  {verdict['category']} ({verdict['strength']}), ranks {culprits['ranks']}, hosts {culprits['hosts']}"
        )
        print(
            f"wall {cost.wall:.1f} s, CPU {cost.cpu:.1f} s, peak {cost.peak / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}"
        )
        each = (cost.cpu - fixed.cpu) / max(1, options.world - FEW)
        print(f"CPU of {FEW} ranks {fixed.cpu:.2f} s, of each further one {each * 1e3:.2f} ms")
        right = right and verdict["category"] in truth["acceptable_categories"]
        right = right and (truth["culprit_ranks"] is None or culprits["ranks"] == truth["culprit_ranks"])
    return 0 if right else 1


def _make(options: argparse.Namespace, folder: Path, world: int) -> None:
    from hangs.incident import Spec, make

    incident = make(Spec(options.kind, options.version, world, options.layout, seed=options.seed, frames=7))
    incident.write(folder)


class Cost(NamedTuple):
    """What a whole command cost."""

    wall: float
    cpu: float
    """Seconds of all its processes."""
    peak: int
    """Bytes of all its processes at once."""


def _measure(logs: Path) -> tuple[dict[str, dict[str, list[object]]], Cost]:
    """The verdict, and what it cost."""
    command = [sys.executable, "-m", "firstfault", "diagnose", str(logs), "--format", "json", "--exit-zero"]
    before = os.times()
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        memory = Sampled(process.pid)
        memory.start()
        output, _ = process.communicate()
        memory.done.set()
    wall = time.perf_counter() - start
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return json.loads(output)["verdict"], Cost(wall, cpu, memory.peak)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--world", type=int, default=16384, help="number of ranks, eight to a machine")
    parser.add_argument("--kind", default="stall_loader")
    parser.add_argument("--version", default="2.6")
    parser.add_argument("--layout", default="node")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
