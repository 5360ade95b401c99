"""Measures the reader of memory snapshots on synthetic ones of two sizes: seconds, MiB a second, and memory at most.

    python bench/memory/run.py                 # 200,000 and 2,000,000 entries, stacks of 30 frames
    python bench/memory/run.py 50000 --depth 8

Each size is read in a process of its own; `pickle.load` of the same file, which holds everything at once, stands beside it.
The files are made here and hold nothing of a real job.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
SIZES = (200_000, 2_000_000)
STACKS = 4_000
READ = """
import os, resource, sys, time
from firstfault.readers.memory_snapshot import read_snapshot
path = sys.argv[1]
with open(path, "rb") as file:
    def read(offset, length):
        file.seek(offset)
        return file.read(length)
    begun = time.process_time()
    found = read_snapshot(read, os.path.getsize(path), 0, path)
    print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, found.devices[0].entries)
"""
LOAD = """
import pickle, resource, sys, time
begun = time.process_time()
with open(sys.argv[1], "rb") as file:
    found = pickle.load(file)
print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(found["device_traces"][0]))
"""


def make(path: Path, entries: int, depth: int) -> None:
    """Writes a snapshot as torch 2.13 would: blocks asked for and freed by a few thousand stacks of shared frames.

    A request and a free have a list of frames each, the completed free that of the free; addresses and sizes come again,
    as in the steps of a training; sixty thousand blocks are held at the end.
    """
    rng = random.Random(1)
    frames = [{"filename": f"/srv/app/part{n % 50}.py", "line": n, "name": f"work_{n}"} for n in range(3000)]
    stacks = [[frames[rng.randrange(3000)] for _ in range(depth)] for _ in range(STACKS)]
    sizes = [rng.randrange(1, 1 << 26) for _ in range(800)]
    trace: list[dict[str, Any]] = []
    letter, pool = "A", [0, 0]
    # torch makes a text and a tuple of its own for each entry.

    def note(action: str, address: int, size: int, shared: list[Any]) -> None:
        entry = {"action": action, "addr": address, "size": size, "stream": 0}
        more = {"time_us": 1_780_000_000_000_000 + 31 * len(trace), "compile_context": f"N/{letter}"}
        trace.append({**entry, **more, "user_metadata": "", "pool_id": tuple(pool), "frames": shared})

    held = {}
    for number in range(entries // 3):
        address = 0x7F0000000000 + (1 << 26) * (number % 60_000)
        size = sizes[rng.randrange(len(sizes))]
        stack = list(stacks[rng.randrange(STACKS)])
        if address in held:
            freed = list(stacks[rng.randrange(STACKS)])
            note("free_requested", address, held[address]["size"], freed)
            note("free_completed", address, held[address]["size"], freed)
        note("alloc", address, size, stack)
        held[address] = {"address": address, "size": 1 << 26, "requested_size": size, "state": "active_allocated"}
        held[address]["frames"] = stack
    blocks = list(held.values())
    segments = [
        {
            "device": 0,
            "address": own[0]["address"],
            "total_size": len(own) << 26,
            "segment_pool_id": (0, 0),
            "blocks": own,
        }
        for own in (blocks[at : at + 100] for at in range(0, len(blocks), 100))
    ]
    with path.open("wb") as file:
        pickle.dump({"segments": segments, "device_traces": [trace], "allocator_settings": {}}, file)


def measure(code: str, path: Path) -> tuple[float, float]:
    """Processor seconds and MiB of memory at most."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True, env=environment
    )
    seconds, most, _ = done.stdout.split()
    return float(seconds), int(most) / 1024


def main() -> None:
    """Prints one row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", type=int, nargs="*", default=SIZES)
    parser.add_argument("--depth", type=int, default=30, help="frames of a stack")
    asked = parser.parse_args()
    sys.stdout.write("entries      file MiB   read s   MiB/s   memory MiB   pickle.load s   memory MiB\n")
    with tempfile.TemporaryDirectory() as folder:
        for entries in asked.entries:
            path = Path(folder) / "snapshot.pickle"
            subprocess.run(
                [sys.executable, "-c", f"import run; run.make(run.Path({str(path)!r}), {entries}, {asked.depth})"],
                check=True,
                cwd=Path(__file__).parent,
            )
            size = path.stat().st_size / (1 << 20)
            seconds, memory = measure(READ, path)
            all_seconds, all_memory = measure(LOAD, path)
            sys.stdout.write(
                f"{entries:<12,} {size:8.1f} {seconds:8.1f} {size / seconds:7.1f} {memory:12.0f} {all_seconds:15.1f} {all_memory:12.0f}\n"
            )


if __name__ == "__main__":
    main()
