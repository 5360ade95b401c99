"""Checks that a scan finds every planted line and invents none, then times it against ripgrep, interleaved.

    python bench/scan/run.py DATA [--rounds 3] [--workers 2] [--signatures DIR] [--command 'firstfault diagnose {logs}']

The rival is three passes of `rg -j2 -n -f TIER` over the same files, output to /dev/null (ripgrep 13 or later).
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from firstfault.readers.open import open_inputs
from firstfault.scan.run import scan
from firstfault.signatures.library import load_library

SCRIPT = """
import sys
from pathlib import Path
from firstfault.readers.open import open_inputs
from firstfault.scan.run import scan
from firstfault.signatures.library import load_library
library = load_library([Path(p) for p in sys.argv[3:]])
with open_inputs([sys.argv[1]]) as opened:
    result = scan(opened, library, workers=int(sys.argv[2]))
print(sum(s.lines for s in result.sources))
"""


def check(data: Path, signatures: list[Path]) -> list[str]:
    """What is wrong with the answer; empty where nothing is."""
    truth = json.loads((data / "truth.json").read_text())
    wrong = []
    with open_inputs([data / "logs"]) as opened:
        result = scan(opened, load_library(signatures))
        for found in result.sources:
            name = opened.sources[found.source].path
            expected = truth[name]
            if found.lines != expected["lines"]:
                wrong.append(f"{name}: {found.lines} lines for {expected['lines']}")
            tallies: dict[str, int] = {}
            for (signature, _), count in found.tallies.items():
                tallies[signature] = tallies.get(signature, 0) + count
            for signature in sorted({*tallies, *expected["tallies"]}):
                got, want = tallies.get(signature, 0), expected["tallies"].get(signature, 0)
                if got != want:
                    wrong.append(f"{name}: {signature} {got} times for {want}")
            places = {(hit.line, hit.signature) for hit in found.hits}
            flooded = {hit.signature for hit in found.hits if hit.count > 6}
            wrong += [
                f"{name}:{planted['line']}: {signature} not found"
                for planted in expected["planted"]
                for signature in planted["signatures"]
                if signature not in flooded and (planted["line"], signature) not in places
            ]
    return wrong


class Memory(threading.Thread):
    """Greatest memory of a process and all below it: resident pages, shared ones by share."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            self.peak = max(self.peak, sum(map(self.of, self.tree(self.pid))))

    def tree(self, pid: int) -> list[int]:
        try:
            below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return []
        return [pid, *(p for child in below for p in self.tree(int(child)))]

    @staticmethod
    def of(pid: int) -> int:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return 0


def timed(commands: list[list[str]]) -> tuple[float, int]:
    """Seconds of some commands one after the other, and the greatest memory of one."""
    peak = 0
    start = time.perf_counter()
    for command in commands:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            memory = Memory(process.pid)
            memory.start()
            process.wait()
            memory.done.set()
            peak = max(peak, memory.peak)
            if process.returncode not in {0, 1, 3}:
                sys.exit(f"{shlex.join(command)} ended with {process.returncode}")
    return time.perf_counter() - start, peak


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--signatures", type=Path, action="append", default=[])
    parser.add_argument("--command", default="")
    parser.add_argument("--no-check", action="store_true")
    options = parser.parse_args()
    logs = options.data / "logs"
    if not options.no_check:
        wrong = check(options.data, options.signatures)
        for line in wrong[:20]:
            print(line)
        if wrong:
            sys.exit(f"{len(wrong)} differences from the truth")
        print("every planted line found, none invented")
    extra = [str(s) for s in options.signatures]
    ours = [sys.executable, "-c", SCRIPT, str(logs), str(options.workers), *extra]
    if options.command:
        ours = shlex.split(options.command.format(logs=logs))
    theirs = [
        ["rg", f"-j{options.workers}", "-n", "-f", str(options.data / f"{tier}.txt"), str(logs)]
        for tier in ("killer", "loop", "io")
    ]
    size = sum(f.stat().st_size for f in logs.iterdir())
    rounds = []
    for number in range(options.rounds):
        mine, memory = timed([ours])
        other, _ = timed(theirs)
        rounds.append((mine, other))
        print(
            f"round {number + 1}: {mine:.2f} s ({size / mine / 1e9:.2f} GB/s, {memory / 1e6:.0f} MB), "
            f"ripgrep {other:.2f} s, ratio {other / mine:.2f}",
            flush=True,
        )
    if not rounds:
        return
    ratio = statistics.median(o / m for m, o in rounds)
    print(f"{size / 1e9:.2f} GB, {options.workers} processes: {ratio:.2f} times as fast as ripgrep (median)")


if __name__ == "__main__":
    main()
